"""Crews that planners accept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "accepted_crews",
        sa.Column("pipeline", sa.Text, nullable=False),
        sa.Column("depot_id", sa.Text, nullable=False),
        sa.Column("target_date", sa.Date, nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("drivers", sa.Integer, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("withdrawn_at", sa.String(32)),
        sa.PrimaryKeyConstraint("pipeline", "depot_id", "target_date", "at", name="pk_accepted_crews"),
    )
