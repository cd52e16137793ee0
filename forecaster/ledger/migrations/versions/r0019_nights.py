"""The scheduled instant of the night that a run belongs to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.add_column("runs", sa.Column("night", sa.String(32)))
