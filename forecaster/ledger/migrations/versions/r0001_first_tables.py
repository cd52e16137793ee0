"""Runs, publications, the slot that says which one is shown, and promotions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("pipeline", sa.Text, nullable=False),
        sa.Column("started_at", sa.String(32), nullable=False),
        sa.Column("finished_at", sa.String(32)),
        sa.Column("as_of", sa.String(32), nullable=False),
        sa.Column("spec_digest", sa.Text, nullable=False),
        sa.Column("lake_versions", sa.JSON, nullable=False),
        sa.Column("bundle_digest", sa.Text),
        sa.Column("tier", sa.Text),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("exit_code", sa.Integer),
        sa.Column("findings", sa.JSON, nullable=False),
        sa.Column("timings", sa.JSON, nullable=False),
        sa.Column("verdict", sa.JSON),
        sa.Column("message", sa.Text),
    )
    op.create_index("ix_runs_pipeline", "runs", ["pipeline"])
    op.create_table(
        "publications",
        sa.Column("publication_id", sa.Integer, primary_key=True),
        sa.Column("pipeline", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
        sa.Column("published_at", sa.String(32), nullable=False),
        sa.Column("as_of", sa.String(32), nullable=False),
        sa.Column("cutoff", sa.Date, nullable=False),
        sa.Column("horizon", sa.Integer, nullable=False),
        sa.Column("tier", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("bundle_digest", sa.Text),
        sa.Column("timezone", sa.Text, nullable=False),
        sa.Column("levels", sa.JSON, nullable=False),
        sa.Column("title", sa.Text),
        sa.Column("note", sa.Text),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_publications_pipeline", "publications", ["pipeline"])
    op.create_table(
        "published_depots",
        sa.Column(
            "publication_id",
            sa.Integer,
            sa.ForeignKey("publications.publication_id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("depot_id", sa.Text, primary_key=True),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("attributes", sa.JSON, nullable=False),
        sa.Column("recent", sa.JSON, nullable=False),
        sa.Column("marks", sa.JSON, nullable=False),
    )
    op.create_table(
        "published",
        sa.Column(
            "publication_id",
            sa.Integer,
            sa.ForeignKey("publications.publication_id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("depot_id", sa.Text, primary_key=True),
        sa.Column("target_date", sa.Date, primary_key=True),
        sa.Column("horizon", sa.Integer, nullable=False),
        sa.Column("open", sa.Boolean, nullable=False),
        sa.Column("quantiles", sa.JSON, nullable=False),
        sa.Column("drivers", sa.Integer),
    )
    op.create_table(
        "slot",
        sa.Column("pipeline", sa.Text, primary_key=True),
        sa.Column("publication_id", sa.Integer, sa.ForeignKey("publications.publication_id"), nullable=False),
        sa.Column("previous_id", sa.Integer, sa.ForeignKey("publications.publication_id")),
        sa.Column("flipped_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "promotions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("pipeline", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
        sa.Column("bundle_digest", sa.Text, nullable=False),
        sa.Column("model_version", sa.Text),
        sa.Column("previous_digest", sa.Text),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_promotions_pipeline", "promotions", ["pipeline"])
