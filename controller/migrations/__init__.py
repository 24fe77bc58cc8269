"""The revisions of the schema, applied by Alembic."""
