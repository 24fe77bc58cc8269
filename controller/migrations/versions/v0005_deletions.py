"""Deleted streams whose rows are removed in the background."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "deleted_streams",
        sa.Column("key", sa.Integer(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
