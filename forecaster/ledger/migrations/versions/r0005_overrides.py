"""Overrides, why a day's forecast changed, and where what a publication was made from lies."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("publications", sa.Column("desk", sa.Text))
    op.add_column("publications", sa.Column("revised_at", sa.String(32)))
    op.add_column("published", sa.Column("override", sa.JSON))
    op.add_column("published", sa.Column("change", sa.JSON))
    op.create_table(
        "overrides",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("pipeline", sa.Text, nullable=False, index=True),
        sa.Column("depot_id", sa.Text, nullable=False),
        sa.Column("target_date", sa.Date, nullable=False),
        sa.Column("orders", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("until", sa.Date, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "withdrawals",
        sa.Column("override_id", sa.Integer, sa.ForeignKey("overrides.id"), primary_key=True),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
    )
    op.create_table(
        "override_results",
        sa.Column("override_id", sa.Integer, sa.ForeignKey("overrides.id"), primary_key=True),
        sa.Column("model_orders", sa.Float, nullable=False),
        sa.Column("actual", sa.Float),
    )
