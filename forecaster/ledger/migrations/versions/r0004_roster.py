"""What a roster costs, what its vans are, and who lends them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("published", sa.Column("roster", sa.JSON))
