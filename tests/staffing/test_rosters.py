"""Published crews and vans of each depot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forecaster.config import Spec, load
from forecaster.core.knowledge import Finding
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.validation import reference_tables
from forecaster.errors import SpecError
from forecaster.ledger.publication import PublishedRoster, Shortage
from forecaster.publishing import content
from forecaster.publishing.forecast import ModelChoice, forecast
from forecaster.staffing import rosters
from tests.demand.history.test_past_panels import FIRST, LAST, TONIGHT, days, write

COSTS = "staffing: {orders_per_driver: 10, cost_short: 30, cost_idle: 10, vans: {total: 6, home: vans}}"
DEPOTS = "depots: {source: {kind: csv, path: depots.csv}, static: [city]}\n"


def spec_of(folder: Path, more: str) -> Spec:
    demand = "{source: {kind: csv, path: demand.csv}, recorded: next_day}"
    text = f"name: t\ndemand: {demand}\ncalendar: {{holidays: false}}\n{more}\n"
    (folder / "pipeline.yaml").write_text(text, "utf-8")
    return load(folder / "pipeline.yaml")


def published(folder: Path, more: str = DEPOTS + COSTS) -> Any:
    """A: 40 orders a day, B: 10, in one city, with three vans each."""
    write(
        folder,
        "demand",
        "depot_id,date,demand",
        *(f"{d},{day},{n}" for d, n in (("A", 40), ("B", 10)) for day in days(FIRST, LAST)),
    )
    write(folder, "depots", "depot_id,city,vans", "A,Ulm,3", "B,Ulm,3")
    spec = spec_of(folder, more)
    ingest(spec, now=TONIGHT)
    knowledge = read_as_of(spec, as_of=TONIGHT)
    result = forecast(spec, ModelChoice(None, "seasonal naive", "fallback"), knowledge)
    return result.panel, tuple(content.published_depots(result.forecast, result, spec, knowledge))


def test_published_day_contains_crew_vans_loans_and_cost(tmp_path: Path) -> None:
    panel, (first, second) = published(tmp_path)
    assert [day.drivers for day in first.days] == [4] * 7
    assert first.days[0].roster == PublishedRoster(4, 0.0, 0.0, 10.0, 30.0, borrowed=(("B", 1),), wanted=4)
    assert second.days[0].roster == PublishedRoster(1, 0.0, 0.0, 10.0, None, lent=(("A", 1),), wanted=1)
    assert dict(first.attributes) == {"city": "Ulm"}  # the fleet column is not an attribute
    assert dict(panel.encoding.statics) == {"city": ("Ulm",)}  # and not a model input


def test_depot_without_enough_vans_states_the_reason_and_the_wanted_crew(tmp_path: Path) -> None:
    _, (first, second) = published(tmp_path, DEPOTS + COSTS.replace("total: 6", "total: 4"))
    crew = first.days[0].roster
    assert crew is not None
    assert (first.days[0].drivers, crew.wanted, crew.shortage) == (3, 4, Shortage("Ulm", 0.8, network=True))
    assert second.days[0].roster is not None
    assert second.days[0].roster.shortage is None


def test_vans_and_rosters_are_omitted_if_not_declared(tmp_path: Path) -> None:
    _, (first, _) = published(tmp_path, DEPOTS + COSTS.replace(", vans: {total: 6, home: vans}", ""))
    assert first.days[0].roster == PublishedRoster(None, 0.0, 0.0, 10.0, 30.0, wanted=4)
    (tmp_path / "bare").mkdir()
    panel, (first, _) = published(tmp_path / "bare", DEPOTS)
    assert first.days[0].drivers is None
    assert first.days[0].roster is None
    assert rosters.van_pool(panel, spec_of(tmp_path, DEPOTS)) is None


def test_invalid_numbers_of_vans_are_reported_and_ignored(tmp_path: Path) -> None:
    write(tmp_path, "depots", "depot_id,city,vans", "A,Ulm,two", "B,Ulm,3", "C,Ulm,", "D,Ulm,-1", "E,Ulm,4.0")
    findings: list[Finding] = []
    depots = reference_tables.depots(spec_of(tmp_path, DEPOTS + COSTS), findings)
    assert depots["vans"].tolist() == ["", "3", "", "", "4.0"]
    [finding] = findings
    assert (finding.rule, finding.count) == ("vans_form", 2)
    assert "column 'vans': found 'two', wanted a whole number of vans" in finding.message


def test_van_homes_require_a_depots_source(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"staffing\.vans\.home names a column of the depots source"):
        spec_of(tmp_path, COSTS)
