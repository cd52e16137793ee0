"""Covariates that are not there when they are needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forecaster.config import Spec
from forecaster.core.knowledge import Finding
from forecaster.demand.panel.build import build
from forecaster.demand.panel.covariates import missing_ahead
from tests.demand.literal_knowledge import EVENTS, NAN, knowledge, spec_of

PAST = [("A", "2024-03-04", 1.0, 1.0), ("B", "2024-03-04", 1.0, 0.0)]


def findings_of(
    spec: Spec, readings: list[tuple[Any, ...]], events: list[dict[str, Any]] | None = None
) -> tuple[Finding, ...]:
    snapshot = knowledge(readings, ("promo",), events=events)
    panel = build(snapshot, spec)
    assert not panel.covariates[:, 2:].any() or len(readings) > 3
    return missing_ahead(snapshot, panel, spec)


def test_a_covariate_without_a_value_ahead_is_a_finding(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, calendar="holidays: false, known_future: [promo]")
    ahead = [("A", "2024-03-05", NAN, 1.0), ("B", "2024-03-05", NAN, NAN), ("A", "2024-03-06", NAN, 0.0)]
    (finding,) = findings_of(spec, PAST + ahead)
    assert (finding.rule, finding.severity, finding.count) == ("covariate_missing", "warn", 2)
    assert finding.message.startswith(
        "covariate 'promo': found no value on 2 of 4 open depot-days from 2024-03-05 to 2024-03-06, first of depot B "
        "on 2024-03-05; they count as 0, wanted known-future covariates"
    )
    assert finding.places == (("B", "2024-03-05"), ("B", "2024-03-06"))
    assert (
        findings_of(spec, PAST + [(name, day, NAN, 0.0) for name in "AB" for day in ("2024-03-05", "2024-03-06")]) == ()
    )


def test_covariates_that_lack_the_same_days_are_one_finding(tmp_path: Path) -> None:
    names = ("promo", "rain", "wind")
    rows = [(*row, 0.0, 0.0) for row in PAST] + [("A", day, NAN, NAN, NAN, 1.0) for day in ("2024-03-05", "2024-03-06")]
    known = knowledge(rows, names)
    spec = spec_of(tmp_path, calendar=f"holidays: false, known_future: [{', '.join(names)}]")
    first, second = missing_ahead(known, build(known, spec), spec)
    assert first.message.startswith("covariates 'promo', 'rain': found no value on 4 of 4 open depot-days")
    assert second.message.startswith("covariate 'wind': found no value on 2 of 4 open depot-days")


def test_nobody_needs_a_covariate_of_a_closed_day_or_a_kind_of_event(tmp_path: Path) -> None:
    calendar = f"holidays: false, {EVENTS}, known_future: [promo, fair]"
    closures = [{"date": day, "kind": "closure", "name": "", "depot_id": "A"} for day in ("2024-03-05", "2024-03-06")]
    (finding,) = findings_of(spec_of(tmp_path, calendar=calendar), PAST, events=closures)
    assert finding.count == 2
    assert {name for name, _ in finding.places} == {"B"}


def test_the_pipeline_file_may_stop_the_batch(tmp_path: Path) -> None:
    rules = ", rules: {severity: {covariate_missing: stop}}"
    spec = spec_of(tmp_path, calendar="holidays: false, known_future: [promo]", demand=rules)
    assert findings_of(spec, PAST)[0].severity == "stop"
