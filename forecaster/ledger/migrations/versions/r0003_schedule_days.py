"""Crews of published schedules, and their changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "schedule_days",
        sa.Column("pipeline", sa.Text, nullable=False),
        sa.Column("depot_id", sa.Text, nullable=False),
        sa.Column("target_date", sa.Date, nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("crews", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("premium", sa.Float),
        sa.Column("saving", sa.Float),
        sa.PrimaryKeyConstraint("pipeline", "depot_id", "target_date", "at", name="pk_schedule_days"),
    )
