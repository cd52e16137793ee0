"""The metrics of the segments add up to those of the whole."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from forecaster.core.forecast import Scores
from forecaster.core.panel import Panel
from forecaster.evaluation import segments
from forecaster.evaluation.backtest import run
from forecaster.serving.fallback import seasonal_naive
from tests import panels


def judged(panel: Panel) -> Scores:
    return run({"naive": lambda before: seasonal_naive(before, panels.LEVELS)}, panel, 28)["naive"]


def four_depots() -> Panel:
    return replace(panels.panel(4, 120, 7), attributes={"city": ("Ulm", "Bonn", "Ulm", "")})


def test_each_part_has_all_scored_days_once_in_reading_order() -> None:
    panel = four_depots()
    scores = judged(panel)
    by_part = segments.parts(scores, panel)
    assert list(by_part) == list(segments.PARTS)
    assert list(by_part["city"]) == ["Bonn", "Ulm"]
    assert list(by_part["days ahead"]) == [str(step) for step in range(1, 8)]
    assert list(by_part["weekday"])[:2] == ["Monday", "Tuesday"]
    for part in ("days ahead", "weekday", "kind of day"):
        assert sum(metrics["days"] for metrics in by_part[part].values()) == scores.metrics["days"]
    assert by_part["city"]["Ulm"]["days"] == 56


def test_parts_by_hand() -> None:
    """Two depots in two cities; the forecast is always 10; Monday the 8th is a holiday of the
    second."""
    quantiles = np.full((2, 2, 3), 10.0)
    panel = replace(panels.bare(np.full((2, 9), 10.0), horizon=2), attributes={"city": ("A", "B")})
    calendar = np.zeros((2, 11, 1), np.float32)
    calendar[1, 7] = 1
    panel = replace(panel, calendar=calendar, calendar_group=np.int32([0, 1]), calendar_names=("holiday",))
    fold = panels.fold(quantiles, [[8, 10], [5, 20]], cutoff=date(2024, 1, 7))
    by_part = segments.parts(Scores("m", (fold,), {}, panels.scale([1.0, 1.0])), panel)
    assert by_part["kind of day"]["holiday"]["wape"] == pytest.approx(1)
    assert by_part["kind of day"]["other day"]["wape"] == pytest.approx(12 / 38)
    assert by_part["city"]["A"]["bias"] == pytest.approx(2 / 18)
    assert by_part["weekday"]["Tuesday"]["mae"] == pytest.approx(5)
    assert segments.depots(Scores("m", (fold,), {}, panels.scale([1.0, 1.0])), panel)["D1"]["mae"] == pytest.approx(7.5)


def test_a_part_equal_to_the_whole_is_left_out() -> None:
    panel = panels.panel(2, 60, 7)
    assert "city" not in segments.parts(judged(panel), panel)
