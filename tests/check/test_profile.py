"""The data profile of a panel, compared with counts by hand."""

from __future__ import annotations

from datetime import date

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from forecaster.check.profile import STATES, Gap, profile, runs, states
from tests.panels import NAN, bare


def test_each_depot_day_has_one_state() -> None:
    panel = bare([[5, 0, NAN, NAN], [NAN, 0, 3, NAN]], closed=[(0, 3), (1, 1)])
    names = [[STATES[state] for state in row] for row in states(panel)]
    assert names == [["observed", "zero", "missing", "closed"], ["missing", "closed", "observed", "missing"]]
    summary = profile(panel)
    assert summary.states == {"observed": 2, "zero": 1, "closed": 2, "missing": 3}
    assert (summary.depot_days, summary.open_days, summary.share("zero")) == (8, 6, 0.125)


def test_gaps_are_runs_of_open_days_without_a_count() -> None:
    panel = bare([[NAN, 1, NAN, NAN, 2], [NAN, NAN, NAN, NAN, 2], [NAN] * 5], closed=[(1, 1)])
    summary = profile(panel)
    assert (summary.gaps, summary.silent) == (5, 1)
    assert summary.longest == Gap("D2", date(2024, 1, 1), 5)
    assert profile(bare([[1, 2]])).longest is None


def test_busiest_and_quietest_depots_are_ranked_by_the_median_of_open_days() -> None:
    rows = [[level, level, 1000] for level in (10, 50, 30, 20, 40)]
    summary = profile(bare([*rows, [NAN] * 3], closed=[(0, 2)]))
    assert summary.busiest == (("D1", 50.0), ("D4", 40.0), ("D2", 30.0))
    assert summary.quietest == (("D0", 10.0), ("D3", 20.0))


def test_weeks_end_with_the_cutoff_and_partial_weeks_are_omitted() -> None:
    summary = profile(bare([[99] + [1] * 7 + [2] * 7, [99] + [NAN] * 7 + [10] * 7]))
    assert summary.weekly == (7.0, 84.0)
    assert profile(bare([[1, 2, 3]])).weekly == ()


@given(marked=arrays.arrays(bool, st.tuples(st.integers(1, 4), st.integers(1, 12))))
def test_runs_agree_with_a_simple_loop(marked: np.ndarray) -> None:
    expected = []
    for depot, row in enumerate(marked.tolist()):
        start = None
        for day, here in enumerate([*row, False]):
            if here and start is None:
                start = day
            if not here and start is not None:
                expected.append([depot, start, day - start])
                start = None
    assert runs(marked).tolist() == expected
