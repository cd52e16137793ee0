"""Figures are drawn for any backtest, even for one without any values."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from forecaster.core.forecast import Scores
from forecaster.core.panel import Panel
from forecaster.evaluation import backtest
from forecaster.reports import run_figures
from forecaster.serving.fallback import seasonal_naive
from tests.panels import LEVELS, NAN, bare, fold, panel, scale


def scored(history: Panel, days: int = 14) -> Scores:
    return backtest.run({"naive": lambda before: seasonal_naive(before, LEVELS)}, history, days)["naive"]


def drawn(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


def png_bytes(figure: Figure) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def line(axes: Any, label: str) -> Any:
    return next(artist for artist in axes.lines if artist.get_label() == label)


def test_the_best_and_the_worst_depots_are_shown_in_order() -> None:
    history = panel(9, 60, 7)
    scores = scored(history)
    figure = drawn(run_figures.forecasts(scores, history, most=4))
    assert len(figure.axes) == 4
    errors = [float(axes.get_title(loc="left").split("WAPE ")[1].rstrip(" %")) for axes in figure.axes]
    assert errors == sorted(errors)
    assert png_bytes(figure).startswith(b"\x89PNG")


def test_plots_show_the_forecasts_and_the_actuals() -> None:
    history = panel(1, 60, 7)
    scores = scored(history)
    (axes,) = drawn(run_figures.forecasts(scores, history)).axes
    np.testing.assert_array_equal(line(axes, "actual").get_ydata(), history.demand[0, -14:])
    np.testing.assert_array_equal(line(axes, "forecast").get_ydata()[:7], scores.folds[0].forecast.median[0])
    assert line(axes, "forecast").get_xdata()[0] == history.days[46]
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), history.demand[0, 46 - run_figures.BEFORE : 46])


def test_depots_without_a_scored_order_are_left_out() -> None:
    history = bare([[5.0] * 40, [0.0] * 40, [NAN] * 40])
    figure = drawn(run_figures.forecasts(scored(history, 7), history))
    assert [axes.get_title(loc="left").split()[0] for axes in figure.axes] == ["D0"]


@pytest.mark.parametrize("count", [NAN, 0.0])
def test_a_plot_without_any_finite_value_is_left_out(count: float) -> None:
    history = bare([[count] * 40])
    scores = scored(history, 7)
    assert run_figures.forecasts(scores, history) is None
    assert run_figures.errors({"naive": scores}) is None
    assert run_figures.duel(scores, scores) is None
    assert png_bytes(run_figures.calibration({"naive": scores})).startswith(b"\x89PNG")


def test_a_duel_leaves_out_depots_without_an_order() -> None:
    scores = scored(bare([[5.0] * 40, [0.0] * 40]), 7)
    (axes,) = drawn(run_figures.duel(scores, scores)).axes
    assert len(axes.collections[0].get_offsets()) == 1
    assert png_bytes(drawn(run_figures.errors({"naive": scores}))).startswith(b"\x89PNG")


# --- all models -------------------------------------------------------------------------------------------------------


def test_the_calibration_curve_shows_the_share_below_each_level() -> None:
    quantiles = np.tile(np.float32([10, 20, 30]), (10, 1, 1))
    folds = (fold(quantiles, np.arange(5, 55, 5)[:, None]),)  # 2, 4 and 6 of ten are at or below the levels
    figure = run_figures.calibration({"a": Scores("a", folds, {}, scale(np.ones(10)))})
    np.testing.assert_allclose(line(figure.axes[0], "a").get_ydata(), [0.2, 0.4, 0.6])
    assert png_bytes(figure).startswith(b"\x89PNG")


def test_errors_are_plotted_by_days_ahead_and_by_weekday() -> None:
    history = panel(3, 60, 7)
    scores = scored(history)
    ahead, weekday = drawn(run_figures.errors({"naive": scores})).axes
    assert (len(ahead.patches), len(weekday.patches)) == (7, 7)
    forecast, actual = scores.folds[0].forecast.median[:, 0], scores.folds[0].actuals[:, 0]
    other, later = scores.folds[1].forecast.median[:, 0], scores.folds[1].actuals[:, 0]
    expected = 100 * (np.abs(forecast - actual).sum() + np.abs(other - later).sum()) / (actual.sum() + later.sum())
    assert ahead.patches[0].get_height() == pytest.approx(expected, rel=1e-4)


def test_a_duel_shows_each_depot_once() -> None:
    history = panel(5, 60, 7)
    scores = scored(history)
    (axes,) = drawn(run_figures.duel(scores, replace(scores, model="other"))).axes
    points = axes.collections[0].get_offsets()
    assert len(points) == 5
    np.testing.assert_allclose(points[:, 0], points[:, 1])
    assert axes.get_xlabel() == "WAPE of other, %"


def test_pictures_of_nothing_are_empty_or_left_out() -> None:
    nothing = Scores("a", (), {}, scale(np.ones(2)))
    assert run_figures.png(run_figures.calibration({"a": nothing})).startswith(b"\x89PNG")
    assert run_figures.errors({"a": nothing}) is run_figures.duel(nothing, nothing) is None


@pytest.mark.parametrize("name", ["a$b^$c", "東京"])
def test_a_depot_name_may_have_dollar_signs_and_letters_missing_in_the_font(name: str) -> None:
    history = replace(panel(2, 60, 7), depot_ids=(name, "b"))
    assert run_figures.png(drawn(run_figures.forecasts(scored(history), history))).startswith(b"\x89PNG")
