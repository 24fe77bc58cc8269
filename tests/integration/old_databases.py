"""Databases as former versions left them, of one stream with two writers."""

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


def make(database_url: str, revision: str, statements: tuple[str, ...]) -> None:
    """Make the schema of a revision, with rows of that time."""
    with connected(database_url) as connection:
        command.upgrade(_config(connection), revision)
        for statement in statements:
            connection.exec_driver_sql(statement)
