"""Crews of shifts: a newsvendor per shift, within a depot's limits and the vans that its shifts
share.

A shift has a declared share of the day's orders, or one learned for the depot's weekday
(`shift_shares`), and the same share of each of the day's quantiles: shares are taken as fixed, so
that all shifts of a day are high or low together (they are comonotone), and only the day's number
of orders is uncertain. A shift then needs ceil(share × orders / orders_per_driver) drivers, its
expected cost G is convex as a day's is, and the day's cost is the sum. The day's crew is the sum of
its shifts' crews.

Limits apply to the sum of a day. Driver k of a shift saves G(k - 1) - G(k), which only falls with
k; so taking drivers of all shifts by their savings, largest first, is optimal under a limit on the
sum (Fox 1966). Overlapping shifts do not share a van; others use it one after another, up to
`drivers_per_van` per day: limits of the parts of a day below one of the whole day are laminar, for
which taking the largest first is optimal too (Federgruen & Groenevelt 1986). If shifts overlap in a
chain, none of the chain share a van, which errs on the safe side. If vans are scarce, savings are
those of `shortage`, so that vans are shared as on days without shifts; the worth of a depot's
further vans only falls, as `placing` requires.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from forecaster.config import Staffing
from forecaster.core.arrays import Bools, Doubles, Ints
from forecaster.core.forecast import Forecast
from forecaster.staffing import shortage
from forecaster.staffing.need import DIGITS, Need
from forecaster.staffing.newsvendor import PublishedSchedule
from forecaster.staffing.placing import Claims
from forecaster.staffing.shift_values import ShiftRoster, ShiftShares
from forecaster.staffing.shifts import shift_shares
from forecaster.staffing.van_sharing import VanSharing, best_first, blocks, crew_counts, ranks_in_row
from forecaster.staffing.vans import VanPool


def roster(
    forecast: Forecast,
    staffing: Staffing,
    fleet: VanPool | None = None,
    learned: ShiftShares | None = None,
    schedule: PublishedSchedule | None = None,
) -> ShiftRoster:
    """The cheapest crews of all shifts under the declared limits and, with a fleet, its vans.

    Shares are declared, or `learned` for the forecast's depots; if they should be learned but are
    missing, they follow the hours. A published schedule changes only if that saves more than its
    premiums.
    """
    if learned is None and staffing.learns_shares:
        learned = shift_shares.of_hours(staffing, len(forecast.depot_ids))
    needs = shift_needs(forecast, staffing, learned)
    desired_crews = cheapest_crews(needs, forecast.open, staffing, schedule)
    if fleet is None:
        bare = with_crews(desired_crews, desired_crews.sum(axis=0), None, needs, forecast.open, staffing)
        return replace(bare, shares=learned)
    sharing = VanSharing.of(desired_crews, needs, staffing, fleet.drivers_per_van)
    day = Need.of(forecast.quantiles, forecast.levels, staffing.orders_per_driver)
    shape = forecast.open.shape
    wanted_vans = sharing.wanted_vans.reshape(shape)
    placed = fleet.allocate(
        wanted_vans,
        day.level(0.5) * vans_per_driver(forecast, staffing, fleet, learned),
        lambda step: sharing.claims(np.arange(shape[0]) * shape[1] + step, day.level(0.5)[:, step], staffing),
    )
    crews = sharing.crews(placed.ravel()).reshape(desired_crews.shape)
    bare = with_crews(crews, desired_crews.sum(axis=0), placed, needs, forecast.open, staffing)
    reasons = shortage.shortages(bare.desired, bare.drivers, placed, fleet, wanted_vans)
    return replace(bare, loans=fleet.loans(placed), shortages=reasons, desired_vans=wanted_vans, shares=learned)


def shift_needs(forecast: Forecast, staffing: Staffing, learned: ShiftShares | None = None) -> tuple[Need, ...]:
    """Need of each shift: the day's need times the shift's normalized share."""
    day = Need.of(forecast.quantiles, forecast.levels, staffing.orders_per_driver)
    shares = day_shares(forecast, staffing, learned)
    return tuple(Need(np.round(day.knots * share, DIGITS), day.levels) for share in shares)


def day_shares(forecast: Forecast, staffing: Staffing, learned: ShiftShares | None) -> Doubles:
    """Share of each shift on a forecast's days, (shifts, depots, horizon), or (shifts, 1, 1) if
    declared; they sum to 1."""
    if learned is not None:
        return learned.on(forecast.target_dates)
    declared = np.array([shift.declared_share for shift in staffing.shifts])
    shares: Doubles = (declared / declared.sum())[:, None, None]
    return shares


def cheapest_crews(
    needs: Sequence[Need], open_: Bools, staffing: Staffing, schedule: PublishedSchedule | None = None
) -> Ints:
    """Cheapest crews (shifts, depots, horizon) within `staffing.crew`, with vans for all.

    Premiums of a schedule count; they keep savings falling from driver to driver.
    """
    rows = []
    for shift, need in enumerate(needs):
        useful = np.ceil(need.knots[-1]).astype(np.intp)  # any further driver is certainly idle
        if schedule is not None:  # keeps drivers who cost more to cancel
            useful = np.maximum(useful, schedule.crews[shift])
        cell, number = Claims.rows(np.where(open_, np.maximum(useful, staffing.crew.min), 0).astype(np.int32).ravel())
        cell_need = need.at(cell)
        saving = cell_need.cost(number, staffing) - cell_need.cost(number + np.int32(1), staffing)
        if schedule is not None:
            saving = saving + _premium_of_each(schedule, shift, cell, number)
        rows.append((cell, np.full(len(cell), shift), number, saving))
    cell, shift_of, number, saving = (np.concatenate(column) for column in zip(*rows, strict=True))
    order = best_first(cell, saving, shift_of, number)
    cell, shift_of, saving = cell[order], shift_of[order], saving[order]
    most = np.inf if staffing.crew.max is None else staffing.crew.max
    rank = ranks_in_row(cell)
    comes = (rank < staffing.crew.min) | ((saving > 10.0**-DIGITS) & (rank < most))
    return crew_counts(cell[comes], shift_of[comes], (len(needs), *open_.shape))


def _premium_of_each(
    schedule: PublishedSchedule, shift: int, cell: NDArray[np.intp], number: NDArray[np.integer]
) -> Doubles:
    """Saving of keeping a scheduled driver, and the negative cost of adding another."""
    crew, added, removed = (x[shift].ravel()[cell] for x in (schedule.crews, schedule.added, schedule.removed))
    saving = removed + 2 * 10.0**-DIGITS  # ties favor the published driver
    return np.where(crew < 0, 0.0, np.where(number < crew, saving, -added))


def vans_per_driver(forecast: Forecast, staffing: Staffing, fleet: VanPool, learned: ShiftShares | None) -> Doubles:
    """Vans per needed driver, in fractions, broadcastable to (depots, horizon): by the largest
    block of shifts that share none."""
    shares, block = day_shares(forecast, staffing, learned), np.array(blocks(staffing.shifts))
    of_block = np.stack([shares[block == number].sum(axis=0) for number in range(block.max() + 1)])
    needed: Doubles = np.maximum(of_block.max(axis=0), 1 / fleet.drivers_per_van)
    return needed


def with_crews(
    crews: Ints, desired: Ints, placed: Ints | None, needs: tuple[Need, ...], open_: Bools, costs: Staffing
) -> ShiftRoster:
    """Expected costs of these crews (shifts, depots, horizon), and with the best choice of one
    driver more or fewer.

    `desired` are drivers with vans for all, (depots, horizon).
    """
    paired = tuple(zip(needs, crews, strict=True))
    cost = np.stack([need.cost(crew, costs) for need, crew in paired])
    more = np.stack([need.cost(crew + np.int32(1), costs) for need, crew in paired]) - cost
    fewer = np.stack([need.cost(np.maximum(crew - np.int32(1), 0), costs) for need, crew in paired]) - cost
    fewer = np.where(crews > 0, fewer, np.inf).min(axis=0)
    drivers, total, nan = crews.sum(axis=0).astype(np.int32), cost.sum(axis=0), np.nan
    short = np.stack([1 - need.suffices(crew) for need, crew in paired]).max(axis=0)
    may_rise = open_ & (drivers < (np.inf if costs.crew.max is None else costs.crew.max))
    may_fall = open_ & (drivers > costs.crew.min)
    return ShiftRoster(
        drivers,
        placed,
        np.where(open_, np.clip(short, 0, 1), 0.0),
        np.where(open_, total, 0.0),
        np.where(may_rise, total + more.min(axis=0), nan),
        np.where(may_fall, np.where(may_fall, total + fewer, 0.0), nan),
        desired.astype(np.int32),
        names=tuple(shift.name for shift in costs.shifts),
        crews=crews,
        needs=needs,
    )
