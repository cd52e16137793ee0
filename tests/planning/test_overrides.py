"""A planner's number is written down with its reason, moves a day as declared, and holds until it ends."""

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
WISH = ProposedOverride("D0", DAY, 150, "weather", "Ana")
MADE = Override(1, NOON, "small", "D0", DAY, 150, "weather", "", "Ana", DAY)


def test_the_override_becomes_the_median_and_the_range_is_scaled_with_it() -> None:
    said = move_quantiles(np.float32([80, 100, 130]), LEVELS, 150)
    assert said.tolist() == [120, 150, 195]
    assert move_quantiles(np.float32([80, 100, 130]), LEVELS, 0).tolist() == [0, 0, 0]


def test_a_range_about_nothing_is_shifted() -> None:
    assert move_quantiles(np.float32([0, 0.5, 2.5]), LEVELS, 10).tolist() == [9.5, 10, 12]
    assert move_quantiles(np.float32([0, 0, 3]), LEVELS, 2).tolist() == [2, 2, 5]


def test_the_newest_override_of_a_day_counts_or_none() -> None:
    newer = replace(MADE, id=2, orders=170)
    cell = ("D0", DAY)
    assert active_overrides([newer, MADE], DAY) == {cell: newer}
    assert active_overrides([MADE, replace(newer, withdrawn=NOON)], DAY) == {}
    assert active_overrides([replace(MADE, until=date(2024, 1, 9)), replace(newer, until=DAY)], date(2024, 1, 3)) == {}


def test_an_older_override_of_a_day_is_replaced_for_good() -> None:
    taken = replace(MADE, id=3, withdrawn=NOON)
    other = replace(MADE, id=2, target_date=date(2024, 1, 3))
    assert find_superseded([taken, other, MADE]) == {1: 3}


def test_an_override_holds_for_publications_up_to_its_last_day() -> None:
    assert MADE.holds(DAY)
    assert not MADE.holds(date(2024, 1, 3))


def test_a_closed_day_and_one_that_is_not_forecast_stay_as_they_are() -> None:
    model = forecast([[[80, 100, 130], [0, 0, 0]]], closed=[(0, 1)])
    closed, unknown = replace(MADE, target_date=date(2024, 1, 3)), replace(MADE, depot_id="X")
    held = {(each.depot_id, each.target_date): each for each in (MADE, closed, unknown)}
    at = locate_overrides(model, held)
    assert at == {(0, 0): MADE}
    assert apply_overrides(model, at).quantiles.tolist() == [[[120, 150, 195], [0, 0, 0]]]
    assert model.quantiles.tolist() == [[[80, 100, 130], [0, 0, 0]]]


def test_what_is_published_shows_both_numbers() -> None:
    shown = MADE.to_published([80, 100, 130])
    assert (shown.orders, shown.quantiles, shown.by, shown.until) == (150, (80, 100, 130), "Ana", DAY)
    assert type(shown).from_json(shown.to_json()) == shown


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"orders": -1}, "orders: found -1, wanted a whole number from 0 to 10,000,000"),
        ({"by": " "}, "by: found nothing, wanted the name of who decides"),
        ({"note": "x" * 501}, "note: found more than 500 letters"),
        ({"reason": "mood"}, "reason: found 'mood', wanted one of weather, other"),
        ({"target_date": date(2024, 1, 1)}, "date: found 2024-01-01, which is over; wanted 2024-01-02 or a later day"),
        ({"until": date(2024, 1, 1)}, "until: found 2024-01-01, which is over; wanted 2024-01-02 or a later day"),
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(OverrideError, match=said):
        replace(WISH, **wrong).check(["weather", "other"], DAY)
