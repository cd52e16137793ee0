"""People's shifts set by hand, and people's answers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "person_days",
        sa.Column("pipeline", sa.Text, nullable=False),
        sa.Column("depot_id", sa.Text, nullable=False),
        sa.Column("target_date", sa.Date, nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("shift", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("withdrawn_at", sa.String(32)),
        sa.PrimaryKeyConstraint("pipeline", "depot_id", "target_date", "at", "person", name="pk_person_days"),
    )
