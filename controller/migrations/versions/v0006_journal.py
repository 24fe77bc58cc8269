"""A journal: changes of streams that are not in their tables yet; marks without other indexes."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the table; bounds of marks are found by revision, with which they rise."""
    op.execute(
        "CREATE TABLE journal (number BIGINT NOT NULL, changes TEXT NOT NULL, PRIMARY KEY (number))"
    )
    op.drop_index("marks_by_lower", "marks")
    op.drop_index("marks_by_upper", "marks")
