"""Valid shifts and contracts, and the messages for invalid ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forecaster.config import load
from forecaster.errors import SpecError

COSTS = "orders_per_driver: 9, cost_short: 3, cost_idle: 1"
SHIFTS = (
    "shifts: [{name: day, start: 06:00, end: 14:00, share: 0.6}, {name: night, start: 22:30, end: 06:00, share: 0.4}]"
)


def declared(folder: Path, staffing: str, more: str = "") -> Any:
    file = folder / "pipeline.yaml"
    text = f"name: t\ndemand: {{source: {{kind: csv, path: demand.csv}}}}\n{more}staffing: {{{COSTS}, {staffing}}}\n"
    file.write_text(text, "utf-8")
    return load(file).staffing


def test_times_need_no_quotes_and_a_shift_may_pass_midnight(tmp_path: Path) -> None:
    """YAML reads a bare 14:00 as 840 and a bare 06:00 as text."""
    day, night = declared(tmp_path, SHIFTS).shifts
    assert (day.start, day.end, day.passes_midnight) == ("06:00", "14:00", False)
    assert (night.start, night.end, night.passes_midnight) == ("22:30", "06:00", True)
    assert declared(tmp_path, SHIFTS.replace("14:00", "'14:00'")).shifts[0] == day


def test_people_are_a_number_or_a_column(tmp_path: Path) -> None:
    staffing = declared(
        tmp_path,
        f"{SHIFTS}, people: [{{name: full-time, per_depot: 12}}, {{name: part-time, per_depot: helpers}}]",
        "depots: {source: {kind: csv, path: depots.csv}}\n",
    )
    assert [contract.per_depot for contract in staffing.people] == [12, "helpers"]
    assert (staffing.people[0].max_shifts_week, staffing.people[0].min_rest_hours) == (5, 11)
    spec = load(tmp_path / "pipeline.yaml")
    assert spec.attributes == ("helpers",)


TABLE = "{source: {kind: csv, path: people.csv}, columns: {}}"
PERSON = "{name: full-time, per_depot: 3}"
NAMED = f"{SHIFTS}, people: [{PERSON}], people_table: {TABLE}"
LEARNED = SHIFTS.replace("0.6", "learn").replace("0.4", "learn")
WRONG = {
    SHIFTS.replace("0.4", "0.3"): "staffing: found shifts whose shares sum to 0.9, wanted 1",
    SHIFTS.replace("night", "day"): "staffing: found shifts that are called day twice, wanted each name once",
    SHIFTS.replace("22:30", "25:00"): "staffing.shifts.1.start: found 1500, wanted a local time as in '06:00'",
    SHIFTS.replace("06:00, end: 14:00", "6am, end: 14:00"): "found '6am', wanted a local time as in '06:00'",
    SHIFTS.replace("22:30", "06:00"): "found start and end at 06:00, wanted a shift of less than a day",
    SHIFTS.replace(
        "0.4", "learn"
    ): "staffing: found share: learn for night and share: 0.6 for day, wanted learn for all",
    SHIFTS.replace("0.4", "lern"): "staffing.shifts.1.share: found 'lern', wanted a share above 0 and up to 1, such as",
    SHIFTS.replace("0.4", "1.4"): "found 1.4, wanted a share above 0 and up to 1, such as 0.4, or learn",
    LEARNED: "staffing.shifts: share: learn needs rows with a time of day, but demand.aggregate declares a row to be a",
    LEARNED.replace("14:00", "14:15"): "found day from 06:00 to 14:15, wanted whole or half hours where shares are",
    LEARNED.replace("14:00", "23:00"): "found day and night, which overlap, wanted shares as numbers, or shifts that",
    LEARNED.replace("end: 06:00", "end: 07:00"): "found night and day, which overlap, wanted shares as numbers",
    f"people: [{PERSON}]": "staffing: found people but no shifts, wanted their shifts",
    f"{SHIFTS}, people: [{{name: x}}]": "found the contract x of nobody, wanted per_depot, or the names",
    f"{SHIFTS}, people_table: {TABLE}": "found people_table but no people, wanted the contracts of the people in it",
    f"{NAMED.replace('{}', '{off_to: a}')}": "found columns.off_to without off_from; wanted both",
    f"{NAMED.replace('{}', '{off_to: a, off_from: null}')}": "found columns.off_to without off_from; wanted both",
    f"{NAMED.replace('{}', '{person: a, contract: a}')}": "columns name a, depot_id, a; wanted a column of its own",
    f"{SHIFTS}, people: [{PERSON}, {PERSON}]": "found people that are called full-time twice",
    f"{SHIFTS}, people: [{PERSON.replace('3', 'crew')}]": "per_depot names a column of the depots source, but there",
    f"{SHIFTS}, people: [{PERSON.replace('3', '-1')}]": "found -1, wanted a number of people up to 500, or a column",
    f"{SHIFTS}, people: [{PERSON.replace('3', '3, max_shifts_week: 8')}]": "found 8, wanted less than or equal to 7",
    f"{SHIFTS}, people: [{PERSON.replace('3', '3, cost_overtime: 5')}]": "found cost_overtime without hours_week",
    f"{SHIFTS}, people: [{PERSON.replace('3', '3, rest: 5')}]": "unknown key 'rest' in staffing.people.0",
}


@pytest.mark.parametrize("staffing", WRONG)
def test_invalid_shifts_and_contracts_are_rejected_with_a_message(tmp_path: Path, staffing: str) -> None:
    with pytest.raises(SpecError) as refusal:
        declared(tmp_path, staffing)
    assert WRONG[staffing] in str(refusal.value)


def test_shares_are_learned_if_rows_have_times_of_day(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    demand = "aggregate: count, source: {kind: csv, path: orders.csv}"
    file.write_text(f"name: t\ndemand: {{{demand}}}\nstaffing: {{{COSTS}, {LEARNED}}}\n", "utf-8")
    spec = load(file)
    assert spec.learns_shares
    assert spec.staffing is not None
    assert spec.staffing.share_weeks == 12
    file.write_text(f"name: t\ndemand: {{date_zone: UTC, {demand}}}\nstaffing: {{{COSTS}, {LEARNED}}}\n", "utf-8")
    with pytest.raises(SpecError, match=r"demand\.date_zone turns instants into days; wanted only one of them"):
        load(file)
