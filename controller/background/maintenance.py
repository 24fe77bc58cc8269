"""Work in the background, a little at a time: compaction, old answers."""

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from controller.commit.batch import Batch
from controller.log import storage as log_storage
from controller.log.compaction import Compactor
from tidegauge.errors import OutcomeUnknownError, TidegaugeError, UnavailableError

if TYPE_CHECKING:
    from controller.service import Service

_log = logging.getLogger(__name__)
_PERIOD_S = 2.0
_STREAMS_AT_ONCE = 100
_ANSWERS_AT_ONCE = 1_000
_ANSWERS_KEPT_MS = 86_400_000


async def maintain_streams(service: "Service") -> None:
    """Look at every stream now and then, until cancelled."""
    compactor = Compactor(service.database)
    while True:
        await asyncio.sleep(_PERIOD_S)
        await service.groups.take_dead_offline()
        await _compact(service, compactor)
        before_ms = service.clocks.now().wall_ms - _ANSWERS_KEPT_MS
        service.submit_quietly(partial(_delete_answers, before_ms))


async def _compact(service: "Service", compactor: Compactor) -> None:
    for at, state in enumerate(list(service.registry)):
        if at % _STREAMS_AT_ONCE == 0:
            await asyncio.sleep(0)  # of many streams most have nothing to wait for
        if state.published_tails:
            try:
                await compactor.compact(state.identity.key, state.published_tails)
            except (OutcomeUnknownError, UnavailableError) as error:
                _log.debug("nothing is compacted yet: %s", error)  # the database told all of it
            except TidegaugeError:
                _log.exception("maintenance failed", extra={"stream": str(state.identity.name)})


def _delete_answers(before_ms: int, batch: Batch) -> None:
    batch.write(partial(log_storage.delete_answers, before_ms=before_ms), rows=_ANSWERS_AT_ONCE)
