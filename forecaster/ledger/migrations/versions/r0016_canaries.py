"""New models that are tried at some depots first, and which depots of a publication see one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.create_table(
        "canaries",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("pipeline", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
        sa.Column("bundle_digest", sa.Text, nullable=False),
        sa.Column("champion_digest", sa.Text, nullable=False),
        sa.Column("model_version", sa.Text),
        sa.Column("since", sa.String(32), nullable=False),
        sa.Column("cohort", sa.JSON, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("nights", sa.Integer, nullable=False),
        sa.Column("judged", sa.JSON),
        sa.Column("ended_at", sa.String(32)),
        sa.Column("by", sa.Text),
        sa.Column("reason", sa.Text),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_canaries_pipeline", "canaries", ["pipeline"])
    is_running = sa.text("state = 'running'")
    op.create_index(
        "ix_canaries_running",
        "canaries",
        ["pipeline"],
        unique=True,
        sqlite_where=is_running,
        postgresql_where=is_running,
    )
    op.add_column("published_depots", sa.Column("bundle_digest", sa.Text))
