"""The parts of a change add up exactly to the published difference."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forecaster.publishing.attribution import ORDER, Swaps, attribute_change


def swaps(*steps: float) -> Swaps:
    return Swaps(*(np.array([[step]], float) for step in steps))


def of(*steps: float) -> dict[str, int]:
    return {name: int(orders[0, 0]) for name, orders in attribute_change(swaps(*steps)).items()}


def test_each_part_is_the_difference_made_by_its_swap() -> None:
    #            published, model, again, calendar, restated, actuals, weights, tonight, now
    change = of(100.0, 90.0, 90.0, 110.0, 105.0, 112.0, 120.0, 118.0, 130.0)
    assert change == {
        "calendar": 20,
        "restated": -5,
        "actuals": 7,
        "model": 8,
        "calibration": -2,
        "override": 12 - 10,  # a new one of +12, and the old one of +10 gone
    }
    assert sum(change.values()) == 130 - 100


def test_irreproducible_remainder_counts_as_the_models_part() -> None:
    assert of(100.0, 100.0, 97.0, 97.0, 97.0, 97.0, 97.0, 97.0, 97.0)["model"] == -3


def test_halves_are_rounded_as_on_the_page() -> None:
    change = of(100.5, 100.5, 100.5, 101.5, 101.5, 101.5, 101.5, 101.5, 101.5)
    assert change["calendar"] == round(101.5) - round(100.5) == 2


ORDERS = st.floats(0, 1e6, allow_nan=False)


@given(st.lists(ORDERS, min_size=9, max_size=9))
def test_the_parts_always_add_up_to_the_rounded_difference(steps: list[float]) -> None:
    change = of(*steps)
    assert tuple(change) == ORDER
    assert sum(change.values()) == round(steps[-1]) - round(steps[0])
