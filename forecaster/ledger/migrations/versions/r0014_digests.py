"""Which morning digests were sent; links that show one depot."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.create_table(
        "digests",
        sa.Column("pipeline", sa.Text, primary_key=True),
        sa.Column("block", sa.Text, primary_key=True),
        sa.Column("depot_id", sa.Text, primary_key=True),
        sa.Column("city", sa.Text, primary_key=True),
        sa.Column("day", sa.Date, primary_key=True),
        sa.Column("publication_id", sa.Integer, nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("old", sa.Boolean, nullable=False),
        sa.Column("crews", sa.JSON, nullable=False),
    )
    op.add_column("links", sa.Column("depot_id", sa.Text))
