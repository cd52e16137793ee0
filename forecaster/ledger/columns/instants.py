"""Instants as UTC text of fixed width, so that text order is time order in every database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect


def depot_day_columns() -> tuple[sa.Column[Any], ...]:
    """Key columns of tables in which the newest row of a depot's day counts."""
    texts = (sa.Column(name, sa.Text, primary_key=True) for name in ("pipeline", "depot_id"))
    return (*texts, sa.Column("target_date", sa.Date, primary_key=True), sa.Column("at", Instant, primary_key=True))


class Instant(sa.types.TypeDecorator[datetime]):
    """An instant as ISO text in UTC, of fixed width, so that text order is time order in every
    database."""

    impl = sa.String(32)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone; the ledger keeps instants, as in datetime.now(UTC)")
        return value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        try:
            return None if value is None else datetime.fromisoformat(value)
        except ValueError as error:
            raise sa.exc.SQLAlchemyError(f"it is damaged: found {value!r}, wanted an instant") from error
