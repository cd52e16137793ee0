"""Digests of publications cover all that readers see, and are sealed. Publications of before have none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("publications", sa.Column("rows_seal", sa.Text))
    op.execute("update publications set rows_digest = null")
