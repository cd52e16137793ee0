"""The judge's runs leave the last days of a panel untouched, and its differences weigh all ends."""

from __future__ import annotations

import itertools
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from forecaster.core.forecast import Fold, Scale
from tests import panels
from tests.benchmarks import judge


@pytest.mark.parametrize(("days", "year"), [(365, False), (478, True), (1461, True)])
def test_ends_leave_the_last_days_untouched_and_share_no_judged_day(days: int, year: bool) -> None:
    panel = panels.bare(np.ones((2, days)))
    ends = judge.cutoffs_of(panel, 4)
    assert len(ends) == 4
    assert ends[-1] + timedelta(days=28 + judge.UNTOUCHED) <= panel.cutoff
    assert all((after - before).days >= 28 for before, after in itertools.pairwise(ends))
    assert any((end.month, end.day) == (12, 18) for end in ends) is year


def test_difference_over_ends_is_the_ratio_of_losses_scaled_per_end() -> None:
    def folds(median: float, day: date) -> list[Fold]:
        return [Fold(panels.forecast(np.full((2, 7, 3), median), cutoff=day), np.full((2, 7), 10, np.float32))]

    def end(ours: float, theirs: float, scale: float, day: date) -> tuple[list[Fold], list[Fold], Scale]:
        return folds(ours, day), folds(theirs, day), Scale(np.full(2, scale), np.full(2, scale))

    of = judge.difference([end(11, 12, 1, date(2026, 1, 1)), end(14, 14, 2, date(2026, 3, 1))], "mase")
    assert of.relative == pytest.approx((1 + 2) / (2 + 2) - 1)
    assert judge.standard_error(of) > 0


def test_a_run_resumes_only_with_its_own_settings(tmp_path: Path) -> None:
    fold = Fold(panels.forecast(np.full((2, 7, 3), 9.0), cutoff=date(2026, 1, 1)), np.full((2, 7), 10, np.float32))
    end = judge.End("small", date(2026, 1, 1), ("horizon=7",), {judge.WHOLE: [fold]}, panels.scale([1, 2]), 3.0)
    judge._save(end, tmp_path / "small-2026-01-01.npz")
    panel = panels.bare(np.ones((2, 365)))
    again = judge._end(panel, ["horizon=7"], "small", end.cutoff, tmp_path)
    np.testing.assert_array_equal(again.folds[judge.WHOLE][0].forecast.quantiles, fold.forecast.quantiles)
    with pytest.raises(
        SystemExit, match=r"small-2026-01-01\.npz: measured with horizon=7, wanted horizon=28: set --name"
    ):
        judge._end(panel, ["horizon=28"], "small", end.cutoff, tmp_path)
