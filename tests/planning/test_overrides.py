"""A planner's number is stored with its reason, changes a day as declared, and holds until it
expires."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest

from forecaster.errors import OverrideError
from forecaster.planning.apply import apply_overrides, locate_overrides, move_quantiles
from forecaster.planning.overrides import Override, ProposedOverride, active_overrides, find_superseded
from tests.panels import LEVELS, forecast

DAY = date(2024, 1, 2)
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
PROPOSED = ProposedOverride("D0", DAY, 150, "weather", "Ana")
OVERRIDE = Override(1, NOON, "small", "D0", DAY, 150, "weather", "", "Ana", DAY)


def test_override_becomes_the_median_and_scales_the_range() -> None:
    scaled = move_quantiles(np.float32([80, 100, 130]), LEVELS, 150)
    assert scaled.tolist() == [120, 150, 195]
    assert move_quantiles(np.float32([80, 100, 130]), LEVELS, 0).tolist() == [0, 0, 0]


def test_range_around_less_than_one_order_is_scaled_as_around_one() -> None:
    assert move_quantiles(np.float32([0, 0.5, 2.5]), LEVELS, 10).tolist() == [5, 10, 30]
    assert move_quantiles(np.float32([0, 0, 3]), LEVELS, 2).tolist() == [2, 2, 8]
    assert move_quantiles(np.float32([0, 0.25, 3]), LEVELS, 0).tolist() == [0, 0, 0]
    # continuous as the model's median passes one order
    below, above = (move_quantiles(np.float32([0, median, 3]), LEVELS, 6) for median in (0.999, 1.001))
    np.testing.assert_allclose(below, above, atol=0.03)


def test_only_the_newest_override_of_a_day_counts() -> None:
    newer = replace(OVERRIDE, id=2, orders=170)
    cell = ("D0", DAY)
    assert active_overrides([newer, OVERRIDE], DAY) == {cell: newer}
    assert active_overrides([OVERRIDE, replace(newer, withdrawn=NOON)], DAY) == {}
    assert (
        active_overrides([replace(OVERRIDE, until=date(2024, 1, 9)), replace(newer, until=DAY)], date(2024, 1, 3)) == {}
    )


def test_older_override_of_a_day_is_superseded_permanently() -> None:
    withdrawn = replace(OVERRIDE, id=3, withdrawn=NOON)
    other = replace(OVERRIDE, id=2, target_date=date(2024, 1, 3))
    assert find_superseded([withdrawn, other, OVERRIDE]) == {1: 3}


def test_an_override_holds_for_publications_up_to_its_last_day() -> None:
    assert OVERRIDE.holds(DAY)
    assert not OVERRIDE.holds(date(2024, 1, 3))


def test_closed_and_unforecast_days_stay_unchanged() -> None:
    model = forecast([[[80, 100, 130], [0, 0, 0]]], closed=[(0, 1)])
    closed, unknown = replace(OVERRIDE, target_date=date(2024, 1, 3)), replace(OVERRIDE, depot_id="X")
    active = {(override.depot_id, override.target_date): override for override in (OVERRIDE, closed, unknown)}
    at = locate_overrides(model, active)
    assert at == {(0, 0): OVERRIDE}
    assert apply_overrides(model, at).quantiles.tolist() == [[[120, 150, 195], [0, 0, 0]]]
    assert model.quantiles.tolist() == [[[80, 100, 130], [0, 0, 0]]]


def test_published_override_contains_both_numbers() -> None:
    published = OVERRIDE.to_published([80, 100, 130])
    assert (published.orders, published.quantiles, published.by, published.until) == (150, (80, 100, 130), "Ana", DAY)
    assert type(published).from_json(published.to_json()) == published


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"orders": -1}, "orders: found -1, wanted a whole number from 0 to 10,000,000"),
        ({"by": " "}, "by: found nothing, wanted the name of the person who decides"),
        ({"note": "x" * 501}, "note: found more than 500 letters"),
        ({"note": "a\0"}, r"note: found 'a\\x00', wanted letters"),
        ({"by": "\udcff"}, r"by: found '\\udcff', wanted letters"),
        ({"orders": 10**5_000}, "orders: found a number of many digits, wanted a whole number from 0 to 10,000,000"),
        ({"reason": "x" * 999}, "reason: found 'x{78}…, wanted one of weather, other"),
        ({"reason": "mood"}, "reason: found 'mood', wanted one of weather, other"),
        ({"target_date": date(2024, 1, 1)}, "date: found 2024-01-01, which is over; wanted 2024-01-02 or a later day"),
        ({"until": date(2024, 1, 1)}, "until: found 2024-01-01, which is over; wanted 2024-01-02 or a later day"),
    ],
)
def test_rejects_invalid_overrides(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(OverrideError, match=message):
        replace(PROPOSED, **wrong).check(["weather", "other"], DAY)
