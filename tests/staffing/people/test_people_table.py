"""The people table: accepted people, and findings on invalid rows that never contain a name."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pandas as pd
import pytest

from forecaster.config import Spec
from forecaster.core.knowledge import Finding
from forecaster.errors import SourceError
from forecaster.staffing.people import people_table
from forecaster.staffing.people.worker import Worker
from tests.demand.history.test_past_panels import write
from tests.staffing.test_rosters import spec_of

COLUMNS = "{person: who, depot_id: depot, contract: kind, off_from: from, off_to: to, cannot_work: never}"
STAFFING = (
    "staffing: {orders_per_driver: 10, cost_short: 30, cost_idle: 10, shifts: [{name: early, start: 06:00, end: 14:00, "
    "share: 0.5}, {name: late, start: 14:00, end: 22:00, share: 0.5}], people: [{name: full-time}, {name: part-time}], "
    f"people_table: {{source: {{kind: csv, path: people.csv}}, columns: {COLUMNS}}}}}"
)
NOBODY_RENAMED = pd.DataFrame({"alias": ["OLD"], "depot_id": ["A"]})


def read(folder: Path, *lines: str) -> tuple[tuple[Worker, ...], list[Finding], Spec]:
    write(folder, "people", "who,depot,kind,from,to,never", *lines)
    spec, findings = spec_of(folder, STAFFING), list[Finding]()
    return people_table.people(spec, ("A", "B"), NOBODY_RENAMED, findings), findings, spec


def test_several_rows_of_a_person_are_several_spans_of_days_off(tmp_path: Path) -> None:
    people, findings, _ = read(
        tmp_path,
        "Ana,A,full-time,2026-12-21,2027-01-02,late",
        "Ben,OLD,part-time,,,",
        "Ana,A,full-time,2026-11-30,,early; late",
        "Ana,B,part-time,,,",
    )
    days_off = ((date(2026, 12, 21), date(2027, 1, 2)), (date(2026, 11, 30), date(2026, 11, 30)))
    assert people == (
        Worker("A", "Ana", "full-time", days_off, ("late", "early")),
        Worker("A", "Ben", "part-time"),
        Worker("B", "Ana", "part-time"),
    )
    assert findings == []
    assert [people[0].is_off(day) for day in (date(2026, 12, 20), date(2026, 12, 21), date(2027, 1, 2))] == [
        False,
        True,
        True,
    ]


def test_columns_of_absences_are_read_by_their_own_names_without_being_declared(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, STAFFING.replace(f", columns: {COLUMNS}", ""))
    write(
        tmp_path, "people", "person,depot_id,contract,off_from,off_to,cannot_work", "Ana,A,full-time,2026-12-21,,late"
    )
    [ana] = people_table.people(spec, ("A", "B"), NOBODY_RENAMED, [])
    assert ana == Worker("A", "Ana", "full-time", ((date(2026, 12, 21), date(2026, 12, 21)),), ("late",))
    write(tmp_path, "people", "person,depot_id,contract", "Ana,A,full-time")
    assert people_table.people(spec, ("A", "B"), NOBODY_RENAMED, []) == (Worker("A", "Ana", "full-time"),)
    write(tmp_path, "people", "person,depot_id,contract,Off from,off_to", "Ana,A,full-time,2026-12-21,")
    with pytest.raises(SourceError, match="found column 'Off from', which is not read; wanted 'off_from'"):
        people_table.people(spec, ("A", "B"), NOBODY_RENAMED, [])
    write(tmp_path, "people", "person,depot_id,contract,from,off_to", "Ana,A,full-time,2026-12-21,2026-12-23")
    with pytest.raises(SourceError, match=r"people\.csv: found column 'off_to' without 'off_from'; wanted both"):
        people_table.people(spec, ("A", "B"), NOBODY_RENAMED, [])


def test_invalid_rows_are_reported_by_file_and_line_but_never_by_name(tmp_path: Path) -> None:
    people, findings, _ = read(
        tmp_path,
        "Secret Sam,C,full-time,,,",
        "Secret Sue,A,fulltime,,,",
        ",A,full-time,,,",
        "Secret Eve,A,full-time,soon,,",
        "Secret Ida,A,full-time,2026-12-05,2026-12-01,",
        "Secret Kim,A,full-time,,2026-12-01,night",
        "Secret Eve,A,part-time,,,",
    )
    assert [(person.name, person.contract, person.days_off) for person in people] == [
        (name, "full-time", ()) for name in ("Secret Eve", "Secret Ida", "Secret Kim")
    ]
    assert [(finding.rule, finding.message) for finding in findings] == [
        ("person_form", "people.csv:4: column 'who': found '', wanted a name or number; the row is left out"),
        ("person_form", "people.csv:2: column 'depot': found 'C', wanted a depot that counts; the row is left out"),
        (
            "person_form",
            "people.csv:3: column 'kind': found 'fulltime', wanted a contract of staffing.people: full-time, "
            "part-time; the row is left out; did you mean 'full-time'?",
        ),
        (
            "absence_form",
            "people.csv:5: column 'from': found 'soon', wanted a date such as 2024-03-05, or nothing; these days off "
            "are left out",
        ),
        (
            "absence_form",
            "people.csv:7: column 'from': found '', wanted a date such as 2024-03-05; these days off are left out",
        ),
        (
            "absence_form",
            "people.csv:6: column 'to': found '2026-12-01', wanted a last day on or after the first; these days off "
            "are left out",
        ),
        (
            "absence_form",
            "people.csv:7: column 'never': found 'night', wanted shifts of staffing.shifts with a ';' between them "
            "(early, late); others are left out",
        ),
        (
            "person_form",
            "people.csv:8: column 'kind': found 'part-time', wanted one contract a person; the first row's counts",
        ),
    ]
    assert not any("Secret" in finding.message for finding in findings)


def test_multiline_name_is_not_included_in_a_finding(tmp_path: Path) -> None:
    people, [finding], _ = read(tmp_path, '"Secret\nSam",A,full-time,,,')
    assert people == ()
    assert "Secret" not in finding.message
    assert "wanted a name or number" in finding.message


def test_without_a_table_there_are_no_people(tmp_path: Path) -> None:
    assert people_table.people(spec_of(tmp_path, ""), ("A",), NOBODY_RENAMED, []) == ()
