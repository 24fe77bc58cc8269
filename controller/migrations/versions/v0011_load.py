"""What the scaling policies of streams have seen."""

from alembic import op

revision = "0011"
down_revision = "0008"


def upgrade() -> None:
    """Make the column."""
    op.execute("ALTER TABLE streams ADD COLUMN load TEXT")
