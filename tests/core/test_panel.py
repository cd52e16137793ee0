"""Panels as they stood, windows as the model reads them, and values that cannot be wrong."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from datetime import date

import numpy as np
import pytest

from forecaster.core.forecast import Verdict
from forecaster.core.marks import EVERYONE, Mark, Marks
from forecaster.core.panel import Encoding, Panel
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


def test_the_last_days_keep_the_cutoff_and_the_days_after_it() -> None:
    given = panel(3, 20)
    last = given.last(5)
    assert (last.history, last.cutoff, last.target_dates) == (5, given.cutoff, given.target_dates)
    np.testing.assert_array_equal(last.demand, given.demand[:, 15:])
    np.testing.assert_array_equal(last.covariates, given.covariates[:, 15:])
    np.testing.assert_array_equal(last.calendar, given.calendar[:, 15:])
    assert given.last(99).history == 20


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


FOUR_WEEKS = np.tile([1.0, 2, 3, 4, 5, 6, 7], 4)


def newcomers() -> Panel:
    """Two depots of one city that stand on their own, one that opened two days ago and one that opens tomorrow."""
    history = np.array([FOUR_WEEKS, 3 * FOUR_WEEKS, np.full(28, NAN), np.full(28, NAN)])
    history[2, 26:] = [60, 70]  # ten times the profile
    given = bare(history, horizon=2)
    opened = given.open.copy()
    opened[2, :26] = opened[3, :28] = False
    opened[0, 3] = False
    return replace(given, open=opened, attributes={"city": ("Ulm", "Ulm", "Ulm", "")})


def test_a_new_depot_is_seen_with_its_citys_profile_and_the_panel_stays_unknown() -> None:
    given = newcomers()
    demand = given.demand.copy()
    assert given.cold.tolist() == [True, False, True, True]  # the first was closed on one of its 28 days
    given = replace(given, open=np.where([[True], [False], [False], [False]], True, given.open))
    assert given.cold.tolist() == [False, False, True, True]
    found = given.window(28)
    # The peers' levels are 4 and 12, the mean of their logs (one added) is that of 7.06; since their days hold to the
    # profile, so does the own level.
    typical = (np.sqrt(5 * 13) - 1) / 4
    np.testing.assert_allclose(found["demand"][3], typical * FOUR_WEEKS, rtol=1e-6)
    np.testing.assert_allclose(found["demand"][2, :26], (10 * FOUR_WEEKS)[:26], rtol=1e-3)
    assert found["demand"][2, 26:].tolist() == [60, 70]
    assert found["open"].all()
    np.testing.assert_array_equal(given.demand, demand)
    assert np.isnan(given.demand[3]).all()
    assert not given.open[3, :28].any()


def test_only_a_depot_whose_level_is_guessed_has_wider_quantiles() -> None:
    given, levels = newcomers(), (0.1, 0.5, 0.9)
    given = replace(given, open=np.where([[True], [False], [False], [False]], True, given.open))
    said = np.broadcast_to(np.array([8, 10, 12], np.float32), (4, 2, 3))
    found = given.doubted(said, levels)
    assert found[:2].tobytes() == said[:2].tobytes()
    assert found[:, :, 1].tolist() == said[:, :, 1].tolist()
    assert (found[3, :, 0] < 5).all()  # of which nothing is known but that its peers are at 4 and 12
    assert (found[3, :, 2] > 18).all()
    np.testing.assert_allclose(found[2], said[2], rtol=1e-3)
    assert given.doubted(said[3:], levels, slice(3, 4)).tobytes() == found[3:].tobytes()
    assert panel(4, 60).doubted(said, levels) is said


def test_the_window_of_a_depot_that_stands_on_its_own_is_the_panels_to_the_bit() -> None:
    given = newcomers()
    random = np.random.default_rng(0)
    more = bare(np.where(random.random((6, 90)) < 0.3, NAN, random.poisson(9, (6, 90))), closed=[(1, 5), (2, 92)])
    demand = more.demand.copy()
    demand[3, :70] = NAN
    more = replace(more, demand=demand)
    for one in (given, more):
        own, found = ~one.cold, one.window(20)
        assert found["demand"][own].tobytes() == one.demand[own][:, -20:].tobytes()
        np.testing.assert_array_equal(found["open"][own], one.open[own][:, one.history - 20 :])
        for name, whole in one.window(20).items():
            assert whole.tobytes() == found[name].tobytes()


def test_a_window_of_some_depots_is_a_part_of_the_whole() -> None:
    for given in (newcomers(), panel(5, 60)):
        whole = given.window(40)
        for rows in (slice(0, 2), slice(2, 3), slice(1, None), slice(3, 99)):
            for name, found in given.window(40, rows).items():
                np.testing.assert_array_equal(found, whole[name][rows])


def test_a_closed_day_of_the_horizon_stays_closed_for_a_new_depot() -> None:
    given = newcomers()
    opened = given.open.copy()
    opened[:, 29] = False
    found = replace(given, open=opened).window(28)
    assert not found["open"][:, 29].any()
    assert found["open"][2:, 28].all()


def test_an_earlier_cutoff_guesses_from_what_came_before_it() -> None:
    given = panel(3, 120)
    demand = given.demand.copy()
    demand[2] = NAN
    given, cutoff = replace(given, demand=demand), date(2024, 3, 15)
    after = demand.copy()
    after[:, given.at(cutoff).history :] *= 100
    seen = replace(given, demand=after).at(cutoff).window(50)
    np.testing.assert_array_equal(seen["demand"], given.at(cutoff).window(50)["demand"])
    assert np.isfinite(seen["demand"]).all()


def test_marks_are_told_apart_by_whom_they_concern() -> None:
    day = date(2024, 5, 1)
    fair, sale = Mark(day, "promo", "fair"), Mark(day, "closure", "sale")
    audience = np.array([0, 2], np.int32)
    marks = Marks(("A", "B", "C"), (audience, np.array([2], np.int32)), ((fair, 0), (sale, EVERYONE), (fair, 1)))
    assert [marks.of(depot) for depot in range(3)] == [(sale, fair), (sale,), (sale, fair, fair)]
    assert [(mark.name, mark.depot_id) for mark in marks] == [
        ("sale", None),
        ("fair", "A"),
        ("fair", "C"),
        ("fair", "C"),
    ]
    assert tuple(Marks()) == ()


def test_an_encoding_survives_json_with_its_order() -> None:
    words = Encoding(("promo", "weather=rain"), {"size": ("large", "small"), "city": ()})
    back = Encoding.from_json(json.loads(json.dumps(words.to_json())))
    assert back == words
    assert list(back.statics) == ["size", "city"]


def test_the_median_is_the_middle_level() -> None:
    assert forecast([[[1, 2, 4], [3, 5, 9]]]).median.tolist() == [[2, 5]]


def test_a_verdict_reads_as_a_sentence() -> None:
    assert Verdict(False, ("too wide", "too late"), {}).sentence() == "not admitted: too wide; too late"
