"""Puts a controller together: the one place that knows what everything is made of."""

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
from controller.cluster import Ownership, SharedOwnership, SoleOwnership
from controller.cluster.listing import Listing
from controller.cluster.membership import Membership
from controller.commit.sequencer import Sequencer
from controller.commit.waiting import WaitingRoom
from controller.configuration import ServeSettings
from controller.database import Database, PostgresDatabase, open_database
from controller.groups import GroupCreation, Groups
from controller.log.compaction import Compactor
from controller.metrics.counters import Metrics
from controller.metrics.gauges import Gauges
from controller.metrics.health import Health
from controller.store.changelog import Changelogs
from controller.store.streams import write_stamps
from controller.streams.lease import FileLock
from controller.streams.registry import Registry
from tidegauge.retention import parse_thinning


@dataclass(frozen=True, slots=True)
class Parts:
    """What a controller is made of; each part takes those that it uses, and none takes all."""

    settings: ServeSettings
    database: Database
    sequencer: Sequencer
    clocks: Clocks
    limits: Limits
    registry: Registry
    groups: Groups
    group_creation: GroupCreation
    ownership: Ownership
    listing: Listing
    waiting: WaitingRoom
    metrics: Metrics
    gauges: Gauges
    health: Health
    stamping: Stamping
    work: Mapping[str, Callable[[], Coroutine[Any, Any, None]]]
    """What goes on in the background, by name, besides stamping."""


def compose(
    settings: ServeSettings, *, address: str = "", database: Database | None = None
) -> Parts:
    """Make everything over a database, which is opened as the settings say unless one is given.

    Nothing runs yet. ``address`` is where other controllers of the same database reach this one.
    """
    if database is None:
        database = open_database(settings.database_url, max_bytes=settings.max_database_bytes)
    sequencer, limits = Sequencer(database), Limits(settings)
    ownership: Ownership
    if isinstance(database, PostgresDatabase):  # it may hold a share of the streams
        membership = Membership(database, address=address, lease_ms=settings.lease_ms)
        clocks = Clocks(ListeningClock(), membership.write_stamps)
        registry = Registry(database, sequencer, clocks, limits, Changelogs())
        groups = Groups(database, clocks, limits, membership)
        ownership = SharedOwnership(membership, registry, groups, sequencer, database)
    else:
        clocks = Clocks(ListeningClock(), write_stamps)
        registry = Registry(database, sequencer, clocks, limits, Changelogs())
        groups = Groups(database, clocks, limits, FileLock())
        ownership = SoleOwnership(registry, groups, sequencer, database)
    metrics, waiting = Metrics(), WaitingRoom(settings.max_long_polls)
    listening, lease = clocks.listening, ownership.lease
    stamping = Stamping(listening, lease, sequencer, database, ownership.keep_stamp)
    maintenance = Maintenance(registry, sequencer, database, Compactor(database), clocks)
    most_series, max_stall_s = settings.metrics_streams, settings.max_stall_ms / 1_000

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
        ownership=ownership,
        listing=Listing(registry, groups, ownership, sequencer, database),
        waiting=waiting,
        metrics=metrics,
        gauges=Gauges(registry, groups, ownership, sequencer, waiting, most_series=most_series),
        health=Health(database, sequencer, listening, max_stall_s=max_stall_s),
        stamping=stamping,
        work={
            "the maintenance of streams": maintenance.run,
            "taking silent readers offline": SilentReaders(
                registry, groups, sequencer, clocks
            ).run,
            "the sweeping of marks": sweeper.run,
            "the scaling of streams": Scaler(registry, sequencer).run,
            "the purging of what was deleted": Purger(database, registry, lease, Pace()).run,
        },
    )
