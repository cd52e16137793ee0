"""What runs measured of themselves, how many runs were removed, and when a pipeline was deployed last."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("runs", sa.Column("measures", sa.JSON))
    op.create_table(
        "forgotten_runs",
        sa.Column("pipeline", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("outcome", sa.Text, primary_key=True),
        sa.Column("runs", sa.Integer, nullable=False),
    )
    op.create_table(
        "deploy_windows",
        sa.Column("pipeline", sa.Text, primary_key=True),
        sa.Column("opened_at", sa.String(32), nullable=False),
        sa.Column("closes_at", sa.String(32), nullable=False),
    )
