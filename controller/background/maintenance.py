"""Work in the background, a little at a time: silent readers, logs, old answers."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from controller.clocks import Clocks
from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.database import Database
from controller.groups import Groups, read_logs
from controller.log import storage as log_storage
from controller.log.compaction import Compactor
from controller.streams.registry import Registry
from controller.streams.truncation import apply_retention
from tidegauge import errors
from tidegauge.groups import go_offline

_log = logging.getLogger(__name__)
_PERIOD_S = 2.0  # who is dead after some seconds is noticed soon enough
_STREAMS_AT_ONCE = 100  # a fraction of a millisecond, in which nobody else has a turn
_ANSWERS_AT_ONCE = 1_000
"""Roughly how many idempotency keys run out in two seconds, if many do."""
_ANSWERS_KEPT_MS = 86_400_000
"""A day: nobody repeats a request after that."""


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Looks at every stream and reader group now and then."""

    _registry: Registry
    _groups: Groups
    _sequencer: Sequencer
    _database: Database
    _compactor: Compactor
    _clocks: Clocks

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(_PERIOD_S)
            await self._take_silent_offline()
            await self._look_after_logs()
            before_ms = self._clocks.now().wall_ms - _ANSWERS_KEPT_MS
            delete = partial(log_storage.delete_answers, before_ms=before_ms)
            self._sequencer.submit_quietly(
                partial(Batch.write, work=delete, rows=_ANSWERS_AT_ONCE)
            )

    async def _take_silent_offline(self) -> None:
        """Take silent readers offline; while the database is away, that waits for the next look."""
        now_ms = self._clocks.now().listening_ms
        silent = [
            (group, reader, member.epoch)
            for group in self._groups
            for reader, heard_ms in group.heard.items()
            if now_ms - heard_ms > group.settings.dead_after_ms
            and (member := group.state.readers.get(reader)) is not None
        ]
        for group, reader, epoch in silent:
            try:
                logs = await read_logs(self._registry, group.settings)
            except (
                errors.UnknownStreamError,
                errors.StreamReplacedError,
                errors.UnavailableError,
            ):
                continue  # where nothing is left to read, it learns so by its next call
            _log.warning("reader silent", extra={"group": str(group.name), "reader": reader})
            offline = partial(
                go_offline, reader=reader, epoch=epoch, topologies=logs.topologies
            )
            change = partial(self._groups.change, group.name, offline, logs=logs)
            self._sequencer.submit_quietly(partial(_unless_gone, change))

    async def _look_after_logs(self) -> None:
        """Drop what the retention of streams lets go, and merge small chunks of the rest."""
        for index, state in enumerate(list(self._registry)):
            if index % _STREAMS_AT_ONCE == 0:
                await asyncio.sleep(0)  # of many streams most have nothing to wait for
            if state.published_tails is None:
                continue
            try:
                await apply_retention(self._database, state)
                await self._compactor.compact(state.identity.key, state.published_tails)
            except (errors.OutcomeUnknownError, errors.UnavailableError) as error:
                # The database has logged all of it already.
                _log.debug("a log is not looked after yet: %s", error)
            except errors.TidegaugeError:
                _log.exception("maintenance failed", extra={"stream": str(state.identity.name)})


def _unless_gone(change: Callable[[Batch], object], batch: Batch) -> None:
    # Meanwhile the reader may have left, its name been taken over (whoever did stays: its epoch
    # is another one), or the group been deleted.
    with suppress(
        errors.ReaderFencedError, errors.UnknownGroupError, errors.UnknownReaderError
    ):
        change(batch)
