"""Panels as they stood, windows as the model reads them, and values that cannot be wrong."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from datetime import date

import numpy as np
import pytest

from forecaster.values import Encoding, Verdict
from tests.panels import NAN, bare, forecast, panel


def test_a_panel_knows_its_cutoff_and_the_days_after_it() -> None:
    given = bare([[1, 2, 3]], horizon=2)
    assert given.history == 3
    assert given.cutoff == date(2024, 1, 3)
    assert given.target_dates == (date(2024, 1, 4), date(2024, 1, 5))


def test_a_panel_of_arrays_that_do_not_fit_cannot_be_made() -> None:
    given = panel()
    changes = {
        "demand": given.demand[:, 1:],
        "open": given.open[:, 1:],
        "covariates": given.covariates[..., :0],
        "calendar": given.calendar[..., :3],
        "calendar_group": given.calendar_group[1:],
        "statics": given.statics[:, :1],
    }
    for name, wrong in changes.items():
        with pytest.raises(ValueError, match=rf"Panel\.{name} has shape .*, wanted"):
            replace(given, **{name: wrong})


def test_values_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        panel().horizon = 3  # type: ignore[misc]


def test_an_earlier_cutoff_by_hand() -> None:
    given = bare([[1, 2, 3, 4, 5]], horizon=2, closed=[(0, 3)])
    before = given.at(date(2024, 1, 2))
    assert before.cutoff == date(2024, 1, 2)
    assert before.demand.tolist() == [[1, 2]]
    assert before.target_dates == (date(2024, 1, 3), date(2024, 1, 4))
    assert before.open.tolist() == [[True, True, True, False]]
    assert given.at(given.cutoff).demand.tolist() == given.demand.tolist()
    for outside in (date(2023, 12, 31), date(2024, 1, 6)):
        with pytest.raises(ValueError, match=f"cutoff {outside} is outside the history 2024-01-01 … 2024-01-05"):
            given.at(outside)


def test_actuals_after_a_cutoff_are_unknown_where_the_history_ends() -> None:
    given = bare([[1, 2, NAN, 4, 5]], horizon=3)
    np.testing.assert_array_equal(given.actuals(date(2024, 1, 1)), [[2, NAN, 4]])
    np.testing.assert_array_equal(given.actuals(date(2024, 1, 4)), [[5, NAN, NAN]])
    np.testing.assert_array_equal(given.actuals(date(2024, 1, 5)), [[NAN, NAN, NAN]])


def test_a_window_is_the_end_of_the_history_and_the_horizon() -> None:
    given = panel(3, 10)
    found = given.window(4)
    np.testing.assert_array_equal(found["demand"], given.demand[:, 6:])
    np.testing.assert_array_equal(found["open"], np.ones((3, 7)))
    np.testing.assert_array_equal(found["covariates"], given.covariates[:, 6:])
    np.testing.assert_array_equal(found["calendar"], given.calendar[[0, 1, 0], 6:])
    assert list(found) == ["demand", "open", "covariates", "calendar", "statics"]
    assert found["statics"].dtype == np.int32
    assert {x.dtype.name for name, x in found.items() if name != "statics"} == {"float32"}


def test_days_before_the_history_are_unknown_and_open() -> None:
    found = bare([[1, 2]], horizon=1, closed=[(0, 0)]).window(4)
    np.testing.assert_array_equal(found["demand"], [[NAN, NAN, 1, 2]])
    np.testing.assert_array_equal(found["open"], [[1, 1, 0, 1, 1]])
    assert found["covariates"].shape == found["calendar"].shape == (1, 5, 0)
    assert found["statics"].shape == (1, 0)


def test_an_encoding_survives_json_with_its_order() -> None:
    words = Encoding(("promo", "weather=rain"), {"size": ("large", "small"), "city": ()})
    back = Encoding.from_json(json.loads(json.dumps(words.to_json())))
    assert back == words
    assert list(back.statics) == ["size", "city"]


def test_the_median_is_the_middle_level() -> None:
    assert forecast([[[1, 2, 4], [3, 5, 9]]]).median.tolist() == [[2, 5]]


def test_a_verdict_reads_as_a_sentence() -> None:
    assert Verdict(False, ("too wide", "too late"), {}).sentence() == "not admitted: too wide; too late"
