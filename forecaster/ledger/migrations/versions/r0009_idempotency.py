"""Which writes of the page were done under which key, and how they were answered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("pipeline", sa.Text, primary_key=True),
        sa.Column("who", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("answer", sa.JSON, nullable=False),
    )
