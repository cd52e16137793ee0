"""Backtest of staffing costs: our rosters against those made without a cost model, on past days.

All rosters have the same limits and vans. Ours is the cheapest one (`rosters.cheapest`) for the
candidate's forecast. "Median plus buffer" adds the same share, or the same number of drivers, to
the need of the candidate's median; each week the buffer is chosen that would have been cheapest on
all replayed days before and on the four weeks before these, which makes it the fairest rival. "Same
as last week" rosters the last known need of the same weekday. Perfect foresight knows the actuals,
and pays only for the effects of limits and vans, and for days on which a depot was expected to be
closed and was not.

If shifts are declared, all of this is by shift: each rostering policy has a crew per shift, by its
declared share, or by the share learned up to now, and is billed per shift. Actual orders are split
by the same shares, so that the bills do not show errors of the shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from forecaster.config import Spec, Staffing
from forecaster.core.arrays import Doubles, Ints
from forecaster.core.forecast import Fold
from forecaster.core.panel import Panel
from forecaster.errors import SpecError
from forecaster.evaluation.backtest import PanelAt
from forecaster.staffing.roster_ways import RosterWays
from forecaster.staffing.rosters import van_pool
from forecaster.staffing.shift_values import ShiftShares

DEFAULT_DAYS = 56  # days replayed by default
WEEKS = 8  # weeks back in which the same weekday is searched
BUFFERS = (*((share / 100, 0.0) for share in range(-30, 101)), *((0.0, step / 20) for step in range(-20, 41)))
OURS, BUFFER, LAST_WEEK, FORESIGHT = "ours", "median plus buffer", "same as last week", "perfect foresight"


@dataclass(frozen=True)
class Bill:
    """Cost of one rostering policy over all depots and days with known actuals."""

    roster: str
    cost: float
    short: int  # missing drivers in total
    idle: int  # surplus drivers
    short_days: float  # share of depot-days with a missing driver
    days: int  # depot-days
    # rostered hours in total: drivers times `staffing.shift_hours`, or times the hours of their
    # shifts
    hours: float

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class NoticeBill:
    """Cost of crews under one policy for changes within the notice of a published schedule."""

    roster: str
    cost: float  # of missing and idle drivers
    premiums: float
    changes: int  # drivers added or removed within the notice
    unpriced: int  # of these, without a premium


@dataclass(frozen=True)
class Bills:
    """The bills, cheapest first, and the chosen buffers by cutoff; with a published schedule also
    the cost of its notice."""

    bills: tuple[Bill, ...]
    buffers: tuple[str, ...]
    notice: tuple[NoticeBill, ...] = ()

    def lines(self) -> list[str]:
        """Lines of a table for the terminal."""
        width = max(len(bill.roster) for bill in self.bills)
        table = [f"{'':{width}}  {'cost':>12}{'a day':>9}{'hours':>10}{'missing':>10}{'idle':>10}{'days short':>12}"]
        for bill in self.bills:
            cost_per_day = bill.cost / max(bill.days, 1)
            counts = f"{bill.short:>10,}{bill.idle:>10,}{bill.short_days:>12.1%}"
            table.append(f"{bill.roster:{width}}  {bill.cost:>12,.0f}{cost_per_day:>9.2f}{bill.hours:>10,.0f}{counts}")
        buffers = f"Buffers, chosen on the days before: {', '.join(dict.fromkeys(self.buffers))}."
        return [*table, buffers, *self._notice_lines()]

    def _notice_lines(self) -> list[str]:
        if not self.notice:
            return []
        width = max(len(bill.roster) for bill in self.notice)
        table = [f"{'inside the notice':{width}}  {'cost':>12}{'premiums':>12}{'changes':>10}{'unpriced':>10}"]
        for bill in self.notice:
            counts = f"{bill.changes:>10,}{bill.unpriced:>10,}"
            table.append(f"{bill.roster:{width}}  {bill.cost:>12,.0f}{bill.premiums:>12,.2f}{counts}")
        return table

    def to_json(self) -> dict[str, object]:
        content: dict[str, object] = {"bills": [bill.to_json() for bill in self.bills], "buffers": list(self.buffers)}
        return {**content, "notice": [asdict(bill) for bill in self.notice]} if self.notice else content


def holdout_spec(spec: Spec, days: int | None, *, staffing: bool) -> Spec:
    """Return the pipeline with the holdout days; for rosters these are weekly cutoffs, eight weeks
    by default.

    Raises SpecError if rosters are requested and their costs are not declared.
    """
    if staffing and spec.staffing is None:
        raise SpecError(
            "backtest --staffing: found no section staffing in the pipeline file, wanted costs, as in "
            "staffing: {orders_per_driver: 90, cost_short: 38, cost_idle: 22}"
        )
    holdout = {"days": days or DEFAULT_DAYS} | ({"every": None} if staffing else {})
    return spec.model_copy(update={"backtest": spec.backtest.model_copy(update=holdout)})


def backtest_costs(
    folds: Sequence[Fold],
    earlier: Sequence[Fold],
    panel: Panel,
    panel_at: PanelAt,
    spec: Spec,
    shares: ShiftShares | None = None,
) -> Bills:
    """Bills of all rosters over the folds, a model's forecasts.

    `earlier` are its forecasts of days before them, used only to choose the first buffers. The
    latest `panel` describes the depots, and the learned `shares` of shifts are the latest ones too.
    """
    assert spec.staffing is not None
    costs, fleet = spec.staffing, van_pool(panel, spec)
    ways = RosterWays(costs, fleet, shares if costs.shifts else None)
    all_folds = [*earlier, *folds]
    buffered = [[ways.limited(buffered_need(fold, buffer, costs), fold) for buffer in BUFFERS] for fold in all_folds]
    pairs = zip(buffered, all_folds, strict=True)
    bills = np.array([[_total(ways, crew, fold) for crew in crews] for crews, fold in pairs])
    best = [int(bills[:before].sum(axis=0).argmin()) for before in range(len(earlier), len(all_folds))]

    def for_orders(fold: Fold, orders: Doubles) -> Ints:
        return ways.limited(orders / costs.orders_per_driver, fold)

    crews_of: dict[str, list[Ints]] = {
        OURS: list(map(ways.cheapest, folds)),
        BUFFER: [crews[buffer_index] for crews, buffer_index in zip(buffered[len(earlier) :], best, strict=True)],
        LAST_WEEK: [for_orders(fold, _last_week(fold, panel_at)) for fold in folds],
        FORESIGHT: [for_orders(fold, np.nan_to_num(fold.actuals.astype(float))) for fold in folds],
    }
    all_bills = [_bill(name, crews, folds, ways) for name, crews in crews_of.items()]
    buffers = tuple(describe_buffer(BUFFERS[buffer_index]) for buffer_index in best)
    return Bills(tuple(sorted(all_bills, key=lambda bill: bill.cost)), buffers)


def _total(ways: RosterWays, crews: Ints, fold: Fold) -> float:
    return float(np.nansum(ways.billed(crews, fold).cost))


def buffered_need(fold: Fold, buffer: tuple[float, float], costs: Staffing) -> Doubles:
    """Need of the median plus buffer, in fractions of a driver."""
    share, drivers = buffer
    need: Doubles = fold.forecast.median.astype(float) / costs.orders_per_driver * (1 + share) + drivers
    return need


def _last_week(fold: Fold, panel_at: PanelAt) -> Doubles:
    """Last known orders of the same weekday; 0 if unknown in the last eight weeks."""
    before = panel_at(fold.forecast.cutoff)
    orders: Doubles = np.where(before.open[:, : before.history], before.demand, np.nan)
    return np.nan_to_num(same_weekday_orders(orders, fold.actuals.shape[1]))


def same_weekday_orders(orders: Doubles, steps: int) -> Doubles:
    """Last known orders of the same weekday within eight weeks, (depots, steps).

    `orders` (depots, days) end at the cutoff and are NaN if closed or unknown; the result is NaN if
    none is known.
    """
    orders = np.pad(orders, [(0, 0), (7 * WEEKS, 0)], constant_values=np.nan)
    last_known = np.full((len(orders), steps), np.nan)
    for back in range(1, WEEKS + 1):
        for step in range(steps):
            past_orders = orders[:, orders.shape[1] - 7 * back + step % 7]
            last_known[:, step] = np.where(np.isnan(last_known[:, step]), past_orders, last_known[:, step])
    return last_known


def _bill(name: str, crews: Sequence[Ints], folds: Sequence[Fold], ways: RosterWays) -> Bill:
    billed = [ways.billed(crew, fold) for crew, fold in zip(crews, folds, strict=True)]
    is_known = np.concatenate([account.known for account in billed], axis=1)
    short = np.concatenate([account.short for account in billed], axis=1)[is_known]
    idle = np.concatenate([account.idle for account in billed], axis=1)[is_known]
    hours = float(ways.hours @ np.concatenate(crews, axis=2)[:, is_known].sum(axis=1))
    share = float((short > 0).mean()) if short.size else 0.0
    missing, spare = int(short.sum()), int(idle.sum())
    cost = ways.costs.cost_short * missing + ways.costs.cost_idle * spare
    return Bill(name, cost, missing, spare, share, short.size, hours)


def describe_buffer(buffer: tuple[float, float]) -> str:
    """Text of a buffer: "+26%", "+0.50 drivers"."""
    share, drivers = buffer
    return f"{drivers:+.2f} drivers" if drivers else f"{share:+.0%}"
