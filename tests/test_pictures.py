"""Figures are drawn for any backtest, also for one with nothing to show."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from forecaster import pictures
from forecaster.evaluation import backtest
from forecaster.serving.fallback import seasonal_naive
from forecaster.values import Panel, Scores
from tests.panels import LEVELS, NAN, bare, panel


def scored(given: Panel, days: int = 14) -> Scores:
    return backtest.run({"naive": lambda before: seasonal_naive(before, LEVELS)}, given, days)["naive"]


def drawn(figure: Figure) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def line(axes: Any, label: str) -> Any:
    return next(found for found in axes.lines if found.get_label() == label)


def test_the_best_and_the_worst_depots_are_shown_in_order() -> None:
    given = panel(9, 60, 7)
    found = scored(given)
    figure = pictures.forecasts(found, given, most=4)
    assert len(figure.axes) == 4
    errors = [float(axes.get_title(loc="left").split("WAPE ")[1].rstrip(" %")) for axes in figure.axes]
    assert errors == sorted(errors)
    assert drawn(figure).startswith(b"\x89PNG")


def test_what_is_drawn_is_what_was_said_and_what_came() -> None:
    given = panel(1, 60, 7)
    found = scored(given)
    (axes,) = pictures.forecasts(found, given).axes
    np.testing.assert_array_equal(line(axes, "actual").get_ydata(), given.demand[0, -14:])
    np.testing.assert_array_equal(line(axes, "forecast").get_ydata()[:7], found.folds[0].forecast.median[0])
    assert line(axes, "forecast").get_xdata()[0] == given.days[46]
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), given.demand[0, 46 - pictures.BEFORE : 46])


def test_depots_without_a_scored_order_are_left_out() -> None:
    given = bare([[5.0] * 40, [0.0] * 40, [NAN] * 40])
    figure = pictures.forecasts(scored(given, 7), given)
    assert [axes.get_title(loc="left").split()[0] for axes in figure.axes] == ["D0"]


def test_with_nothing_to_show_there_is_an_empty_figure() -> None:
    given = bare([[NAN] * 40])
    figure = pictures.forecasts(scored(given, 7), given)
    assert figure.axes == []
    assert drawn(figure).startswith(b"\x89PNG")
