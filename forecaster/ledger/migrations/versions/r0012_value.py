"""What each way to roster cost, day by day and city by city; what a run computed, and what an hour of it costs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "value_days",
        sa.Column("pipeline", sa.Text, primary_key=True),
        sa.Column("day", sa.Date, primary_key=True),
        sa.Column("basis", sa.Text, nullable=False),
        sa.Column("currency", sa.Text),
        sa.Column("backfilled", sa.Boolean, nullable=False),
        sa.Column("overridden", sa.Integer, nullable=False),
        sa.Column("buffer", sa.Text, nullable=False),
        sa.Column("buffer_costs", sa.JSON, nullable=False),
    )
    op.create_table(
        "value_costs",
        sa.Column("pipeline", sa.Text, primary_key=True),
        sa.Column("day", sa.Date, primary_key=True),
        sa.Column("city", sa.Text, primary_key=True),
        sa.Column("way", sa.Text, primary_key=True),
        sa.Column("week", sa.Date, nullable=False),
        sa.Column("month", sa.Date, nullable=False),
        sa.Column("cost", sa.Float, nullable=False),
        sa.Column("short", sa.Integer, nullable=False),
        sa.Column("idle", sa.Integer, nullable=False),
        sa.Column("drivers", sa.Integer, nullable=False),
        sa.Column("depots", sa.Integer, nullable=False),
    )
    op.add_column("runs", sa.Column("computing", sa.JSON))
