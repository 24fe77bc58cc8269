"""Databases as former versions left them, of one stream with two writers."""

from typing import Any

import msgspec
from alembic import command

from controller.database.migration import _config
from tests.integration.sessions import connected

_CONFIG = (
    '{"segments":1,"log":"external","max_segments":1,"scaling":"fixed",'
    '"aggregation_timeout_ms":60000,"min_writers":0,"mark_interval_ms":0,'
    '"mark_resolution_ms":1000,"mark_retention_ms":null,"writer_retention_ms":604800000,'
    '"max_future_skew_ms":86400000}'
)
_TOPOLOGY = (
    '{"revision":0,"segments":[{"number":0,"low":null,"high":null,"predecessors":[],'
    '"sealed_length":null}]}'
)
_STREAM = (
    "INSERT INTO streams (key, scope, stream, stream_id, created_ms, config, topology, "
    "reporters, forgotten_incarnation) VALUES (1, 'tests', 'one', "
    f"'a220a86c-231d-4626-bcac-cc85905b81e2', 1795374377626, '{_CONFIG}', '{_TOPOLOGY}', 2, 0)"
)
_MARKS = (
    """INSERT INTO marks VALUES (1, 1, 7000, 7000, '{"0":40}', 1795374377645)""",
    """INSERT INTO marks VALUES (1, 2, 8000, 9000, '{"0":46}', 1795374377692)""",
)
AT_FIRST = (
    _STREAM,
    *_MARKS,
    """INSERT INTO writers VALUES
        (1, 'w', 0, 'live', 8000, '{"0":46}', '{}', NULL, TRUE, TRUE, NULL, 352, 1795374377692),
        (1, 'x', 0, 'live', 9000, '{"0":45}', '{}', NULL, TRUE, TRUE, NULL, NULL, 1795374377682)
    """,
    """INSERT INTO reports VALUES (1, 3, 'w', 0, 8000, '{"0":46}')""",
    """INSERT INTO reports VALUES (1, 4, 'x', 0, 9000, '{"0":45}')""",
    """INSERT INTO reports VALUES (1, 5, 'x', 0, 20000, '{"0":51}')""",
)
"""Before there were revisions: each report that may shape a mark was a row."""
IN_TABLES = (
    _STREAM,
    *_MARKS,
    """INSERT INTO writers VALUES
        (1, 'w', 0, 'live', 7000, '{"0":40}', '{}', NULL, TRUE, TRUE, NULL, 352, 1795374377645, 1),
        (1, 'x', 0, 'live', 9000, '{"0":45}', '{}', NULL, TRUE, TRUE, NULL, NULL, 1795374377682, 2)
    """,
    """INSERT INTO report_pages VALUES
        (1, 2, '[[1,"w",7000,{"0":40},1795374377645]]'),
        (1, 3, '[[2,"x",9000,{"0":45},1795374377682]]'),
        (1, 4, '[[3,"w",8000,{"0":46},1795374377692]]')
    """,
)
"""With pages of reports."""
RECENT_IN_TABLES = (
    """INSERT INTO marks VALUES (1, 3, 9000, 9000, '{"0":47}', 1795374379065)""",
    """INSERT INTO report_pages VALUES
        (1, 6, '[[4,"x",9500,{"0":50},1795374379044]]'),
        (1, 7, '[[5,"w",9000,{"0":47},1795374379065]]'),
        (1, 8, '[[6,"x",20000,{"0":51},1795374379082]]')
    """,
)
"""What happened next, on PostgreSQL."""
RECENT_IN_JOURNAL = tuple(
    f"INSERT INTO journal VALUES ({number}, '{changes}')"
    for number, changes in (
        (
            5,
            '[[],[[1,1,[1,[],{"6":"[[4,\\"x\\",9500,{\\"0\\":50},1795374379044]]"},[],[],{},{},null,1]]]]',
        ),
        (
            6,
            (
                '[[],[[1,3,[1,[[1,3,9000,9000,"{\\"0\\":47}",1795374379065]],'
                '{"7":"[[5,\\"w\\",9000,{\\"0\\":47},1795374379065]]"},[],[],{},{"w":1086},null,3]]]]'
            ),
        ),
        (
            7,
            '[[],[[1,1,[1,[],{"8":"[[6,\\"x\\",20000,{\\"0\\":51},1795374379082]]"},[],[],{},{},null,1]]]]',
        ),
    )
)
"""The same, on SQLite: in front of the tables."""
_REPORTED = (True, True)
_SPOKE_MS = 1795374377645
_LOGGED: tuple[list[Any], ...] = (
    [
        [],
        [],
        [
            (
                "gone",
                0,
                "expired",
                5000,
                {0: 9},
                {},
                None,
                *_REPORTED,
                300,
                None,
                _SPOKE_MS,
                [],
            ),
            ("new", 1, "live", None, {}, {}, None, False, False, None, 352, _SPOKE_MS, []),
            ("off", 0, "left", 6000, {0: 9}, {}, None, *_REPORTED, 310, None, _SPOKE_MS, []),
            ("w", 0, "live", 7000, {0: 40}, {}, None, *_REPORTED, None, None, _SPOKE_MS, []),
            (
                *("x", 0, "live", 9000, {0: 45}, {}, None, *_REPORTED, None, None, _SPOKE_MS),
                [(9000, {0: 45})],
            ),
        ],
        {},
        (4, 0),
        {},
    ],
    [[("w", 8000, {0: 46}, _SPOKE_MS)], [], [], {"w": 352}, None, {}],
)
"""What a changelog said of writers: one expired, one left, two behind, and one ahead of them."""
_LONG_AFTER_MS = 10_000_000


def in_changelog(database_url: str) -> tuple[str, ...]:
    """Write what is in a changelog; on SQLite it is shared, also with a stream that was deleted."""
    encode = msgspec.msgpack.encode
    first, second = (encode(entry) for entry in _LOGGED)
    stream = _STREAM.replace(", reporters, forgotten_incarnation", "").replace(", 2, 0)", ")")
    if database_url.startswith("sqlite"):
        rows = (
            (0, 3, encode([(2, first), (1, first)])),
            (0, 4, encode([(2, b""), (1, second)])),
        )
        later = f"INSERT INTO listening VALUES (1, {_LONG_AFTER_MS})"
        literal = "X'{}'"
    else:
        rows = ((1, 3, first), (1, 4, second))
        later = f"UPDATE streams SET listening_ms = {_LONG_AFTER_MS}"
        literal = r"'\x{}'"
    insert = "INSERT INTO changelog VALUES ({}, {}, " + literal + ")"
    logged = (insert.format(key, number, text.hex()) for key, number, text in rows)
    return (stream, *_MARKS, *logged, later)


def make(database_url: str, revision: str, statements: tuple[str, ...]) -> None:
    """Make the schema of a revision, with rows of that time."""
    with connected(database_url) as connection:
        command.upgrade(_config(connection), revision)
        for statement in statements:
            connection.exec_driver_sql(statement)
