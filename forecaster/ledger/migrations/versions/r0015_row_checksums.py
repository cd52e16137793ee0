"""The rows of every table have a checksum in SQLite (`row_checksums`); that of published days alone is gone."""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.drop_column("published", "checksum")
