"""Append-only audit log of overrides in the ledger: who changed which day, when, why and until
when.

Its rows are never changed or deleted; a withdrawal is a row of its own. Next to it,
`override_results` holds what follows from the publications: the model's number in the last one
before the day, and the actual. Every function works on a connection whose transaction the caller
holds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime

import sqlalchemy as sa

from forecaster.core.language import _
from forecaster.errors import OverrideError
from forecaster.ledger import tables
from forecaster.planning.overrides import Override, ProposedOverride
from forecaster.planning.value_added import Result

MOST_NAMED = 500  # maximum number of depots that a query names; for more, all are read


def write(connection: sa.Connection, pipeline: str, proposed: ProposedOverride, at: datetime) -> Override:
    """Store an override; it replaces an earlier one of the same depot and day."""
    row = {"pipeline": pipeline, "at": at, "depot_id": proposed.depot_id, "target_date": proposed.target_date}
    row |= {
        "orders": proposed.orders,
        "reason": proposed.reason,
        "note": proposed.note,
        "by": proposed.by,
        "until": proposed.last,
    }
    key = connection.execute(tables.overrides.insert().values(**row)).inserted_primary_key
    assert key is not None
    return _read_one(connection, pipeline, key[0])


def read_same(
    connection: sa.Connection, pipeline: str, proposals: Sequence[ProposedOverride]
) -> tuple[Override | None, ...]:
    """For each proposal, the identical override if it is the newest of its depot and day and was
    not withdrawn; otherwise None."""
    columns, days = tables.overrides.c, [proposed.target_date for proposed in proposals]
    query = _query(pipeline).where(columns.target_date.between(min(days), max(days))).order_by(columns.id)
    depot_ids = {proposed.depot_id for proposed in proposals}
    if len(depot_ids) <= MOST_NAMED:
        query = query.where(columns.depot_id.in_(depot_ids))
    overrides = [Override(**row) for row in connection.execute(query).mappings()]
    newest = {(override.depot_id, override.target_date): override for override in overrides}
    return tuple(_same(newest.get((proposed.depot_id, proposed.target_date)), proposed) for proposed in proposals)


def _same(override: Override | None, proposed: ProposedOverride) -> Override | None:
    if override is None or override.withdrawn is not None:
        return None
    proposed_values = (proposed.orders, proposed.reason, proposed.note, proposed.by, proposed.last)
    same = (override.orders, override.reason, override.note, override.by, override.until) == proposed_values
    return override if same else None


def withdraw(
    connection: sa.Connection, pipeline: str, override_id: int, *, by: str, note: str, at: datetime
) -> Override:
    """Withdraw an override. Raises OverrideError if it does not exist or was withdrawn before."""
    override = _read_one(connection, pipeline, override_id)
    if override.withdrawn is not None:
        raise OverrideError(
            _(
                "override {override_id} was withdrawn on {withdrawn} UTC already",
                override_id=override_id,
                withdrawn=f"{override.withdrawn:%Y-%m-%d %H:%M}",
            )
        )
    connection.execute(tables.withdrawals.insert().values(override_id=override_id, at=at, by=by, note=note))
    return _read_one(connection, pipeline, override_id)


def read_overrides(connection: sa.Connection, pipeline: str, since: date | None = None) -> tuple[Override, ...]:
    """All overrides, including withdrawn ones, oldest first; with `since` only those of this day
    and later."""
    query = _query(pipeline)
    if since is not None:
        query = query.where(tables.overrides.c.target_date >= since)
    return tuple(Override(**row) for row in connection.execute(query.order_by(tables.overrides.c.id)).mappings())


def has_overrides(connection: sa.Connection, pipeline: str) -> bool:
    """Return true if there ever was an override."""
    query = sa.select(tables.overrides.c.id).where(tables.overrides.c.pipeline == pipeline).limit(1)
    return connection.execute(query).first() is not None


def record_model_orders(
    connection: sa.Connection, pipeline: str, days: Collection[date], model: Mapping[int, float]
) -> None:
    """Record the model's number under each published override; delete results of these days whose
    overrides are no longer published.

    `model` maps an override to the model's median.
    """
    book, results = tables.overrides.c, tables.override_results
    override_ids = sa.select(book.id).where(book.pipeline == pipeline, book.target_date.in_(list(days)))
    connection.execute(results.delete().where(results.c.override_id.in_(override_ids)))
    rows = [{"override_id": number, "model_orders": float(orders)} for number, orders in model.items()]
    if rows:
        connection.execute(results.insert(), rows)


def unsettled_results(connection: sa.Connection, pipeline: str, cutoff: date) -> dict[int, tuple[str, date]]:
    """Override → depot and day of published overrides whose day is over."""
    book = tables.overrides.c
    query = sa.select(book.id, book.depot_id, book.target_date).join(tables.override_results)
    rows = connection.execute(query.where(book.pipeline == pipeline, book.target_date <= cutoff))
    return {number: (depot, day) for number, depot, day in rows}


def record_actuals(connection: sa.Connection, actuals: Mapping[int, float | None]) -> None:
    """Record actuals of the days of overrides, by override; None: unknown, or the depot was closed."""
    results = tables.override_results
    for number, actual in actuals.items():
        connection.execute(results.update().where(results.c.override_id == number).values(actual=actual))


def read_results(connection: sa.Connection, pipeline: str) -> tuple[Result, ...]:
    """Overrides of past days with known actuals, in the order of their creation."""
    book, columns = tables.overrides.c, tables.override_results.c
    query = sa.select(book.by, book.reason, columns.model_orders, book.orders, columns.actual).join(
        tables.override_results
    )
    query = query.where(book.pipeline == pipeline, columns.actual.is_not(None)).order_by(book.id)
    return tuple(Result(*row) for row in connection.execute(query))


def _query(pipeline: str) -> sa.Select[tuple[object, ...]]:
    joined = tables.overrides.outerjoin(tables.withdrawals)
    query = sa.select(tables.overrides, tables.withdrawals.c.at.label("withdrawn")).select_from(joined)
    return query.where(tables.overrides.c.pipeline == pipeline)


def _read_one(connection: sa.Connection, pipeline: str, override_id: int) -> Override:
    row = connection.execute(_query(pipeline).where(tables.overrides.c.id == override_id)).mappings().one_or_none()
    if row is None:
        raise OverrideError(
            _("there is no override {override_id}; wanted one of the list of overrides", override_id=override_id)
        )
    return Override(**row)
