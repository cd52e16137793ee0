"""What notes, messages and reasons were made of, beside their English text."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    for table, name in {
        "publications": "note",
        "runs": "message",
        "promotions": "reason",
        "canaries": "reason",
    }.items():
        op.add_column(table, sa.Column(f"{name}_made_of", sa.JSON))
