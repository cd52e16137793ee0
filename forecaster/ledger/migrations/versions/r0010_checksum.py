"""By what a published day that a disk has changed is found."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("published", sa.Column("checksum", sa.BigInteger))
