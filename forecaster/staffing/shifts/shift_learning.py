"""Daily orders by shift, from half-hourly orders: the sample from which shares of shifts are
learned.

A shift that passes midnight belongs to the day on which it starts, with the orders of its hours on
the next day. So the split day runs from the first start to the last end, and stands for the
calendar day whose total is forecast. Sums over weeks agree; a single day is off by the difference
between the small hours after it and its own. Orders outside all shifts belong to the next shift
that starts, which finds them waiting. A day counts only if all of it is known: with shifts that
pass midnight, if the next day is known or the depot was closed on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np

from forecaster.config import Shift, Spec
from forecaster.core.arrays import Bools, Doubles, Floats, Ints
from forecaster.core.knowledge import Knowledge
from forecaster.core.panel import Panel
from forecaster.demand.half_hours.clock import HALF_HOURS
from forecaster.demand.half_hours.stored import latest_profiles
from forecaster.demand.history import aliases
from forecaster.demand.history.point_in_time import current_rows, frame
from forecaster.lake import Lake
from forecaster.staffing.shift_values import ShiftShares
from forecaster.staffing.shifts import shift_shares

_BEFORE, _SAME, _AFTER = -1, 0, 1  # day of a half hour's shift, relative to its own


def learn(spec: Spec, knowledge: Knowledge, panel: Panel) -> ShiftShares:
    """Learned shares of a panel's depots from known orders. Raises LakeError."""
    assert spec.staffing is not None
    window = 7 * spec.staffing.share_weeks
    # one day more: its last hours may belong to the next day
    first = (panel.cutoff - date(1970, 1, 1)).days - window
    lake, version = Lake.of(spec), knowledge.versions.get("half_hours")
    days, orders = latest_profiles(lake, first=first, as_of=knowledge.as_of, version=version)
    former = frame(lake, "aliases", version=knowledge.versions.get("aliases"), until=knowledge.as_of)
    ids = aliases.current(days["depot_id"], current_rows(former, ["alias"]))
    counts, is_known = orders_by_shift(
        ids, days["day"].to_numpy(), orders, panel, first, spec.staffing.shifts, spec.demand.first_half_hour
    )
    return shift_shares.pooled(counts, is_known, panel.cutoff - timedelta(days=window - 1), spec.staffing)


def orders_by_shift(
    ids: Any, day: Ints, orders: Floats, panel: Panel, first: int, shifts: Sequence[Shift], day_starts: int = 0
) -> tuple[Doubles, Bools]:
    """Orders by shift (shifts, depots, days) of the days after `first` (since 1970) up to the
    cutoff, and a mask of completely known days (depots, days).

    `day_starts` is the half hour at which a day begins: earlier ones are on the next calendar day.
    """
    length = (panel.cutoff - date(1970, 1, 1)).days - first + 1
    place = {depot: row for row, depot in enumerate(panel.depot_ids)}
    row = ids.map(place).fillna(-1).to_numpy(np.intp)
    in_window = (row >= 0) & (day >= first) & (day < first + length)
    row, column, orders = row[in_window], day[in_window] - first, orders[in_window].astype(float)
    counts = np.zeros((len(shifts), len(panel.depot_ids), length + 2))  # one day more on either side
    belongs = _belongs(shifts)
    belongs[:day_starts, 1] = np.minimum(belongs[:day_starts, 1] + 1, _AFTER)
    for shift in range(len(shifts)):
        for day_offset in (_BEFORE, _SAME, _AFTER):
            mine = (belongs == [shift, day_offset]).all(axis=1)
            if mine.any():
                np.add.at(counts[shift], (row, column + 1 + day_offset), orders[:, mine].sum(axis=1))
    has_row = np.zeros((len(panel.depot_ids), length), bool)
    has_row[row, column] = True
    settled = has_row | _closed(panel, length)
    is_known = has_row[:, 1:].copy()
    if (belongs[:, 1] == _BEFORE).any():
        is_known[:, :-1] &= settled[:, 2:]
        is_known[:, -1] = False
    if (belongs[:, 1] == _AFTER).any():
        is_known &= settled[:, :-1]
    return counts[:, :, 2:-1], is_known


def _closed(panel: Panel, length: int) -> Bools:
    """Mask of closed days among the last days of the history (depots, length); False before the
    panel begins."""
    closed = np.zeros((len(panel.depot_ids), length), bool)
    days = min(length, panel.history)
    if days:
        closed[:, -days:] = ~panel.open[:, panel.history - days : panel.history]
    return closed


def _belongs(shifts: Sequence[Shift]) -> Ints:
    """Shift of each half hour, and the relative day on which it starts (half hours, 2)."""
    starts = [shift.starts.hour * 2 + shift.starts.minute // 30 for shift in shifts]
    answer = np.zeros((HALF_HOURS, 2), np.int32)
    for half in range(HALF_HOURS):
        since = [(half - start) % HALF_HOURS for start in starts]
        last = min(range(len(shifts)), key=since.__getitem__)
        if 30 * since[last] < shifts[last].minutes:
            answer[half] = last, _SAME if half >= starts[last] else _BEFORE
        else:
            until = [(start - half) % HALF_HOURS for start in starts]
            soonest = min(range(len(shifts)), key=until.__getitem__)
            answer[half] = soonest, _SAME if starts[soonest] > half else _AFTER
    return answer
