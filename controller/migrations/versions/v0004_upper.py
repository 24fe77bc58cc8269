"""Among marks with one upper bound the newest is found at once, however many they are."""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Order the index by revision too."""
    op.drop_index("marks_by_upper", "marks")
    op.create_index("marks_by_upper", "marks", ["stream_key", "upper", "revision"])
