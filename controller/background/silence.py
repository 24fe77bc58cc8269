"""Readers that are silent for too long go offline, and their segments to others."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from controller.clocks import STAMP_MS, Clocks
from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.groups import Groups, read_logs
from controller.streams.registry import Registry
from tidegauge import errors
from tidegauge.groups import go_offline

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SilentReaders:
    """Takes silent readers offline, whatever else goes on in the background and however long."""

    _registry: Registry
    _groups: Groups
    _sequencer: Sequencer
    _clocks: Clocks

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await asyncio.sleep(STAMP_MS / 1_000)  # the clock that judges them is no finer
            await self.take_offline()

    async def take_offline(self) -> None:
        """Take silent readers offline; while the database is away, wait for the next check."""
        now_ms = self._clocks.now().listening_ms
        silent = [
            (group, reader, member.epoch)
            for group in self._groups
            for reader, heard_ms in group.heard.items()
            if now_ms - heard_ms > group.settings.dead_after_ms
            and (member := group.state.readers.get(reader)) is not None
        ]
        submitted = set()
        for group, reader, epoch in silent:
            try:
                logs = read_logs(self._registry, group.settings)
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
            submitted.add(self._sequencer.submit_quietly(partial(_unless_gone, change)))
        if submitted:
            await asyncio.wait(submitted)  # else the next check would find them silent again


def _unless_gone(change: Callable[[Batch], object], batch: Batch) -> None:
    # Meanwhile the reader may have left, its name been taken over (whoever did stays: its epoch
    # is another one), or the group been deleted.
    with suppress(
        errors.ReaderFencedError, errors.UnknownGroupError, errors.UnknownReaderError
    ):
        change(batch)
