"""Totals of groups at any level, and of weeks. Their keys include the level and the number of days,
so the rows move to a new table."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("published_depots", sa.Column("weeks", sa.JSON(none_as_null=True)))
    op.execute("create table published_city_totals as select * from published_totals")
    op.drop_table("published_totals")
    publication = sa.ForeignKey("publications.publication_id", ondelete="CASCADE")
    op.create_table(
        "published_totals",
        sa.Column("publication_id", sa.Integer, publication, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("target_date", sa.Date, primary_key=True),
        sa.Column("quantiles", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("level", sa.Text, primary_key=True),
        sa.Column("days", sa.Integer, primary_key=True, autoincrement=False),
    )
    op.execute(
        "insert into published_totals (publication_id, name, target_date, quantiles, level, days) "
        "select publication_id, city, target_date, quantiles, 'city', 1 from published_city_totals"
    )
    op.drop_table("published_city_totals")
