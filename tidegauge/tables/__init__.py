"""Lakehouse tables that know how far they are complete, read without Spark.

A table is a Delta table by its address, or with ``catalog=`` an Iceberg table by its name. With
``url=`` and ``stream=`` the marks of the service are taken, otherwise the notes of commits. Needs
the extra ``tables``.
"""

import typing

from tidegauge import extras as _extras

if typing.TYPE_CHECKING:
    from tidegauge.intervals import GoneError, Interval, TooManyIntervalsError
    from tidegauge.tables.asking import (
        complete_until,
        first_note,
        newest_note,
        note,
        version_at,
        wait_for,
    )
    from tidegauge.tables.errors import (
        IncompleteTableError,
        InvalidNoteError,
        TableError,
        TooOldError,
        TwoJobsError,
        UnreadableTableError,
    )
    from tidegauge.tables.history import Commit
    from tidegauge.tables.listing import intervals
    from tidegauge.tables.notes import Note
    from tidegauge.tables.work import WorkList
else:
    _ASKING = ["complete_until", "first_note", "newest_note", "note", "version_at", "wait_for"]
    _ERRORS = [
        "IncompleteTableError",
        "InvalidNoteError",
        "TableError",
        "TooOldError",
        "TwoJobsError",
        "UnreadableTableError",
    ]
    _INTERVALS = ["GoneError", "Interval", "TooManyIntervalsError"]
    # Executors of Spark import parts of this package, and need not load its clients.
    _NAMES = {
        "tables": dict.fromkeys(_ASKING, "tidegauge.tables.asking")
        | {"intervals": "tidegauge.tables.listing"},
        None: dict.fromkeys(_ERRORS, "tidegauge.tables.errors")
        | dict.fromkeys(_INTERVALS, "tidegauge.intervals")
        | {
            "Commit": "tidegauge.tables.history",
            "Note": "tidegauge.tables.notes",
            "WorkList": "tidegauge.tables.work",
        },
    }
    __getattr__, __dir__ = _extras.on_demand(__name__, _NAMES)

__all__ = [
    "Commit",
    "GoneError",
    "IncompleteTableError",
    "Interval",
    "InvalidNoteError",
    "Note",
    "TableError",
    "TooManyIntervalsError",
    "TooOldError",
    "TwoJobsError",
    "UnreadableTableError",
    "WorkList",
    "complete_until",
    "first_note",
    "intervals",
    "newest_note",
    "note",
    "version_at",
    "wait_for",
]
