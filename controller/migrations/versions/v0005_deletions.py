"""Deleted streams whose rows are removed in the background."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the table."""
    op.execute("CREATE TABLE deleted_streams (key INTEGER NOT NULL, PRIMARY KEY (key))")
