"""Data contract of the feed for its owner, following the Open Data Contract Standard 3.1
(https://bitol-io.github.io/open-data-contract-standard/): the columns that the pipeline file reads,
the rules that every nightly run applies to them, and the findings of the last run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from forecaster.config import Demand, Depots, PeopleTable, Spec, WorkedTable, data_rules
from forecaster.config.demand import LONGEST_ID
from forecaster.ledger.records import Run

VERSION = "v3.1.0"
TYPES = {  # logical types of columns that are not text, by their keys
    "date": "date",
    "opened": "date",
    "closed": "date",
    "off_from": "date",
    "off_to": "date",
    "demand": "number",
    "hours": "number",
    "capacity": "number",
    "vans": "integer",
    "recorded_at": "timestamp",
}
KEYS = {"depot_id", "date", "person"}
OPTIONAL = {"demand", "open", "closed", "off_from", "off_to"}  # columns whose cells may be empty
SEVERITY = {"quarantine": "error", "stop": "critical", "warn": "warning"}  # terms of the standard's examples
ROWS = {**data_rules.OF_ROWS, **data_rules.OF_HISTORY}


def contract(spec: Spec, last: Run | None) -> dict[str, Any]:
    """Contract of a pipeline's demand, depots, people and worked hours; `last` is the last nightly
    run, whose findings become the results of the rules."""
    tables = [_table("demand", spec.demand, list(_quality(spec, last)), spec.calendar.known_future)]
    if spec.depots is not None:
        tables.append(_table("depots", spec.depots, (), dict.fromkeys((*spec.depots.static, *spec.depots.levels))))
    if spec.staffing is not None and spec.staffing.people_table is not None:
        tables.append(_table("people", spec.staffing.people_table, (), ()))
    if spec.staffing is not None and spec.staffing.worked_hours is not None:
        tables.append(_table("worked_hours", spec.staffing.worked_hours, (), ()))
    days = {"frequency": 1, "latency": spec.demand.rules.late_days}
    return {
        "apiVersion": VERSION,
        "kind": "DataContract",
        "id": f"forecaster-{spec.name}",
        "name": f"Feed of {spec.name}",
        "version": spec.digest[:12],
        "status": "active",
        "description": {
            "purpose": f"Daily demand of each depot, from which {spec.name} forecasts {spec.horizon} days ahead.",
            "usage": f"Read every night, by the days of {spec.timezone}.",
        },
        "schema": tables,
        "slaProperties": [
            {"property": name, "value": count, "unit": "d", "element": "demand"} for name, count in days.items()
        ],
    }


def _table(
    name: str,
    section: Demand | Depots | PeopleTable | WorkedTable,
    quality: Sequence[dict[str, Any]],
    further: Iterable[str],
) -> dict[str, Any]:
    """A source as an object of the schema; `further` are columns named elsewhere in the pipeline
    file."""
    source, properties = section.source, list(_properties(section.columns))
    property_names = {entry["name"] for entry in properties}
    further_type = "string" if name == "depots" else "number"
    properties += [{"name": column, "logicalType": further_type} for column in further if column not in property_names]
    place = getattr(source, "path", None) or getattr(source, "table", None) or "query"
    table = {"name": name, "physicalName": str(place), "physicalType": source.kind, "logicalType": "object"}
    return {**table, "properties": properties, **({"quality": list(quality)} if quality else {})}


def _properties(columns: BaseModel) -> Iterator[dict[str, Any]]:
    """Declared columns of a section, with their documentation."""
    position = 0
    for key, field in type(columns).model_fields.items():
        value = getattr(columns, key)
        for column in (value,) if isinstance(value, str) else value or ():
            of_key = {}
            if key in KEYS:
                position += 1
                of_key = {"primaryKey": True, "primaryKeyPosition": position}
            typed = {"logicalType": TYPES.get(key, "string"), "required": key not in OPTIONAL}
            yield {"name": column, **typed, **of_key, "description": " ".join((field.description or "").split())}


def _quality(spec: Spec, last: Run | None) -> Iterator[dict[str, Any]]:
    """Each rule for a row or its history, and those that the last run found broken, as text with
    the result."""
    findings = {finding["rule"]: finding for finding in (last.findings if last else ())}
    day = getattr(spec.demand.source, "date_format", None) or "2024-03-05"
    limits = {**spec.demand.rules.model_dump(), "longest": LONGEST_ID, "timezone": spec.timezone, "day": day}
    for rule in (*ROWS, *(rule for rule in findings if rule not in ROWS and rule in data_rules.RULES)):
        broken = findings.get(rule)
        results = [("lastNight", last.run_id), ("broken", broken["count"] if broken else 0)] if last else []
        if broken:
            results.append(("message", str(broken["message"])))
        yield {
            "name": rule,
            "type": "text",
            "description": _wanted(rule, limits),
            "severity": SEVERITY[data_rules.severity(rule, spec.demand.rules.severity)],
            "customProperties": [{"property": name, "value": value} for name, value in results],
        }


def _wanted(rule: str, limits: Mapping[str, Any]) -> str:
    """Requirement of a rule, as far as the pipeline file determines it; the nightly run fills in
    the rest."""
    try:
        return str(data_rules.requirement(rule, **limits))
    except KeyError:
        return data_rules.RULES[rule].wanted.replace("{", "").replace("}", "")
