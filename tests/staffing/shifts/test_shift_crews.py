"""Crews of shifts by hand, and compared with all possible crews."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecaster.config import Shift, Staffing, Vans
from forecaster.staffing import newsvendor
from forecaster.staffing.need import Need
from forecaster.staffing.shifts import shift_crews
from forecaster.staffing.vans import VanPool
from tests.panels import forecast

FIVE = (0.1, 0.3, 0.5, 0.7, 0.9)
EARLY = {"name": "early", "start": "06:00", "end": "14:00", "share": 0.6}
LATE = {"name": "late", "start": "14:00", "end": "22:00", "share": 0.4}
MIDDAY = {"name": "midday", "start": "10:00", "end": "18:00", "share": 0.4}
NIGHT = {"name": "night", "start": "22:00", "end": "07:00", "share": 0.4}


def costs(*shifts: dict[str, Any], **more: Any) -> Staffing:
    declared = {"orders_per_driver": 10, "cost_short": 30, "cost_idle": 10, "shifts": shifts or (EARLY, LATE), **more}
    return Staffing.model_validate(declared)


def crews(staffing: Staffing, quantiles: Any, fleet: VanPool | None = None, **more: Any) -> list[list[int]]:
    """Crews of each shift on the first day of each depot."""
    result = shift_crews.roster(forecast(quantiles, levels=FIVE, **more), staffing, fleet)
    assert (result.crews.sum(axis=0) == result.drivers).all()
    return result.crews[:, :, 0].T.tolist()


def pool(total: int, depots: int = 1, per_van: int = 1) -> VanPool:
    return VanPool.of(Vans(total=total, drivers_per_van=per_van), {}, depots)


def test_a_shift_needs_its_share_of_the_day_and_the_day_is_the_sum() -> None:
    """100 certain orders need six and four drivers; 95 are 57 and 38 orders, which need six and
    four as well."""
    assert crews(costs(), [[[100] * 5]]) == [[6, 4]]
    assert crews(costs(), [[[95] * 5]]) == [[6, 4]]
    assert newsvendor.roster(forecast([[[91] * 5]], levels=FIVE), costs()).drivers.tolist() == [[10]]
    assert crews(costs(), [[[91] * 5]]) == [[6, 4]]


def test_rounded_shares_are_normalized_to_a_whole_day() -> None:
    thirds = [{**EARLY, "name": name, "share": 0.333} for name in "abc"]
    assert crews(costs(*thirds), [[[90] * 5]]) == [[3, 3, 3]]


def test_chance_short_of_a_day_is_that_of_its_tightest_shift() -> None:
    """The ratio of 0.75 is between 55 at level 0.7 and 75 at 0.9: 60 orders, 36 and 24, or four and
    three drivers. Early is short above 66.7 orders, late above 75, the 0.9 quantile."""
    result = shift_crews.roster(forecast([[[20, 30, 40, 55, 75]]], levels=FIVE), costs())
    assert result.drivers.tolist() == [[7]]
    assert result.chance_short[0, 0] == pytest.approx(0.1 + 0.2 * (75 - 200 / 3) / 20)


def test_limits_apply_to_the_day_and_keep_the_largest_savings() -> None:
    sure = [[[100] * 5]]
    assert sum(crews(costs(crew={"max": 7}), sure)[0]) == 7
    assert crews(costs(crew={"min": 3}), [[[0] * 5]]) == [[3, 0]]
    assert crews(costs(crew={"min": 0}), [[[0] * 5]]) == [[0, 0]]
    assert crews(costs(), sure, closed=[(0, 0)]) == [[0, 0]]


def test_disjoint_shifts_share_a_van_up_to_its_drivers() -> None:
    """Six and four drivers: with two drivers per van, six vans suffice, as the early shift needs
    one van each."""
    sure = [[[100] * 5]]
    assert crews(costs(), sure, pool(6, per_van=2)) == [[6, 4]]
    assert crews(costs(), sure, pool(5, per_van=2)) == [[5, 4]]
    assert sum(crews(costs(), sure, pool(6, per_van=1))[0]) == 6
    assert sum(crews(costs(EARLY, MIDDAY), sure, pool(6, per_van=2))[0]) == 6  # both shifts need vans from ten to two
    result = shift_crews.roster(forecast(sure, levels=FIVE), costs(), pool(99, per_van=2))
    assert result.vans is not None
    assert result.vans.tolist() == [[6]]


def test_shifts_overlapping_over_midnight_or_in_a_chain_form_one_block() -> None:
    shifts = [Shift.model_validate(shift) for shift in (EARLY, LATE, MIDDAY, NIGHT)]
    early, late, midday, night = shifts
    assert shift_crews.blocks([early, late]) == (0, 1)
    assert shift_crews.blocks([early, late, midday]) == (0, 0, 0)
    assert shift_crews.blocks([late, night]) == (0, 1)
    assert shift_crews.blocks([early, late, night]) == (0, 1, 0)  # the night ends an hour into the early shift


def test_one_more_and_one_fewer_use_the_best_shift() -> None:
    result = shift_crews.roster(forecast([[[20, 30, 40, 55, 75]]], levels=FIVE), costs())
    needs = shift_crews.shift_needs(forecast([[[20, 30, 40, 55, 75]]], levels=FIVE), costs())

    def cost(early: int, late: int) -> float:
        pairs = zip(needs, (early, late), strict=True)
        return sum(float(need.cost(np.array([[crew]], np.int32), costs())[0, 0]) for need, crew in pairs)

    assert result.expected_cost[0, 0] == pytest.approx(cost(4, 3))
    assert result.one_more[0, 0] == pytest.approx(min(cost(5, 3), cost(4, 4)))
    assert result.one_fewer[0, 0] == pytest.approx(min(cost(3, 3), cost(4, 2)))
    [[early], _] = result.savings(costs(cost_short_growth=0))
    assert early.tolist() == pytest.approx([cost(k, 3) - cost(k + 1, 3) for k in range(4)])


def test_first_driver_of_a_shift_saves_most_even_under_certain_need() -> None:
    """Six drivers are certainly needed: the k-th missing one costs 30 × (1 + (k - 1) / 6), and
    without the first driver it is the sixth."""
    result = shift_crews.roster(forecast([[[100] * 5]], levels=FIVE), costs())
    [[early], _] = result.savings(costs())
    assert early.tolist() == pytest.approx([55, 50, 45, 40, 35, 30])


# with `crew.max` below the wanted crew, and one van for two drivers, one driver more may be needed
@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 60), min_size=5, max_size=5).map(sorted),
    st.sampled_from([(EARLY, LATE), (EARLY, MIDDAY), (EARLY, NIGHT)]),
    st.integers(1, 8),
    st.integers(1, 2),
    st.integers(0, 2),
    st.sampled_from([None, 3, 6]),
)
def test_no_crews_within_limits_and_vans_cost_less(
    orders: list[int], shifts: Any, total: int, per_van: int, fewest: int, most: int | None
) -> None:
    staffing = costs(*shifts, crew={"min": fewest, "max": most}, cost_short_growth=0)
    predicted = forecast([[orders]], levels=FIVE)
    needs = shift_crews.shift_needs(predicted, staffing)
    result = shift_crews.roster(predicted, staffing, pool(total, per_van=per_van))
    share = len(set(shift_crews.blocks(staffing.shifts))) == 2

    def cost(crew: tuple[int, ...]) -> float:
        return sum(_cost(need, number, staffing) for need, number in zip(needs, crew, strict=True))

    allowed = [
        crew
        for crew in product(range(9), repeat=2)
        if sum(crew) <= total * per_van
        and (max(crew) if share else sum(crew)) <= total
        and sum(crew) <= (99 if most is None else most)
        and sum(crew) >= min(fewest, total)
    ]
    assert result.expected_cost[0, 0] == pytest.approx(min(map(cost, allowed)), abs=1e-6)


def _cost(need: Need, crew: int, staffing: Staffing) -> float:
    return float(need.cost(np.array([[crew]], np.int32), staffing)[0, 0])
