"""Revision of the ledger's schema that this program knows, and the table in which a ledger names its own."""

from __future__ import annotations

import sqlalchemy as sa

REVISION = "0007"
# not alembic's own name: other tools in the same database use that one
REVISION_TABLE = "forecaster_revision"
# As alembic makes it, and no table of the ledger's.
revisions = sa.Table(
    REVISION_TABLE,
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name=f"{REVISION_TABLE}_pkc"),
)
