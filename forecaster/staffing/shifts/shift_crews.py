"""Crews of shifts: the newsvendor asked of each shift, within a depot's limits and the vans that its shifts share.

A shift has a declared share of the day's orders, or one that is learned of the depot's weekday (`shift_shares`), and
the same share of each of the day's quantiles: shares are taken as fixed, so that all shifts of a day are high or low
together (they are comonotone), and what is uncertain is how many orders the day has. A shift then needs
ceil(share × orders / orders_per_driver) drivers, its expected cost G is convex as a day's is, and the day's cost is the
sum. The day's crew is the sum of its shifts' crews.

Limits hold for the sum of a day. Whoever is driver k of a shift saves G(k - 1) - G(k), which only falls with k; so
taking drivers of all shifts by what they save, the largest first, is optimal under a limit of the sum (Fox 1966).
Shifts that overlap do not share a van, others use it one after the other, up to `drivers_per_van` on a day: limits of
the parts of a day below one of the whole day are laminar, for which taking the largest first is optimal too
(Federgruen & Groenevelt 1986). Where shifts overlap in a chain, none of the chain share a van, which errs on the safe
side. Where vans are scarce, a driver saves what `shortage` says, so that they are shared as days without shifts share
them; what a depot's further van carries only falls in worth, as `placing` wants it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from forecaster.config import Shift, Staffing
from forecaster.core.arrays import Bools, Doubles, Ints
from forecaster.core.forecast import Forecast
from forecaster.staffing import placing, shortage
from forecaster.staffing.need import DIGITS, Need
from forecaster.staffing.newsvendor import Roster
from forecaster.staffing.placing import Claims
from forecaster.staffing.shifts import shift_shares
from forecaster.staffing.shifts.shift_shares import ShiftShares
from forecaster.staffing.vans import VanPool

Positions = NDArray[np.intp]
MINUTES = 1440  # of a day


@dataclass(frozen=True, kw_only=True)
class ShiftRoster(Roster):
    """A roster whose days are sums of shifts; the chance to be short is that of any shift, as shifts move together."""

    names: tuple[str, ...]  # of the shifts
    crews: Ints  # (shifts, depots, horizon)
    needs: tuple[Need, ...]  # of each shift, of (depots, horizon)
    desired_vans: Ints | None = None  # for all drivers that are wanted, (depots, horizon); None = no vans are counted
    shares: ShiftShares | None = None  # of the shifts; None = they are declared

    def savings(self, staffing: Staffing) -> tuple[list[Doubles], ...]:
        """Expected savings of each driver of each crew, the first one first: of each shift a list
        by depot and day. Missing drivers grow dearer, as they do where vans are scarce
        (`shortage`), so that none of a day is missing in vain while another day is full."""
        cells = np.arange(self.drivers.size)
        return tuple(
            np.split(shortage.driver_savings(crew.ravel(), need.at(cells), staffing), np.cumsum(crew.ravel())[:-1])
            for crew, need in zip(self.crews, self.needs, strict=True)
        )


def roster(
    forecast: Forecast, staffing: Staffing, fleet: VanPool | None = None, learned: ShiftShares | None = None
) -> ShiftRoster:
    """The cheapest crews of all shifts under the declared limits and, with a fleet, the vans that there are. Shares are
    declared, or `learned` of the forecast's depots; where they should be and are not, they are those of hours."""
    if learned is None and staffing.learns_shares:
        learned = shift_shares.of_hours(staffing, len(forecast.depot_ids))
    needs = shift_needs(forecast, staffing, learned)
    wanted = cheapest_crews(needs, forecast.open, staffing)
    if fleet is None:
        bare = with_crews(wanted, wanted.sum(axis=0), None, needs, forecast.open, staffing)
        return replace(bare, shares=learned)
    sharing = VanSharing.of(wanted, needs, staffing, fleet.drivers_per_van)
    day = Need.of(forecast.quantiles, forecast.levels, staffing.orders_per_driver)
    shape = forecast.open.shape
    wanted_vans = sharing.wanted_vans.reshape(shape)
    placed = fleet.allocate(
        wanted_vans,
        day.level(0.5) * vans_per_driver(forecast, staffing, fleet, learned),
        lambda step: sharing.claims(np.arange(shape[0]) * shape[1] + step, day.level(0.5)[:, step], staffing),
    )
    crews = sharing.crews(placed.ravel()).reshape(wanted.shape)
    bare = with_crews(crews, wanted.sum(axis=0), placed, needs, forecast.open, staffing)
    reasons = shortage.shortages(bare.desired, bare.drivers, placed, fleet, wanted_vans)
    return replace(bare, loans=fleet.loans(placed), shortages=reasons, desired_vans=wanted_vans, shares=learned)


def shift_needs(forecast: Forecast, staffing: Staffing, learned: ShiftShares | None = None) -> tuple[Need, ...]:
    """Need of each shift: the day's need, scaled by the shift's share of all shares."""
    day = Need.of(forecast.quantiles, forecast.levels, staffing.orders_per_driver)
    shares = day_shares(forecast, staffing, learned)
    return tuple(Need(np.round(day.knots * share, DIGITS), day.levels) for share in shares)


def day_shares(forecast: Forecast, staffing: Staffing, learned: ShiftShares | None) -> Doubles:
    """The share of each shift on a forecast's days, (shifts, depots, horizon), or where they are declared and the same
    on all days (shifts, 1, 1); they sum to 1."""
    if learned is not None:
        return learned.on(forecast.target_dates)
    declared = np.array([shift.declared_share for shift in staffing.shifts])
    shares: Doubles = (declared / declared.sum())[:, None, None]
    return shares


def blocks(shifts: Sequence[Shift]) -> tuple[int, ...]:
    """The number of the block of each shift: shifts of a block overlap, or are linked by others that do."""
    block = list(range(len(shifts)))
    for i, shift in enumerate(shifts):
        for j in range(i):
            if _overlap(shift, shifts[j]) and block[i] != block[j]:
                block = [block[i] if number == block[j] else number for number in block]
    in_order = list(dict.fromkeys(block))
    return tuple(in_order.index(number) for number in block)


def _overlap(first: Shift, second: Shift) -> bool:
    """True if they share a minute, on the days on which they begin or on the next ones."""
    (start, length), (later_start, later_length) = map(_span, (first, second))
    return (later_start - start) % MINUTES < length or (start - later_start) % MINUTES < later_length


def clock_hours(shift: Shift) -> float:
    """Hours from its start to its end, on a day on which clocks do not change."""
    return shift.minutes / 60


def _span(shift: Shift) -> tuple[int, int]:
    """Minute of the day at which it starts, and its length on the clock."""
    return shift.starts.hour * 60 + shift.starts.minute, shift.minutes


def cheapest_crews(needs: Sequence[Need], open_: Bools, staffing: Staffing) -> Ints:
    """The crews (shifts, depots, horizon) that are cheapest within the limits of `staffing.crew`, with vans for all."""
    rows = []
    for shift, need in enumerate(needs):
        useful = np.ceil(need.knots[-1]).astype(np.intp)  # beyond, a driver is idle for sure
        cell, number = Claims.rows(np.where(open_, np.maximum(useful, staffing.crew.min), 0).astype(np.int32).ravel())
        here = need.at(cell)
        saving = here.cost(number, staffing) - here.cost(number + np.int32(1), staffing)
        rows.append((cell, np.full(len(cell), shift), number, saving))
    cell, shift_of, number, saving = (np.concatenate(column) for column in zip(*rows, strict=True))
    order = _best_first(cell, saving, shift_of, number)
    cell, shift_of, saving = cell[order], shift_of[order], saving[order]
    most = np.inf if staffing.crew.max is None else staffing.crew.max
    rank = _ranks_in_row(cell)
    comes = (rank < staffing.crew.min) | ((saving > 10.0**-DIGITS) & (rank < most))
    return _counts(cell[comes], shift_of[comes], (len(needs), *open_.shape))


@dataclass(frozen=True)
class VanSharing:
    """The drivers who are wanted, cell by cell (a cell is a depot's day), in the order in which vans carry them."""

    shifts: int
    cells: int
    per_van: int
    cell: Positions
    shift: Positions
    saving: Doubles
    rank_in_block: Positions  # among those of the cell in shifts that share no van

    @classmethod
    def of(cls, wanted: Ints, needs: Sequence[Need], staffing: Staffing, per_van: int) -> VanSharing:
        """The drivers of crews (shifts, depots, horizon), by what each saves where vans are scarce."""
        cells = wanted[0].size
        rows = []
        for shift, (need, crew) in enumerate(zip(needs, wanted.reshape(len(needs), cells), strict=True)):
            cell, number = Claims.rows(crew)
            saving = shortage.driver_savings(crew, need.at(np.arange(cells)), staffing)
            rows.append((cell, np.full(len(cell), shift), number, saving))
        cell, shift_of, number, saving = (np.concatenate(column) for column in zip(*rows, strict=True))
        return cls.in_order(cell, shift_of, number, saving, staffing.shifts, cells, per_van)

    @classmethod
    def in_order(
        cls,
        cell: Positions,
        shift_of: Positions,
        number: Ints,
        saving: Doubles,
        shifts: Sequence[Shift],
        cells: int,
        per_van: int,
    ) -> VanSharing:
        """The drivers of so many cells, each the `number`-th of its shift, by what each saves.

        On days without `shifts` all drivers use a van one after the other.
        """
        order = _best_first(cell, saving, shift_of, number)
        cell, shift_of, saving = cell[order], shift_of[order], saving[order]
        rank_in_block = np.zeros(len(cell), np.intp)
        if shifts:
            block = np.array(blocks(shifts), np.intp)[shift_of] + cell * len(shifts)
            in_blocks = np.argsort(block, kind="stable")
            rank_in_block[in_blocks] = _ranks_in_row(block[in_blocks])
        return cls(max(len(shifts), 1), cells, per_van, cell, shift_of.astype(np.intp), saving, rank_in_block)

    @cached_property
    def first_van(self) -> Positions:
        """The van that carries each driver, counted from 0 in its cell. Whom some vans carry, more vans carry too:
        before somebody would be left out for others, these others fill the vans by themselves."""
        van, waiting = np.full(len(self.cell), -1, np.intp), np.ones(len(self.cell), bool)
        vans = 0
        while waiting.any():
            carried = self._carried(np.full(self.cells, vans + 1))
            van[carried & waiting] = vans
            waiting &= ~carried
            vans += 1
        return van

    @cached_property
    def wanted_vans(self) -> Ints:
        """Vans for all of a cell's drivers, (cells,)."""
        wanted = np.zeros(self.cells, np.int32)
        np.maximum.at(wanted, self.cell, (self.first_van + 1).astype(np.int32))
        return wanted

    def crews(self, vans: Ints) -> Ints:
        """The crews (shifts, cells) that so many vans (cells,) carry."""
        carried = self.first_van < vans[self.cell]
        return _counts(self.cell[carried], self.shift[carried], (self.shifts, self.cells))

    def first_of_each(self, most: int) -> Ints:
        """The crews (shifts, cells) of the first so many drivers of each cell."""
        first = _ranks_in_row(self.cell) < most
        return _counts(self.cell[first], self.shift[first], (self.shifts, self.cells))

    def claims(self, cells: Positions, usual: Doubles, staffing: Staffing) -> Claims:
        """Claims of the depots of a day (depots,) for the vans of its cells; the median needs
        `usual` drivers.

        First come the vans of `crew.min` drivers, then those of `crew.min_share` of the median's need, the smallest
        share first, then all others by what they are expected to save, as on days without shifts.
        """
        depot, van, before = self.carried_before(cells)
        saving = self._by_van(self.saving)[cells]
        floor = np.ceil(np.round(staffing.crew.min_share * usual, DIGITS))[depot]
        tier = np.where(before < floor, placing.FLOOR, placing.FURTHER)
        tier = np.where(before < staffing.crew.min, placing.FIRST, tier)
        share = np.where(tier == placing.FLOOR, before / np.maximum(usual[depot], 1e-9), 1.0)
        return Claims(depot, van, tier, share, saving[depot, van])

    def carried_before(self, cells: Positions) -> tuple[Positions, Ints, Doubles]:
        """A row for each van of a day's cells (depots,): whose it is, its number, and how many drivers the vans before
        it carry."""
        depot, van = Claims.rows(self.wanted_vans[cells])
        drivers = self._by_van(np.ones(len(self.cell)))[cells]
        return depot, van, (np.cumsum(drivers, axis=1) - drivers)[depot, van]

    def _by_van(self, weights: Doubles) -> Doubles:
        """Sums of drivers' weights by cell and van, (cells, vans)."""
        width = int(self.wanted_vans.max(initial=0)) + 1
        key = self.cell * width + self.first_van
        sums: Doubles = np.bincount(key, weights=weights, minlength=self.cells * width).astype(float)
        return sums.reshape(self.cells, width)

    def _carried(self, vans: Positions) -> Bools:
        """Drivers with a van where so many (cells,) stand."""
        in_block = self.rank_in_block < vans[self.cell]
        order = np.cumsum(in_block) - 1
        first = np.full(self.cells, len(order), np.intp)
        np.minimum.at(first, self.cell[in_block], order[in_block])
        return in_block & (order - first[self.cell] < self.per_van * vans[self.cell])


def vans_per_driver(forecast: Forecast, staffing: Staffing, fleet: VanPool, learned: ShiftShares | None) -> Doubles:
    """Vans for each driver that a day needs, in fractions, to be broadcast over (depots, horizon): by the largest block
    of shifts that share none."""
    shares, block = day_shares(forecast, staffing, learned), np.array(blocks(staffing.shifts))
    of_block = np.stack([shares[block == number].sum(axis=0) for number in range(block.max() + 1)])
    needed: Doubles = np.maximum(of_block.max(axis=0), 1 / fleet.drivers_per_van)
    return needed


def _best_first(cell: Positions, saving: Doubles, shift: Positions, number: Ints) -> Positions:
    """The order cell by cell, the driver who saves most first; of equals the earlier shift's."""
    return np.lexsort((number, shift, -np.round(saving, DIGITS), cell))


def _counts(cell: Positions, shift: Positions, shape: tuple[int, ...]) -> Ints:
    """Number of drivers of each shift in each cell."""
    cells = int(np.prod(shape[1:]))
    counts: Ints = np.bincount(shift * cells + cell, minlength=shape[0] * cells).reshape(shape).astype(np.int32)
    return counts


def with_crews(
    crews: Ints, desired: Ints, placed: Ints | None, needs: tuple[Need, ...], open_: Bools, costs: Staffing
) -> ShiftRoster:
    """Expected costs with these crews (shifts, depots, horizon): what they cost, and what a driver
    more or fewer would change at best; `desired` are drivers with vans for all, (depots,
    horizon)."""
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


def _ranks_in_row(group: Positions) -> Positions:
    """Number of earlier entries of the same group, in a row whose groups stand together."""
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]]) if len(group) else np.zeros(0, np.intp)
    sizes = np.diff(np.r_[starts, len(group)])
    ranks: Positions = np.arange(len(group)) - np.repeat(starts, sizes)
    return ranks
