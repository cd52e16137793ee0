"""Sealed digests of publications that cover all that readers see. Earlier publications lose theirs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("publications", sa.Column("rows_seal", sa.Text))
    op.execute("update publications set rows_digest = null")
