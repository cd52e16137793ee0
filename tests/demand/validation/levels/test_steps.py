"""Lasting steps of level: a warning about another unit, whatever the factor."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from forecaster.core.arrays import Floats
from forecaster.core.knowledge import Finding
from forecaster.demand.validation.levels import steps
from tests.demand.validation.levels.test_shifts import counts_of

STEP = 60
NAMES = pd.Index(["Alder", "Birch", "Cedar"])


def findings_of(counts: Floats, new: int = 0) -> list[Finding]:
    """Findings if the days from `new` on belong to this batch."""
    fresh = np.isfinite(counts) & (np.arange(counts.shape[1]) >= new)
    return steps.findings(counts, fresh, NAMES[: len(counts)], 20_000)


@pytest.mark.parametrize("factor", [1 / 24, 1 / 6, 2.2046, 40])
def test_overnight_step_of_a_depot_is_reported_with_day_and_factor(factor: float) -> None:
    counts = counts_of(120, 3000, 2000, 1500)
    counts[1, STEP:] *= factor
    (finding,) = findings_of(counts)
    assert (finding.rule, finding.severity, finding.count) == ("unit_change", "warn", 1)
    assert finding.places == (("Birch", "2024-12-03"),)
    assert "depot Birch: found" in finding.message
    assert "at 1 of 3 depots" in finding.message
    read = re.search(r" on, (1/)?([0-9.]+) times the", finding.message)
    assert read is not None
    assert float(read[2]) == pytest.approx(1 / factor if read[1] else factor, rel=0.15)


@pytest.mark.parametrize("factor", [1 / 1.95583, 0.4536])
def test_step_of_all_depots_by_one_factor_is_one_finding(factor: float) -> None:
    counts = counts_of(120, 3000, 2000, 1500)
    counts[:, STEP:] *= factor
    (finding,) = findings_of(counts)
    assert finding.count == 3
    assert [place for place, _ in finding.places] == list(NAMES)


def test_simultaneous_steps_by_different_factors_are_shared_demand() -> None:
    counts = counts_of(120, 3000, 2000, 1500)
    counts[:, STEP:] *= np.array([[0.2], [0.5], [0.35]], np.float32)
    assert findings_of(counts) == []


def test_ramps_finished_weeks_and_small_depots_are_not_steps() -> None:
    ramp = counts_of(120, 3000, 2000, 1500)
    ramp[0, STEP:] *= np.linspace(1, 5, 60, dtype=np.float32)
    week = counts_of(120, 3000, 2000, 1500)
    week[0, STEP : STEP + 7] *= 3
    small = counts_of(120, 6, 2000, 1500)
    small[0, STEP:] *= 3
    assert [findings_of(counts) for counts in (ramp, week, small)] == [[], [], []]


def test_no_step_after_a_week_without_counts() -> None:
    counts = counts_of(120, 3000, 2000)
    counts[:, STEP:] *= 3
    counts[0, ::2], counts[1, 1::2] = np.nan, np.nan
    counts[:, STEP - 7 : STEP] = np.nan
    assert findings_of(counts) == []


def test_nightly_feed_reports_a_step_once_after_its_first_week() -> None:
    counts = counts_of(120, 3000, 2000, 1500)
    counts[1, STEP:] /= 24
    nights = [findings_of(counts[:, : day + 1], new=day) for day in range(STEP, STEP + 20)]
    assert [len(findings) for findings in nights] == [0] * 6 + [1] + [0] * 13


@pytest.mark.parametrize("portion", [1, 2])
def test_result_does_not_depend_on_the_portion_size(monkeypatch: pytest.MonkeyPatch, portion: int) -> None:
    of_one, of_all = (counts_of(120, 3000, 2000, 1500) for _ in range(2))
    of_one[2, STEP:] *= 3
    of_all[:, STEP:] *= 0.5
    at_once = [findings_of(of_one), findings_of(of_all)]
    monkeypatch.setattr(steps, "PORTION", portion)
    assert [findings_of(of_one), findings_of(of_all)] == at_once
    assert [finding.count for findings in at_once for finding in findings] == [1, 3]
