"""Schema revision of the ledger that this program knows, and the table in which a ledger stores its
own."""

from __future__ import annotations

import sqlalchemy as sa

FIRST, REVISION = "0008", "0008"  # of those that this program opens
# not alembic's default name, which other tools in the same database use
REVISION_TABLE = "forecaster_revision"
# As alembic creates it; not part of the ledger's metadata.
revisions = sa.Table(
    REVISION_TABLE,
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name=f"{REVISION_TABLE}_pkc"),
)
