"""What came of earlier forecasts; a published depot's own time zone, and its tier where it is not the publication's."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "hindsight",
        sa.Column("pipeline", sa.Text, primary_key=True),
        sa.Column("week", sa.Date, primary_key=True),
        sa.Column("model", sa.Text, primary_key=True),
        sa.Column("part", sa.Text, primary_key=True),
        sa.Column("label", sa.Text, primary_key=True),
        sa.Column("days", sa.Integer, nullable=False),
        sa.Column("actual", sa.Float, nullable=False),
        sa.Column("error", sa.Float, nullable=False),
        sa.Column("absolute", sa.Float, nullable=False),
        sa.Column("covered", sa.Integer),
    )
    op.add_column("published_depots", sa.Column("timezone", sa.Text))
    op.add_column("published_depots", sa.Column("tier", sa.Text))
