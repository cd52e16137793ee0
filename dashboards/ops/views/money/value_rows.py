"""API schema of the value view: amounts over the last 8, 26 and 52 weeks, as JSON and CSV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from dashboards.ops.reading.editions import Logbook
from forecaster.core.language import _
from forecaster.ledger.value import ALL, CITY, MONTH
from forecaster.staffing.value_account import HOW, RANGE, SPANS, Amount, Computing, ValueAccount, ValuePart


@dataclass(frozen=True)
class ValueRow:
    """Cost of a rostering policy over the last `weeks` weeks; `saved` is the amount by which ours
    cost less. `part` is all, city or month, and `label` names it; ends of ranges are null if fewer
    than four weeks are known."""

    weeks: int
    part: str
    label: str
    way: str
    depot_days: int
    cost: float
    cost_low: float | None
    cost_high: float | None
    saved: float
    saved_low: float | None
    saved_high: float | None
    short: int  # missing drivers
    idle: int
    drivers: int


@dataclass(frozen=True)
class SpanOut:
    """Savings of the last `weeks` weeks."""

    weeks: int
    first: date | None
    last: date | None
    days: int
    backfilled: int  # days whose forecast was made afterwards
    # depot-days with a planner's number; null for readers of some cities
    overridden: int | None
    more_vans: Amount | None  # ten more
    overrides: Amount | None  # by planners
    # cost of the difference between worked and planned shifts; null if no worked hours are known
    deviation: Amount | None
    computing: Computing | None
    # of changes of published schedules; null if none was published, or for readers of some cities
    premiums: float | None


@dataclass(frozen=True)
class ValueOut:
    """Costs and savings of rosters, in the declared currency (null: in the unit of `staffing`).
    Readers of some cities get only those."""

    currency: str | None
    how: Mapping[str, str]  # policy → its definition
    range: str
    spans: list[SpanOut]
    rows: list[ValueRow]


def value_out(book: Logbook) -> ValueOut:
    """Return every span, one after the other."""
    accounts = [book.value(weeks) for weeks in SPANS]
    return ValueOut(
        accounts[0].currency,
        {way: _(how) for way, how in HOW.items()},
        _(RANGE),
        [_span(account, some=book.cities is not None) for account in accounts],
        [row for account in accounts for row in _rows(account)],
    )


def _span(account: ValueAccount, *, some: bool) -> SpanOut:
    return SpanOut(
        account.weeks,
        account.first,
        account.last,
        account.days,
        account.backfilled,
        None if some else account.overridden,
        account.more_vans,
        account.overrides,
        account.deviation,
        account.computing,
        account.premiums,
    )


def _rows(account: ValueAccount) -> list[ValueRow]:
    parts: list[tuple[str, ValuePart]] = [(ALL, account.whole)]
    parts += [(CITY, part) for part in account.cities] + [(MONTH, part) for part in account.months]
    return [
        ValueRow(
            account.weeks,
            part,
            of.label,
            total.way,
            total.depot_days,
            total.cost.amount,
            total.cost.low,
            total.cost.high,
            total.dearer.amount,
            total.dearer.low,
            total.dearer.high,
            total.short,
            total.idle,
            total.drivers,
        )
        for part, of in parts
        for total in of.ways
    ]
