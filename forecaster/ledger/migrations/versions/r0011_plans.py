"""Who works which shift of the days of a publication."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "published_plans",
        sa.Column(
            "publication_id",
            sa.Integer,
            sa.ForeignKey("publications.publication_id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("depot_id", sa.Text, primary_key=True),
        sa.Column("plan", sa.JSON, nullable=False),
    )
