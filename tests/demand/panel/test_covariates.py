"""Covariates that are not there when they are needed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from forecaster.config import Spec
from forecaster.core.knowledge import Finding
from forecaster.demand.panel.build import build
from forecaster.demand.panel.covariates import given_ahead, missing_ahead
from tests.demand.knowing import EVENTS, NAN, knowledge, spec_of

PAST = [("A", "2024-03-04", 1.0, 1.0), ("B", "2024-03-04", 1.0, 0.0)]


def found(spec: Spec, told: list[tuple[Any, ...]], **other: Any) -> tuple[Finding, ...]:
    known = knowledge(told, ("promo",), events=other.pop("events", None))
    panel = build(known, spec)
    assert not panel.covariates[:, 2:].any() or len(told) > 3
    return missing_ahead(known, panel, spec, **other)


def test_a_covariate_without_a_value_ahead_is_a_finding(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, calendar="holidays: false, known_future: [promo]")
    ahead = [("A", "2024-03-05", NAN, 1.0), ("B", "2024-03-05", NAN, NAN), ("A", "2024-03-06", NAN, 0.0)]
    (finding,) = found(spec, PAST + ahead)
    assert (finding.rule, finding.severity, finding.count) == ("covariate_missing", "warn", 2)
    assert finding.message.startswith(
        "covariate 'promo': found no value on 2 of 4 open depot-days from 2024-03-05 to 2024-03-06, first of depot B "
        "on 2024-03-05; they count as 0, wanted known-future covariates"
    )
    assert finding.places == (("B", "2024-03-05"), ("B", "2024-03-06"))
    assert found(spec, PAST + [(name, day, NAN, 0.0) for name in "AB" for day in ("2024-03-05", "2024-03-06")]) == ()


def test_one_that_was_never_given_ahead_is_told_so(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, calendar="holidays: false, known_future: [promo]")
    (finding,) = found(spec, PAST, ever_ahead=())
    assert finding.count == 4
    assert "it was never given before its day" in finding.message
    for asked in ({"ever_ahead": {"promo"}}, {}):
        assert "never given" not in found(spec, PAST, **asked)[0].message


def test_nobody_needs_a_covariate_of_a_closed_day_or_a_kind_of_event(tmp_path: Path) -> None:
    calendar = f"holidays: false, {EVENTS}, known_future: [promo, fair]"
    closures = [{"date": day, "kind": "closure", "name": "", "depot_id": "A"} for day in ("2024-03-05", "2024-03-06")]
    (finding,) = found(spec_of(tmp_path, calendar=calendar), PAST, events=closures)
    assert finding.count == 2
    assert {name for name, _ in finding.places} == {"B"}


def test_the_pipeline_file_may_stop_the_batch(tmp_path: Path) -> None:
    rules = ", rules: {severity: {covariate_missing: stop}}"
    spec = spec_of(tmp_path, calendar="holidays: false, known_future: [promo]", demand=rules)
    assert found(spec, PAST)[0].severity == "stop"


@pytest.mark.parametrize(
    ("recorded", "ahead"),
    [("2024-03-03T23:59:00", True), ("2024-03-04T00:00:00", False), ("2024-03-05T04:00:00", False)],
)
def test_ahead_is_before_the_day_began_where_it_is_counted(tmp_path: Path, recorded: str, ahead: bool) -> None:
    spec = spec_of(tmp_path, calendar="known_future: [promo, event]", more="timezone: America/New_York\n")
    instant = pd.Timestamp(recorded, tz="America/New_York").tz_convert("UTC")
    rows = pd.DataFrame({"date": ["2024-03-04"] * 2, "promo": [1.0, NAN], "recorded_at": instant})
    rows["recorded_at"] = [instant, pd.Timestamp(datetime(2024, 1, 1, tzinfo=UTC))]
    rows = rows.astype({"date": "datetime64[s]"})
    assert given_ahead(rows, spec) == ({"promo"} if ahead else set())
    archive = spec_of(tmp_path, calendar="known_future: [promo]", demand=", recorded: next_day")
    assert given_ahead(rows, archive) == {"promo"}
