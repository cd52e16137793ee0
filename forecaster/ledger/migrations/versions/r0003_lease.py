"""The lease, and what kind of run a run is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("runs", sa.Column("kind", sa.Text, nullable=False, server_default="night"))
    op.execute("update runs set kind = 'predict' where run_id like '%-predict-%'")
    op.create_table(
        "lease",
        sa.Column("pipeline", sa.Text, primary_key=True),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("taken_at", sa.String(32), nullable=False),
        sa.Column("expires_at", sa.String(32), nullable=False),
    )
