"""What the cities and the network have together."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "published_totals",
        sa.Column(
            "publication_id",
            sa.Integer,
            sa.ForeignKey("publications.publication_id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("city", sa.Text, primary_key=True),
        sa.Column("target_date", sa.Date, primary_key=True),
        sa.Column("quantiles", sa.JSON, nullable=False),
    )
