"""The data contract of a feed is valid by the standard's schema, and has the rules and the findings
of the last run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from forecaster.config import data_rules, load
from tests import fleets
from tests.calls import Call
from tests.fleets import Fleet
from tests.names import ROOT
from tests.planning.nights import publish_nights
from tests.planning.test_shift_edits import STAFFING

SCHEMA = json.loads((ROOT / "tests" / "vendor" / "odcs" / "odcs-json-schema-v3.1.0.json").read_text("utf-8"))


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    people = "person,depot_id,contract,first,not\nAna,A,half-time,,\n"
    return publish_nights(tmp_path / "fleet", fleets.counts("AB"), staffing=STAFFING, people=people)


def contract(call: Call, file: Path) -> dict[str, Any]:
    code, out, _ = call("contract", file)
    assert code == 0
    content: dict[str, Any] = yaml.safe_load(out)
    jsonschema.Draft201909Validator(SCHEMA).validate(content)
    return content


def results(table: dict[str, Any], rule: str) -> dict[str, Any]:
    [quality] = [each for each in table["quality"] if each["name"] == rule]
    return {each["property"]: each["value"] for each in quality["customProperties"]}


def test_contract_has_columns_rules_and_results_of_the_last_run(call: Call, fleet: Fleet) -> None:
    content = contract(call, fleet.file)
    tables = {table["name"]: table for table in content["schema"]}
    assert set(tables) == {"demand", "depots", "people"}
    columns = {each["name"]: each for each in tables["demand"]["properties"]}
    keys = sorted(each["primaryKeyPosition"] for each in columns.values() if each.get("primaryKey"))
    assert keys == [1, 2]
    assert {each["logicalType"] for each in columns.values()} >= {"string", "date", "number"}
    assert {rule["name"] for rule in tables["demand"]["quality"]} >= set(data_rules.OF_ROWS)
    assert results(tables["demand"], "count_negative")["broken"] == 0
    broken = results(tables["demand"], "person_form")
    assert broken["broken"] == 1
    assert "found 'half-time'" in broken["message"]
    assert "Ana" not in json.dumps(content)


def test_contract_has_no_results_before_the_first_run(call: Call, fleet: Fleet) -> None:
    file = fleet.file.with_name("other.yaml")
    text = fleet.file.read_text("utf-8")
    file.write_text(text.replace("demand:", "ledger: sqlite:///not-there.db\ndemand:", 1), "utf-8")
    assert load(file).ledger_url.endswith("not-there.db")
    demand = contract(call, file)["schema"][0]
    assert all(not rule["customProperties"] for rule in demand["quality"])


def test_contract_uses_the_declared_severity(call: Call, fleet: Fleet) -> None:
    text = fleet.file.read_text("utf-8").replace("max_age_days: 5", "severity: {spike: stop}")
    file = fleet.file.with_name("strict.yaml")
    file.write_text(text, "utf-8")
    severity = {rule["name"]: rule["severity"] for rule in contract(call, file)["schema"][0]["quality"]}
    assert (severity["spike"], severity["count_negative"], severity["cut_day"]) == ("critical", "error", "error")
