"""A journal: changes of streams that are not in their tables yet; marks without other indexes."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the table; bounds of marks are found by revision, with which they rise."""
    op.create_table(
        "journal",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("changes", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.drop_index("marks_by_lower", "marks")
    op.drop_index("marks_by_upper", "marks")
