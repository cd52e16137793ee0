"""Crews that planners set by hand."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("accepted_crews", sa.Column("crews", sa.JSON(none_as_null=True)))
