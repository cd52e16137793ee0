"""Replay of a published schedule over past nights: costs of crews and premiums in hindsight.

Each nightly run rosters the days ahead. A day is published when its notice begins, or in the first
run of the replay, and is worked with the crew of its last run. One policy makes every change of a
run, and owes the premiums; the other changes only if that saves more than the premium. Both are
billed for the same days, those with known actuals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta

import numpy as np

from forecaster.config import Spec
from forecaster.core.arrays import Doubles, Ints
from forecaster.core.forecast import Fold
from forecaster.core.panel import Panel
from forecaster.staffing.changes import crew_names
from forecaster.staffing.cost_backtest import NoticeBill
from forecaster.staffing.newsvendor import Roster
from forecaster.staffing.notice.premiums import Cell, ShiftCrews, schedule, with_schedule
from forecaster.staffing.roster_ways import RosterWays
from forecaster.staffing.rosters import roster_for, vans_of
from forecaster.staffing.shift_values import ShiftRoster, ShiftShares

EVERY_CHANGE, WITH_NOTICE = "every change", "changes above their premium"


def replay_notice(
    folds: Sequence[Fold], panel: Panel, spec: Spec, shares: ShiftShares | None = None
) -> tuple[NoticeBill, ...]:
    """Bills of both policies over nightly folds, oldest first; `panel` describes the depots."""
    return tuple(_replayed(way, folds, panel, spec, shares) for way in (EVERY_CHANGE, WITH_NOTICE))


def _replayed(way: str, folds: Sequence[Fold], panel: Panel, spec: Spec, shares: ShiftShares | None) -> NoticeBill:
    staffing = spec.staffing
    assert staffing is not None
    ways = RosterWays(staffing, vans_of(panel, staffing), shares if staffing.shifts else None)
    scheduled_crews: dict[Cell, ShiftCrews] = {}
    sums = defaultdict[date, Doubles](lambda: np.zeros(3))  # premiums, changes, and changes without a premium
    cost, notice_days = 0.0, staffing.notice_days or 0
    for fold in folds:
        forecast, now = fold.forecast, _night(spec, fold.forecast.cutoff)
        keeps = scheduled_crews if way == WITH_NOTICE else {}
        crews = with_schedule(None, keeps, forecast, staffing, {}, spec.timezone, now)
        roster = roster_for(forecast, panel, staffing, crews, shares)
        assert roster is not None
        new_crews = _crews(roster)
        plan = schedule(scheduled_crews, forecast, staffing, {}, spec.timezone, now)
        if plan is not None:
            further = new_crews - plan.crews
            moved = np.where(plan.has & (np.arange(new_crews.shape[2]) < notice_days), np.abs(further), 0)
            unpriced = np.where(np.where(further > 0, plan.added, plan.removed) == 0, moved, 0)
            of_days = plan.premium(new_crews).sum(axis=0), moved.sum(axis=(0, 1)), unpriced.sum(axis=(0, 1))
            for day, counts in zip(forecast.target_dates, np.stack(of_days, axis=1), strict=True):
                sums[day] += counts
        _tell(scheduled_crews, new_crews, fold, notice_days, crew_names(staffing))
        cost += float(np.nansum(ways.billed(new_crews[:, :, :1], _first_day(fold)).cost))
    total = sum((sums[fold.forecast.target_dates[0]] for fold in folds), np.zeros(3))
    return NoticeBill(way, cost, round(float(total[0]), 2), int(total[1]), int(total[2]))


def _tell(
    scheduled_crews: dict[Cell, ShiftCrews], crews: Ints, fold: Fold, notice_days: int, names: Sequence[str]
) -> None:
    """Publish the days whose notice begins, or all in the first run, and announce changes."""
    forecast, first = fold.forecast, not scheduled_crews
    for step, day in enumerate(forecast.target_dates):
        if first or step <= notice_days:
            for row, depot in enumerate(forecast.depot_ids):
                scheduled_crews[depot, day] = dict(zip(names, crews[:, row, step].tolist(), strict=True))


def _crews(roster: Roster) -> Ints:
    return roster.crews if isinstance(roster, ShiftRoster) else roster.drivers[None]


def _night(spec: Spec, cutoff: date) -> datetime:
    """Instant of the nightly run after a cutoff."""
    return datetime.combine(cutoff + timedelta(days=1), time(*spec.schedule.hour_minute), spec.zone)


def _first_day(fold: Fold) -> Fold:
    forecast = fold.forecast
    first = replace(
        forecast, target_dates=forecast.target_dates[:1], quantiles=forecast.quantiles[:, :1], open=forecast.open[:, :1]
    )
    return Fold(first, fold.actuals[:, :1])
