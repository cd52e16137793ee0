"""Covariates that are missing, or far outside their history, when they are needed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.config import Spec
from forecaster.core.knowledge import Finding
from forecaster.demand.panel.build import build
from forecaster.demand.panel.known_future.covariates import covariate_findings
from forecaster.demand.panel.known_future.usual_covariates import UnitChange, unit_change
from forecaster.errors import SpecError
from tests.demand.literal_knowledge import EVENTS, NAN, knowledge, spec_of

PAST = [("A", "2024-03-04", 1.0, 1.0), ("B", "2024-03-04", 1.0, 0.0)]


def findings_of(
    spec: Spec, readings: list[tuple[Any, ...]], events: list[dict[str, Any]] | None = None
) -> tuple[Finding, ...]:
    snapshot = knowledge(readings, ("promo",), events=events)
    return covariate_findings(snapshot, build(snapshot, spec), spec)


def test_missing_covariate_ahead_gives_a_finding(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, calendar="holidays: false, known_future: [promo]")
    ahead = [("A", "2024-03-05", NAN, 1.0), ("B", "2024-03-05", NAN, NAN), ("A", "2024-03-06", NAN, 0.0)]
    (finding,) = findings_of(spec, PAST + ahead)
    assert (finding.rule, finding.severity, finding.count) == ("covariate_missing", "warn", 2)
    assert finding.message.startswith(
        "covariate 'promo': found no value on 2 of 4 open depot-days from 2024-03-05 to 2024-03-06, first of depot B "
        "on 2024-03-05; the usual value of the season is used instead, wanted a value of each covariate"
    )
    assert finding.places == (("B", "2024-03-05"), ("B", "2024-03-06"))
    assert (
        findings_of(spec, PAST + [(name, day, NAN, 0.0) for name in "AB" for day in ("2024-03-05", "2024-03-06")]) == ()
    )


def test_covariates_missing_on_the_same_days_share_a_finding(tmp_path: Path) -> None:
    names = ("promo", "rain", "wind")
    rows = [(*row, 0.0, 0.0) for row in PAST] + [("A", day, NAN, NAN, NAN, 1.0) for day in ("2024-03-05", "2024-03-06")]
    known = knowledge(rows, names)
    spec = spec_of(tmp_path, calendar=f"holidays: false, known_future: [{', '.join(names)}]")
    first, second = covariate_findings(known, build(known, spec), spec)
    assert first.message.startswith("covariates 'promo', 'rain': found no value on 4 of 4 open depot-days")
    assert second.message.startswith("covariate 'wind': found no value on 2 of 4 open depot-days")


def test_closed_days_and_kinds_of_events_need_no_covariate(tmp_path: Path) -> None:
    calendar = f"holidays: false, {EVENTS}, known_future: [promo, fair]"
    closures = [{"date": day, "kind": "closure", "name": "", "depot_id": "A"} for day in ("2024-03-05", "2024-03-06")]
    (finding,) = findings_of(spec_of(tmp_path, calendar=calendar), PAST, events=closures)
    assert finding.count == 2
    assert {name for name, _ in finding.places} == {"B"}


@pytest.mark.parametrize("rule", ["covariate_missing", "covariate_outlier", "person_form", "worked_form"])
def test_rules_checked_after_ingestion_cannot_stop_a_batch(tmp_path: Path, rule: str) -> None:
    with pytest.raises(SpecError, match=rf"rule '{rule}': found 'stop', wanted warn"):
        spec_of(tmp_path, calendar="holidays: false", demand=f", rules: {{severity: {{{rule}: stop}}}}")


def season(depot: str, level: float, ahead: list[float], weeks: int = 60) -> list[tuple[Any, ...]]:
    """Readings over some weeks whose covariate is `level` plus the weekday, and values for the days
    ahead."""
    first = np.datetime64("2024-03-05") - 7 * weeks
    past = [(depot, str(first + day), 1.0, level + day % 7) for day in range(7 * weeks)]
    return past + [(depot, f"2024-03-{5 + step:02}", NAN, value) for step, value in enumerate(ahead)]


@pytest.mark.parametrize("nonsense", [NAN, -999.0, 999.0, 1e6])
def test_usual_value_of_the_season_replaces_missing_and_extreme_values(tmp_path: Path, nonsense: float) -> None:
    spec = spec_of(tmp_path, calendar="holidays: false, known_future: [temp]")
    known = knowledge([*season("A", 20, [nonsense, 21.5]), *season("B", 30, [31.5, nonsense])], ("temp",))
    panel = build(known, spec)
    np.testing.assert_array_equal(panel.covariates[:, -2:, 0], [[20, 21.5], [31.5, 31]])
    (finding,) = covariate_findings(known, panel, spec)
    assert finding.places == (("A", "2024-03-05"), ("B", "2024-03-06"))
    if np.isnan(nonsense):
        assert finding.rule == "covariate_missing"
    else:
        assert finding.rule == "covariate_outlier"
        assert finding.message.startswith(
            "covariate 'temp': found 2 values far outside of 20 to 36, the range of its history, at 2 depots from "
            "2024-03-05 to 2024-03-06; the usual value of the season is used instead"
        )
        assert "calendar.known_future" in finding.message


def test_codes_for_unknown_are_excluded_from_the_range_and_replaced(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, calendar="holidays: false, known_future: [temp]")
    rows = season("A", 20, [-999.0, 21.0])
    rows[-5] = (*rows[-5][:3], -999.0)  # a Saturday, which is usually 24
    rows[-6] = (*rows[-6][:3], NAN)
    panel = build(knowledge(rows, ("temp",)), spec)
    np.testing.assert_array_equal(panel.covariates[0, -6:, 0], [23, 24, 25, 26, 20, 21])


def test_plausible_covariates_are_unchanged(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, calendar="holidays: false, known_future: [temp]")
    rows = season("A", 20, [12.0, 38.0])  # colder and warmer than ever
    panel = build(knowledge(rows, ("temp",)), spec)
    np.testing.assert_array_equal(panel.covariates[0, :, 0], [row[3] for row in rows])


@pytest.mark.parametrize(
    ("level", "ahead", "unit", "known"),
    [
        (20, [68.0, 71.6, 69.8, 73.4], "°C → °F", "20 to 26"),
        (68, [20.0, 22.0, 21.0, 23.0], "°F → °C", "68 to 74"),
    ],
)
def test_values_in_another_unit_are_replaced_by_usual_ones(
    tmp_path: Path, level: float, ahead: list[float], unit: str, known: str
) -> None:
    spec = spec_of(tmp_path, calendar="holidays: false, known_future: [temp]", horizon=4)
    readings = knowledge(season("A", level, ahead), ("temp",))
    panel = build(readings, spec)
    np.testing.assert_array_equal(panel.covariates[0, -4:, 0], [level, level + 1, level + 2, level + 3])
    (finding,) = covariate_findings(readings, panel, spec)
    assert (finding.rule, finding.count) == ("covariate_outlier", 4)
    assert finding.message.startswith(
        f"covariate 'temp': found 4 values that seem to be in another unit ({unit}), outside of {known}, the range of "
        "the weeks before, at 1 depot from 2024-03-05 to 2024-03-08; the usual value of the season is used instead"
    )


def test_recent_change_of_unit_is_found_by_the_weeks_before() -> None:
    values = np.array([[20 + day % 7 for day in range(120)]], np.float32)
    values[:, 110:] = 1.8 * values[:, 110:] + 32
    assert unit_change(values, 116) == UnitChange(110, "°C → °F", 20, 26)


@pytest.mark.parametrize("ahead", [[50.0, 52.0, 51.0, 54.0], [5.0, 3.0, 4.0, 2.0], [68.0, 69.8, 25.0, 71.6]])
def test_cold_or_hot_week_is_not_another_unit(ahead: list[float]) -> None:
    values = np.array([[*(20 + day % 7 for day in range(116)), *ahead]], np.float32)
    assert unit_change(values, 116) is None


def test_blanks_of_a_mostly_empty_covariate_count_as_zero(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, calendar="holidays: false, known_future: [promo]")
    rows = [
        (*row[:3], 1.0 if place % 7 == 0 and place < 420 else NAN)
        for place, row in enumerate(season("A", 20, [NAN, NAN]))
    ]
    known = knowledge(rows, ("promo",))
    panel = build(known, spec)
    assert not panel.covariates[0, -2:].any()
    (finding,) = covariate_findings(known, panel, spec)
    assert "they count as 0, as they mostly have no value" in finding.message


def test_missing_word_ahead_is_replaced_by_the_usual_one(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, calendar="holidays: false, known_future: [sky]")
    words = [None if np.isnan(row[3]) else "rain" if row[3] < 23 else "sun" for row in season("A", 20, [NAN, NAN])]
    rows = [(*row[:3], word) for row, word in zip(season("A", 20, [NAN, NAN]), words, strict=True)]
    panel = build(knowledge(rows, ("sky",)), spec)
    assert panel.encoding.covariates == ("sky=rain", "sky=sun")
    np.testing.assert_array_equal(panel.covariates[0, -2:], [[1, 0], [1, 0]])


def test_covariate_that_ended_in_the_past_gives_a_finding(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, calendar="holidays: false, known_future: [temp]")
    rows = [(*row[:3], NAN) if "2024-01-08" < row[1] < "2024-03-05" else row for row in season("A", 20, [20.0, 21.0])]
    known = knowledge(rows, ("temp",), as_of=datetime(2024, 3, 5, 3, 15, tzinfo=UTC))
    (finding,) = covariate_findings(known, build(known, spec), spec)
    assert finding.message.startswith(
        "covariate 'temp': found no value on 56 of 56 open depot-days from 2024-01-09 to 2024-03-04, first of depot A "
        "on 2024-01-09; the usual value of the season is used instead"
    )
