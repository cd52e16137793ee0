"""What was shown when, links of wall screens, and who wrote what."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "shown",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("pipeline", sa.Text, nullable=False),
        sa.Column("publication_id", sa.Integer, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_shown_pipeline", "shown", ["pipeline"])
    # of steps back before today nothing is known; each publication was shown when it came out
    op.execute(
        "insert into shown (at, pipeline, publication_id) "
        "select published_at, pipeline, publication_id from publications order by publication_id"
    )
    op.create_table(
        "links",
        sa.Column("link_id", sa.Text, primary_key=True),
        sa.Column("pipeline", sa.Text, nullable=False),
        sa.Column("view", sa.Text, nullable=False),
        sa.Column("city", sa.Text),
        sa.Column("made_at", sa.String(32), nullable=False),
        sa.Column("made_by", sa.Text, nullable=False),
        sa.Column("expires_at", sa.String(32), nullable=False),
        sa.Column("revoked_at", sa.String(32)),
        sa.Column("revoked_by", sa.Text),
    )
    op.create_index("ix_links_pipeline", "links", ["pipeline"])
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("pipeline", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("who", "role", "address", "method", "path", "what")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_pipeline", "audit", ["pipeline"])
