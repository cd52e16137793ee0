"""Rosters of a run: from the forecast and the fleet of its depots to each day's published roster."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from forecaster.config import Spec, Staffing
from forecaster.core.arrays import Doubles
from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.ledger.publication import LearnedShares, PublishedRoster
from forecaster.plugins import plugin
from forecaster.staffing import changes, newsvendor
from forecaster.staffing.changes import PublishedCrews
from forecaster.staffing.newsvendor import PublishedSchedule, Roster
from forecaster.staffing.shift_values import ShiftRoster, ShiftShares
from forecaster.staffing.vans import VanPool


def plan(
    forecast: Forecast,
    panel: Panel,
    spec: Spec,
    published: PublishedCrews | None = None,
    shares: ShiftShares | None = None,
) -> Roster | None:
    """The cheapest roster of the panel's depots; None if the pipeline plans no staff."""
    return roster_for(forecast, panel, spec.staffing, published, shares)


def roster_for(
    forecast: Forecast,
    panel: Panel,
    staffing: Staffing | None,
    published: PublishedCrews | None = None,
    shares: ShiftShares | None = None,
) -> Roster | None:
    """The cheapest roster of the panel's depots for the declared staffing and learned shares of
    shifts; None without staffing. Crews already published change only if that is worthwhile."""
    if staffing is None:
        return None
    fleet = vans_of(panel, staffing)
    roster = cheapest(forecast, staffing, fleet, shares, published.schedule if published else None)
    if published is None:
        return roster
    keeping: Any = plugin("shifts.changes") if isinstance(roster, ShiftRoster) else changes
    final_roster: Roster = keeping.keep_unless_worthwhile(roster, published, forecast, staffing, fleet)
    return replace(final_roster, schedule=published.schedule) if isinstance(final_roster, ShiftRoster) else final_roster


def cheapest(
    forecast: Forecast,
    staffing: Staffing,
    fleet: VanPool | None = None,
    shares: ShiftShares | None = None,
    schedule: PublishedSchedule | None = None,
) -> Roster:
    """The cheapest roster with no published crews but those of a schedule, by shift if shifts are
    declared."""
    if staffing.shifts:
        roster: Roster = plugin("shifts").roster(forecast, staffing, fleet, shares, schedule)
        return roster
    return newsvendor.roster(forecast, staffing, fleet, schedule)


def van_pool(panel: Panel, spec: Spec) -> VanPool | None:
    """Vans of the panel's depots; None if the pipeline counts none."""
    return vans_of(panel, spec.staffing) if spec.staffing else None


def vans_of(panel: Panel, staffing: Staffing) -> VanPool | None:
    """Vans of the panel's depots; None if the section counts none."""
    return VanPool.of(staffing.vans, panel.attributes, len(panel.depot_ids)) if staffing.vans else None


def published_rosters(
    roster: Roster, forecast: Forecast, published: PublishedCrews | None = None, now: datetime | None = None
) -> dict[tuple[int, int], PublishedRoster]:
    """Published roster of each open day, by the positions of depot and day; `now` is the instant of
    changes of crews already `published`."""
    changed_at = dict(published.changed_at) if published is not None else {}
    by_hand = published.schedule.by_hand if published is not None and published.schedule is not None else None
    if roster.changed is not None and now is not None:
        changed_at |= dict.fromkeys(zip(*(axis.tolist() for axis in roster.changed.nonzero()), strict=True), now)
    borrowed, lent = defaultdict(list), defaultdict(list)
    for loan in roster.loans:
        borrowed[loan.borrower, loan.day].append((forecast.depot_ids[loan.lender], loan.vans))
        lent[loan.lender, loan.day].append((forecast.depot_ids[loan.borrower], loan.vans))
    # plain numbers, which become JSON
    chances, cost = roster.chance_short.tolist(), roster.expected_cost.tolist()
    more, fewer = _nan_to_none(roster.one_more), _nan_to_none(roster.one_fewer)
    return {
        (row, step): PublishedRoster(
            vans=None if roster.vans is None else int(roster.vans[row, step]),
            chance_short=chances[row][step],
            cost=cost[row][step],
            one_more=more[row][step],
            one_fewer=fewer[row][step],
            borrowed=tuple(borrowed.get((row, step), ())),
            lent=tuple(lent.get((row, step), ())),
            wanted=int(roster.desired[row, step]),
            shortage=roster.shortages.get((row, step)),
            left=roster.left.get((row, step)),
            changed_at=changed_at.get((row, step)),
            shifts=_shift_crews(roster, row, step),
            shares=_shares(roster, row, forecast.target_dates[step]),
            by_hand=by_hand is not None and bool(by_hand[row, step]),
        )
        for row, step in zip(*(axis.tolist() for axis in forecast.open.nonzero()), strict=True)
    }


def _shift_crews(roster: Roster, row: int, step: int) -> tuple[tuple[str, int], ...]:
    """Name and crew of each shift of a day; empty if the pipeline declares none."""
    if not isinstance(roster, ShiftRoster):
        return ()
    return tuple(zip(roster.names, roster.crews[:, row, step].tolist(), strict=True))


def _shares(roster: Roster, row: int, day: date) -> LearnedShares | None:
    """Shares of a day's shifts; None if they are declared."""
    if not isinstance(roster, ShiftRoster) or roster.shares is None:
        return None
    return roster.shares.published(roster.names, row, day)


def _nan_to_none(values: Doubles) -> list[list[float | None]]:
    return [[None if value != value else value for value in row] for row in values.tolist()]
