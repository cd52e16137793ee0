"""Panels as of earlier cutoffs, windows as the model reads them, and validated values."""

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
    small = bare([[1, 2, 3]], horizon=2)
    assert small.history == 3
    assert small.cutoff == date(2024, 1, 3)
    assert small.target_dates == (date(2024, 1, 4), date(2024, 1, 5))


def test_a_panel_with_mismatched_arrays_is_rejected() -> None:
    whole = panel()
    changes = {
        "demand": whole.demand[:, 1:],
        "open": whole.open[:, 1:],
        "covariates": whole.covariates[..., :0],
        "calendar": whole.calendar[..., :3],
        "calendar_group": whole.calendar_group[1:],
        "statics": whole.statics[:, :1],
    }
    for name, wrong in changes.items():
        with pytest.raises(ValueError, match=rf"Panel\.{name} has shape .*, wanted"):
            replace(whole, **{name: wrong})


def test_panels_are_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        panel().horizon = 3  # type: ignore[misc]


def test_a_panel_as_of_an_earlier_cutoff_by_hand() -> None:
    whole = bare([[1, 2, 3, 4, 5]], horizon=2, closed=[(0, 3)])
    before = whole.at(date(2024, 1, 2))
    assert before.cutoff == date(2024, 1, 2)
    assert before.demand.tolist() == [[1, 2]]
    assert before.target_dates == (date(2024, 1, 3), date(2024, 1, 4))
    assert before.open.tolist() == [[True, True, True, False]]
    assert whole.at(whole.cutoff).demand.tolist() == whole.demand.tolist()
    for outside in (date(2023, 12, 31), date(2024, 1, 6)):
        with pytest.raises(ValueError, match=f"cutoff {outside} is outside the history 2024-01-01 … 2024-01-05"):
            whole.at(outside)


def test_the_last_days_keep_the_cutoff_and_the_days_after_it() -> None:
    whole = panel(3, 20)
    last = whole.last(5)
    assert (last.history, last.cutoff, last.target_dates) == (5, whole.cutoff, whole.target_dates)
    np.testing.assert_array_equal(last.demand, whole.demand[:, 15:])
    np.testing.assert_array_equal(last.covariates, whole.covariates[:, 15:])
    np.testing.assert_array_equal(last.calendar, whole.calendar[:, 15:])
    assert whole.last(99).history == 20


def test_actuals_after_the_history_are_unknown() -> None:
    small = bare([[1, 2, NAN, 4, 5]], horizon=3)
    np.testing.assert_array_equal(small.actuals(date(2024, 1, 1)), [[2, NAN, 4]])
    np.testing.assert_array_equal(small.actuals(date(2024, 1, 4)), [[5, NAN, NAN]])
    np.testing.assert_array_equal(small.actuals(date(2024, 1, 5)), [[NAN, NAN, NAN]])


def test_a_window_is_the_end_of_the_history_and_the_horizon() -> None:
    whole = panel(3, 10)
    window = whole.window(4)
    np.testing.assert_array_equal(window["demand"], whole.demand[:, 6:])
    np.testing.assert_array_equal(window["open"], np.ones((3, 7)))
    np.testing.assert_array_equal(window["covariates"], whole.covariates[:, 6:])
    np.testing.assert_array_equal(window["calendar"], whole.calendar[[0, 1, 0], 6:])
    assert list(window) == ["demand", "open", "covariates", "calendar", "statics"]
    assert window["statics"].dtype == np.int32
    assert {x.dtype.name for name, x in window.items() if name != "statics"} == {"float32"}


def test_days_before_the_history_are_unknown_and_open() -> None:
    window = bare([[1, 2]], horizon=1, closed=[(0, 0)]).window(4)
    np.testing.assert_array_equal(window["demand"], [[NAN, NAN, 1, 2]])
    np.testing.assert_array_equal(window["open"], [[1, 1, 0, 1, 1]])
    assert window["covariates"].shape == window["calendar"].shape == (1, 5, 0)
    assert window["statics"].shape == (1, 0)


FOUR_WEEKS = np.tile([1.0, 2, 3, 4, 5, 6, 7], 4)


def newcomers() -> Panel:
    """Two depots with a past of their own, one that opened two days ago and one that opens
    tomorrow, all in one city."""
    history = np.array([FOUR_WEEKS, 3 * FOUR_WEEKS, np.full(28, NAN), np.full(28, NAN)])
    history[2, 26:] = [60, 70]  # ten times the profile
    always_open = bare(history, horizon=2)
    opened = always_open.open.copy()
    opened[2, :26] = opened[3, :28] = False
    opened[0, 3] = False
    return replace(always_open, open=opened, attributes={"city": ("Ulm", "Ulm", "Ulm", "")})


def test_a_window_has_the_citys_profile_for_a_new_depot_but_the_panel_does_not() -> None:
    young = newcomers()
    demand = young.demand.copy()
    assert young.cold.tolist() == [True, False, True, True]  # the first was closed on one of its 28 days
    young = replace(young, open=np.where([[True], [False], [False], [False]], True, young.open))
    assert young.cold.tolist() == [False, False, True, True]
    window = young.window(28)
    # The peers' levels are 4 and 12; the mean of their logs (plus one) is that of 7.06. Since their
    # days match the profile, so does the own level.
    typical = (np.sqrt(5 * 13) - 1) / 4
    np.testing.assert_allclose(window["demand"][3], typical * FOUR_WEEKS, rtol=1e-6)
    np.testing.assert_allclose(window["demand"][2, :26], (10 * FOUR_WEEKS)[:26], rtol=1e-3)
    assert window["demand"][2, 26:].tolist() == [60, 70]
    assert window["open"].all()
    np.testing.assert_array_equal(young.demand, demand)
    assert np.isnan(young.demand[3]).all()
    assert not young.open[3, :28].any()


def test_only_a_depot_whose_level_is_guessed_has_wider_quantiles() -> None:
    young, levels = newcomers(), (0.1, 0.5, 0.9)
    young = replace(young, open=np.where([[True], [False], [False], [False]], True, young.open))
    quantiles = np.broadcast_to(np.array([8, 10, 12], np.float32), (4, 2, 3))
    wider = young.widen_by_doubt(quantiles, levels)
    assert wider[:2].tobytes() == quantiles[:2].tobytes()
    assert wider[:, :, 1].tolist() == quantiles[:, :, 1].tolist()
    assert (wider[3, :, 0] < 5).all()  # only the levels of its peers are known: 4 and 12
    assert (wider[3, :, 2] > 18).all()
    np.testing.assert_allclose(wider[2], quantiles[2], rtol=1e-3)
    assert young.widen_by_doubt(quantiles[3:], levels, slice(3, 4)).tobytes() == wider[3:].tobytes()
    assert panel(4, 60).widen_by_doubt(quantiles, levels) is quantiles


def test_the_window_of_a_settled_depot_is_bit_identical_to_the_panel() -> None:
    young = newcomers()
    random = np.random.default_rng(0)
    more = bare(np.where(random.random((6, 90)) < 0.3, NAN, random.poisson(9, (6, 90))), closed=[(1, 5), (2, 92)])
    demand = more.demand.copy()
    demand[3, :70] = NAN
    more = replace(more, demand=demand)
    for whole_panel in (young, more):
        is_settled, window = ~whole_panel.cold, whole_panel.window(20)
        assert window["demand"][is_settled].tobytes() == whole_panel.demand[is_settled][:, -20:].tobytes()
        np.testing.assert_array_equal(
            window["open"][is_settled], whole_panel.open[is_settled][:, whole_panel.history - 20 :]
        )
        for name, whole in whole_panel.window(20).items():
            assert whole.tobytes() == window[name].tobytes()


def test_a_window_of_some_depots_is_part_of_the_whole_window() -> None:
    for whole_panel in (newcomers(), panel(5, 60)):
        whole = whole_panel.window(40)
        for rows in (slice(0, 2), slice(2, 3), slice(1, None), slice(3, 99)):
            for name, part in whole_panel.window(40, rows).items():
                np.testing.assert_array_equal(part, whole[name][rows])


def test_a_closed_day_of_the_horizon_stays_closed_for_a_new_depot() -> None:
    young = newcomers()
    opened = young.open.copy()
    opened[:, 29] = False
    window = replace(young, open=opened).window(28)
    assert not window["open"][:, 29].any()
    assert window["open"][2:, 28].all()


def test_an_earlier_cutoff_guesses_only_from_earlier_counts() -> None:
    young = panel(3, 120)
    demand = young.demand.copy()
    demand[2] = NAN
    young, cutoff = replace(young, demand=demand), date(2024, 3, 15)
    after = demand.copy()
    after[:, young.at(cutoff).history :] *= 100
    window = replace(young, demand=after).at(cutoff).window(50)
    np.testing.assert_array_equal(window["demand"], young.at(cutoff).window(50)["demand"])
    assert np.isfinite(window["demand"]).all()


def test_marks_are_separated_by_the_depots_they_affect() -> None:
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


def test_an_encoding_keeps_its_order_in_json() -> None:
    words = Encoding(("promo", "weather=rain"), {"size": ("large", "small"), "city": ()})
    back = Encoding.from_json(json.loads(json.dumps(words.to_json())))
    assert back == words
    assert list(back.statics) == ["size", "city"]


def test_the_median_is_the_middle_level() -> None:
    assert forecast([[[1, 2, 4], [3, 5, 9]]]).median.tolist() == [[2, 5]]


def test_a_verdict_reads_as_a_sentence() -> None:
    assert Verdict(False, ("too wide", "too late"), {}).sentence() == "not admitted: too wide; too late"
