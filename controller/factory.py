"""Puts a tenure together: the one place that knows what everything is made of."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from controller.access.limits import Limits
from controller.background.maintenance import Maintenance
from controller.background.purging import Pace, Purger
from controller.background.retention import Sweeper
from controller.background.scaling import Scaler
from controller.background.silence import SilentReaders
from controller.background.stamping import Stamping
from controller.clocks import Clocks, ListeningClock
from controller.cluster import Right
from controller.commit.sequencer import Sequencer
from controller.commit.waiting import WaitingRoom
from controller.configuration import ServeSettings
from controller.database import Database
from controller.groups import GroupCreation, Groups
from controller.listing import Listing
from controller.log.compaction import Compactor
from controller.metrics.counters import Metrics
from controller.metrics.gauges import Gauges
from controller.metrics.health import Health
from controller.overview import Overview
from controller.store.changelog import Changelogs
from controller.streams.registry import Registry
from tidegauge.retention import parse_thinning


@dataclass(frozen=True, slots=True)
class Parts:
    """What a tenure is made of; each part takes those that it uses, and none takes all."""

    settings: ServeSettings
    database: Database
    sequencer: Sequencer
    clocks: Clocks
    limits: Limits
    registry: Registry
    groups: Groups
    group_creation: GroupCreation
    listing: Listing
    overview: Overview
    waiting: WaitingRoom
    gauges: Gauges
    health: Health
    stamping: Stamping
    is_certain: Callable[[], bool]
    """Whether memory may be read: nobody else can have taken over, and the tenure has not ended."""
    work: Mapping[str, Callable[[], Coroutine[Any, Any, None]]]
    """What goes on in the background, by name, besides stamping."""


def compose(
    settings: ServeSettings,
    database: Database,
    *,
    right: Right | None = None,
    metrics: Metrics | None = None,
) -> Parts:
    """Make everything over a database that is held; nothing runs yet.

    Nothing of it outlives the tenure but ``metrics``, which count on. Without a ``right``, nobody
    else can hold the database.
    """
    metrics = metrics or Metrics()

    def is_certain() -> bool:
        return not health.ended and (right is None or right.is_certain)

    sequencer, limits = Sequencer(database, is_certain), Limits(settings)
    clocks = Clocks(ListeningClock())
    max_stall_s = settings.max_stall_ms / 1_000
    health = Health(database, sequencer, clocks.listening, max_stall_s=max_stall_s)
    registry = Registry(database, sequencer, clocks, limits, Changelogs())
    groups = Groups(database, clocks, limits)
    listing = Listing(registry, groups, sequencer)
    waiting = WaitingRoom(settings.max_long_polls)
    stamping = Stamping(registry, sequencer, database, is_certain)
    maintenance = Maintenance(
        registry,
        sequencer,
        database,
        Compactor(database),
        clocks,
        settings.hold_retention_ms or None,
    )
    most_series = settings.metrics_streams

    def note_failure() -> None:
        metrics.tally["commit_failures"] += 1
        stamping.note_failure()

    sequencer.on_batch, sequencer.on_failure = metrics.count_batch, note_failure
    registry.on_pass = metrics.count_pass
    sweeper = Sweeper(registry, database, parse_thinning(settings.mark_thinning), Pace())
    return Parts(
        settings=settings,
        database=database,
        sequencer=sequencer,
        clocks=clocks,
        limits=limits,
        registry=registry,
        groups=groups,
        group_creation=GroupCreation(groups, registry, sequencer, database),
        listing=listing,
        overview=Overview(listing, sequencer, clocks),
        waiting=waiting,
        gauges=Gauges(registry, groups, sequencer, waiting, most_series=most_series),
        health=health,
        stamping=stamping,
        is_certain=is_certain,
        work={
            "the maintenance of streams": maintenance.run,
            "taking silent readers offline": SilentReaders(
                registry, groups, sequencer, clocks
            ).run,
            "the sweeping of marks": sweeper.run,
            "the scaling of streams": Scaler(registry, sequencer).run,
            "the purging of what was deleted": Purger(
                database, registry, is_certain, Pace()
            ).run,
        },
    )
