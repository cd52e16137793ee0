"""Meter readings, and counts of weeks or months spread over their days, are not daily counts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from forecaster.config import load
from forecaster.demand.ingest import IngestResult, ingest
from forecaster.demand.validation import network_shape

NOW = datetime(2024, 6, 3, 12, tzinfo=UTC)
FIRST, DAYS = date(2024, 1, 1), 91  # a Monday
DEPOTS = ("A", "B", "C")
Count = Callable[[int, int], float]  # arguments: number of the depot, number of the day


def noisy(depot: int, day: int) -> float:
    return 90 + 40 * depot + 7 * (day % 7) + (day * 37 + depot * 11) % 23


def result_of(folder: Path, count: Count, rules: str = "", days: int = DAYS) -> IngestResult:
    rows = [
        f"{name},{FIRST + timedelta(day)},{count(depot, day):g}"
        for day in range(days)
        for depot, name in enumerate(DEPOTS)
        if not np.isnan(count(depot, day))
    ]
    (folder / "demand.csv").write_text("\n".join(["depot_id,date,demand", *rows, ""]), "utf-8")
    (folder / "pipeline.yaml").write_text(
        f"name: t\ndemand: {{source: {{kind: csv, path: demand.csv}}{rules}}}\ncalendar: {{holidays: false}}\n", "utf-8"
    )
    return ingest(load(folder / "pipeline.yaml"), now=NOW)


def total(depot: int, day: int) -> float:
    return sum(noisy(depot, earlier) for earlier in range(day + 1))


def month_to_date(depot: int, day: int) -> float:
    first = (FIRST + timedelta(day)).replace(day=1)
    return sum(noisy(depot, earlier) for earlier in range((first - FIRST).days, day + 1))


@pytest.mark.parametrize(
    "count",
    [
        lambda depot, day: (day + 1) * 55 + depot,
        total,
        lambda depot, day: 120_000 + total(depot, day),
        lambda depot, day: total(depot, day - day % 7 + 4 if day % 7 > 4 else day),
        lambda depot, day: np.nan if day % 7 > 4 else total(depot, day),
        month_to_date,
    ],
    ids=["even", "noisy", "an old meter", "still at weekends", "not read at weekends", "from each month on"],
)
def test_counts_that_only_rise_stop_the_batch(tmp_path: Path, count: Count) -> None:
    stopped = result_of(tmp_path, count, ", rules: {max_demand: 1000000}").stopped or ""
    assert stopped.startswith("meter: depot A: found counts that only rise, from ")
    assert ", at 3 of 3 depots, like meter readings, wanted the count of each day: " in stopped


def test_three_weeks_are_enough_to_detect_a_meter(tmp_path: Path) -> None:
    assert (result_of(tmp_path, total, days=21).stopped or "").startswith("meter: ")


def test_meter_among_depots_with_daily_counts_is_reported(tmp_path: Path) -> None:
    result = result_of(tmp_path, lambda depot, day: total(depot, day) if depot == 0 else noisy(depot, day))
    assert result.stopped is None
    (finding,) = [finding for finding in result.findings if finding.rule == "meter"]
    assert (finding.severity, finding.count, finding.places) == ("warn", 1, (("A", "2024-03-31"),))
    assert ", at 1 of 3 depots, like meter readings" in finding.message


def test_declared_severity_applies_to_a_single_meter_as_well(tmp_path: Path) -> None:
    count: Count = lambda depot, day: total(depot, day) if depot == 0 else noisy(depot, day)  # noqa: E731
    assert result_of(tmp_path, count, ", rules: {severity: {meter: stop}}").stopped


@pytest.mark.parametrize(
    ("count", "period"),
    [
        (lambda depot, day: 50 + 10 * depot + (day // 7) * 3.25, "week"),
        (lambda depot, day: 50 + 10 * depot + ((day + 1) // 7 * 37 % 11), "week"),
        (lambda depot, day: np.nan if day % 7 > 4 else 50 + 10 * depot + (day // 7 * 37 % 11), "week"),
        (lambda depot, day: 50 + 10 * depot + (day // 7 * 37 % 11) + (day % 7 < 3), "week"),
        (lambda depot, day: 0 if day // 7 == 4 else 50 + 10 * depot + (day // 7 * 37 % 11), "week"),
        (lambda depot, day: 50 + 10 * depot + 9 * (FIRST + timedelta(day)).month, "month"),
    ],
    ids=["ISO weeks", "from Sunday on", "five days a week", "with a remainder", "a week off", "months"],
)
def test_constant_value_within_each_week_or_month_is_reported(tmp_path: Path, count: Count, period: str) -> None:
    result = result_of(tmp_path, count, ", rules: {severity: {meter: warn}}")
    findings = [finding for finding in result.findings if finding.rule == "spread_counts"]
    assert [(finding.severity, finding.count) for finding in findings] == [("warn", 3)]
    assert f"found one value on all days of each {period}, at 3 of 3 depots" in findings[0].message


@pytest.mark.parametrize(
    "count",
    [
        noisy,
        lambda depot, day: 50 + 30 * (day % 7) + day // 7,  # rises from Monday to Sunday
        lambda depot, day: 0 if day % 7 > 4 else noisy(depot, day),
        lambda depot, day: (day * 37 + depot * 11) % 23 // 20,  # few orders
        lambda depot, day: 20 + 2 * day + (day * 37 + depot * 11) % 23,  # increases
        lambda depot, day: 40,
        lambda depot, day: 40 if day < 45 else 80,
        lambda depot, day: 50 + 10 * depot + (day // 7 * 37 % 11) if depot == 0 else noisy(depot, day),
    ],
)
def test_accepts_daily_counts(tmp_path: Path, count: Count) -> None:
    rules = {finding.rule for finding in result_of(tmp_path, count).findings}
    assert not rules & {"meter", "spread_counts"}


def test_only_new_counts_can_indicate_a_meter() -> None:
    counts = np.arange(5, 305, 5, dtype=np.float32)[None].repeat(2, axis=0)
    fresh = np.zeros(counts.shape, np.bool_)
    assert network_shape.meters(counts, fresh) is None
    fresh[1, -1] = True
    meters = network_shape.meters(counts, fresh)
    assert meters is not None
    assert (meters.depots.tolist(), meters.judged) == ([1], 1)


def test_result_does_not_depend_on_the_portion_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    random = np.random.default_rng(3)
    counts = random.poisson(30, (9, 60)).astype(np.float32) + np.float32(0.1)
    counts[random.random(counts.shape) < 0.1] = np.nan
    counts[4] = np.cumsum(random.poisson(3, 60))
    counts[8] = np.nansum(counts[:4], axis=0) + np.nansum(counts[5:8], axis=0) + counts[4]
    counts[2, ::20] = 9999
    fresh = np.zeros(counts.shape, np.bool_)
    fresh[:, 30:] = ~np.isnan(counts[:, 30:])

    def judged() -> tuple[object, ...]:
        meters = network_shape.meters(counts, fresh)
        assert meters is not None
        spread = network_shape.spread_counts(np.repeat(counts[:, ::7], 7, axis=1), np.ones((9, 63), np.bool_), 3)
        assert spread is not None
        depots, days = network_shape.sentinels(counts, fresh, factor=5)
        verdicts = network_shape.totals(counts), list(depots), list(days), list(meters.depots), meters.judged
        return *verdicts, list(spread.depots), spread.judged

    whole = judged()
    monkeypatch.setattr(network_shape, "_CELLS", 2 * counts.shape[1])
    assert judged() == whole
    assert 4 in whole[3]


@pytest.mark.parametrize("start", [0, 3, 6])
def test_totals_that_restart_each_week_are_readings_of_a_meter(start: int) -> None:
    random = np.random.default_rng(5)
    weeks = random.poisson([[[80]], [[200]]], (2, 12, 7)).cumsum(axis=2).reshape(2, -1).astype(np.float32)
    counts = weeks[:, 7 - start :]
    counts[1, 20] = np.nan
    meters = network_shape.meters(counts, np.isfinite(counts))
    assert meters is not None
    assert (meters.depots.tolist(), meters.judged) == ([0, 1], 2)


def test_weeks_that_rise_until_saturday_are_not_a_meter() -> None:
    random = np.random.default_rng(5)
    counts = random.poisson([40, 60, 70, 80, 100, 150, 30], (4, 12, 7)).reshape(4, -1).astype(np.float32)
    assert network_shape.meters(counts, np.isfinite(counts)) is None
