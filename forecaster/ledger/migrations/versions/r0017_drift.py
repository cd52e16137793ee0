"""How what came lies under what was forecast, day by day, and what drifts as of the last night."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.create_table(
        "drift_days",
        sa.Column("pipeline", sa.Text, primary_key=True),
        sa.Column("day", sa.Date, primary_key=True),
        sa.Column("scores", sa.JSON, nullable=False),
    )
    op.create_table(
        "drifts",
        sa.Column("pipeline", sa.Text, primary_key=True),
        sa.Column("part", sa.Text, primary_key=True),
        sa.Column("label", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("direction", sa.Integer, nullable=False),
        sa.Column("since", sa.Date, nullable=False),
        sa.Column("through", sa.Date, nullable=False),
        sa.Column("value", sa.Float, nullable=False),
        sa.Column("usual", sa.Float),
    )
