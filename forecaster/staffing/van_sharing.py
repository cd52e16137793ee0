"""Vans shared by the drivers of a depot's day: the order in which vans carry drivers, and the
number wanted for all.

Overlapping shifts do not share a van; others use it one after another, up to `drivers_per_van` per
day. A day without shifts is one shift, whose drivers use a van one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from forecaster.config import Shift, Staffing
from forecaster.core.arrays import Bools, Doubles, Ints
from forecaster.staffing import placing, shortage
from forecaster.staffing.need import DIGITS, Need
from forecaster.staffing.placing import Claims

Positions = NDArray[np.intp]
MINUTES = 1440  # per day


@dataclass(frozen=True)
class VanSharing:
    """Wanted drivers, cell by cell (a cell is a depot-day), in the order in which vans carry them."""

    shifts: int
    cells: int
    per_van: int
    cell: Positions
    shift: Positions
    saving: Doubles
    rank_in_block: Positions  # among the drivers of its cell in shifts that share no van

    @classmethod
    def of(cls, wanted: Ints, needs: Sequence[Need], staffing: Staffing, per_van: int) -> VanSharing:
        """Drivers of crews (shifts, depots, horizon), by their savings under scarce vans."""
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
        """Drivers of `cells` cells, each the `number`-th of its shift, by their savings.

        On days without `shifts` all drivers use a van one after another.
        """
        order = best_first(cell, saving, shift_of, number)
        cell, shift_of, saving = cell[order], shift_of[order], saving[order]
        rank_in_block = np.zeros(len(cell), np.intp)
        if shifts:
            block = np.array(blocks(shifts), np.intp)[shift_of] + cell * len(shifts)
            in_blocks = np.argsort(block, kind="stable")
            rank_in_block[in_blocks] = ranks_in_row(block[in_blocks])
        return cls(max(len(shifts), 1), cells, per_van, cell, shift_of.astype(np.intp), saving, rank_in_block)

    @cached_property
    def first_van(self) -> Positions:
        """Van that carries each driver, counted from 0 in its cell.

        Drivers carried by some vans are also carried by more vans: before a driver would be
        displaced by others, those others fill the vans by themselves.
        """
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
        vans = np.zeros(self.cells, np.int32)
        np.maximum.at(vans, self.cell, (self.first_van + 1).astype(np.int32))
        return vans

    def crews(self, vans: Ints) -> Ints:
        """Crews (shifts, cells) carried by these numbers of vans (cells,)."""
        carried = self.first_van < vans[self.cell]
        return crew_counts(self.cell[carried], self.shift[carried], (self.shifts, self.cells))

    def first_of_each(self, most: int) -> Ints:
        """Crews (shifts, cells) of the first `most` drivers of each cell."""
        first = ranks_in_row(self.cell) < most
        return crew_counts(self.cell[first], self.shift[first], (self.shifts, self.cells))

    def claims(self, cells: Positions, usual: Doubles, staffing: Staffing) -> Claims:
        """Claims of the depots of a day (depots,) for the vans of its cells; the median needs
        `usual` drivers.

        Vans of `crew.min` drivers come first, then those of `crew.min_share` of the median's need,
        smallest share first, then all others by their expected savings, as on days without shifts.
        """
        depot, van, before = self.carried_before(cells)
        saving = self._by_van(self.saving)[cells]
        floor = np.ceil(np.round(staffing.crew.min_share * usual, DIGITS))[depot]
        tier = np.where(before < floor, placing.FLOOR, placing.FURTHER)
        tier = np.where(before < staffing.crew.min, placing.FIRST, tier)
        share = np.where(tier == placing.FLOOR, before / np.maximum(usual[depot], 1e-9), 1.0)
        return Claims(depot, van, tier, share, saving[depot, van])

    def carried_before(self, cells: Positions) -> tuple[Positions, Ints, Doubles]:
        """Rows of a day's vans, for its cells (depots,): the depot, the van's index, and the number
        of drivers carried by the vans before it."""
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
        """Mask of drivers with a van, for these numbers of vans (cells,)."""
        in_block = self.rank_in_block < vans[self.cell]
        order = np.cumsum(in_block) - 1
        first = np.full(self.cells, len(order), np.intp)
        np.minimum.at(first, self.cell[in_block], order[in_block])
        return in_block & (order - first[self.cell] < self.per_van * vans[self.cell])


def blocks(shifts: Sequence[Shift]) -> tuple[int, ...]:
    """Block of each shift: shifts of a block overlap, directly or through other shifts."""
    block = list(range(len(shifts)))
    for i, shift in enumerate(shifts):
        for j in range(i):
            if _overlap(shift, shifts[j]) and block[i] != block[j]:
                block = [block[i] if number == block[j] else number for number in block]
    in_order = list(dict.fromkeys(block))
    return tuple(in_order.index(number) for number in block)


def _overlap(first: Shift, second: Shift) -> bool:
    """Return true if the shifts share a minute, on the days on which they begin or on the next
    ones."""
    (start, length), (later_start, later_length) = map(_span, (first, second))
    return (later_start - start) % MINUTES < length or (start - later_start) % MINUTES < later_length


def _span(shift: Shift) -> tuple[int, int]:
    """Start in minutes of the day, and length on the clock in minutes."""
    return shift.starts.hour * 60 + shift.starts.minute, shift.minutes


def best_first(cell: Positions, saving: Doubles, shift: Positions, number: Ints) -> Positions:
    """Order by cell, then by saving, largest first; ties go to the earlier shift."""
    return np.lexsort((number, shift, -np.round(saving, DIGITS), cell))


def crew_counts(cell: Positions, shift: Positions, shape: tuple[int, ...]) -> Ints:
    """Number of drivers of each shift in each cell."""
    cells = int(np.prod(shape[1:]))
    counts: Ints = np.bincount(shift * cells + cell, minlength=shape[0] * cells).reshape(shape).astype(np.int32)
    return counts


def ranks_in_row(group: Positions) -> Positions:
    """Number of earlier entries of the same group, for each entry; entries of a group are
    contiguous."""
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]]) if len(group) else np.zeros(0, np.intp)
    sizes = np.diff(np.r_[starts, len(group)])
    ranks: Positions = np.arange(len(group)) - np.repeat(starts, sizes)
    return ranks
