"""Records of shifts match the documentation of 7shifts and Deputy, and missing ids are reported."""

from __future__ import annotations

import json
import re
import threading
import urllib.request
from collections.abc import Iterator
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from forecaster.cli.app import app
from forecaster.errors import NoSuchRow, SpecError
from forecaster.ledger.store import Ledger
from forecaster.ledger.week_plan import WeekPlan
from tests.dashboards.seed import fill, publication, with_plans

INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
INSTANT = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"}
# https://developers.7shifts.com/reference/postshift: body parameters, and the required ones
SEVENSHIFTS = {
    "type": "object",
    "required": ["location_id", "start", "end"],
    "additionalProperties": False,
    "properties": {
        **dict.fromkeys(("location_id", "user_id", "department_id", "role_id", "station"), INTEGER),
        **dict.fromkeys(("start", "end"), INSTANT),
        **{name: {"type": "boolean"} for name in ("close", "business_decline", "draft", "notified", "open")},
        "notes": TEXT,
    },
}
# https://developer.deputy.com/docs/adding-a-shift: data elements, in the notation of the sample
DEPUTY = {
    "type": "object",
    "required": ["intStartTimestamp", "intEndTimestamp", "intRosterEmployee", "intOpunitId", "blnPublish"],
    "additionalProperties": False,
    "properties": {
        **dict.fromkeys(("intStartTimestamp", "intEndTimestamp", "intRosterEmployee", "intOpunitId"), INTEGER),
        **dict.fromkeys(("intMealbreakMinute", "intConfirmStatus", "intRosterId"), INTEGER),
        **{name: {"enum": [0, 1]} for name in ("blnForceOverwrite", "blnOpen")},
        "blnPublish": {"type": "boolean"},
        "strComment": TEXT,
    },
}
# https://developers.7shifts.com/reference/forecast-overrides: body parameters
FORECAST = {
    "type": "object",
    "required": ["date", "value", "report_type"],
    "additionalProperties": False,
    "properties": {
        "department_id": INTEGER,
        "date": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
        "value": {"type": "integer", "minimum": 0},
        "report_type": {"enum": ["sales"]},
    },
}
PATHS = {"/v2/company/77/shifts": SEVENSHIFTS, "/api/v1/supervise/roster": DEPUTY}
PIPELINE = """\
name: harbor-fleet
demand: {source: {kind: csv, path: demand.csv}}
depots: {source: {kind: csv, path: depots.csv}, columns: {external_id: area}}
state: .
staffing:
  orders_per_driver: 45
  cost_short: 38
  cost_idle: 22
  notice_days: 6
  change_premium: [{added: 15, removed: 45}]
  shifts: [{name: early, start: 06:00, end: 14:00, share: 0.6}, {name: late, start: 14:00, end: 22:00, share: 0.4}]
  people: [{name: x, per_depot: 0, role_id: 5}]
  people_table: {source: {kind: csv, path: people.csv}, columns: {external_id: number}}
"""


class _Api(BaseHTTPRequestHandler):
    """Accepts only what the schema of a path allows, as the two systems would."""

    def do_POST(self) -> None:
        record = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_forecast = re.fullmatch(r"/v2/company/77/location/\d+/forecast_override", self.path)
        Draft202012Validator(FORECAST if is_forecast else PATHS[self.path]).validate(record)
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def api() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Api) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Pipeline file with plans of named people."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    fill(url, with_plans(publication(2), named=True))
    path = tmp_path / "pipeline.yaml"
    path.write_text(f"{PIPELINE}ledger: {url}\n", "utf-8")
    (tmp_path / "depots.csv").write_text(
        "depot_id,area\n" + "".join(f"{plan.depot_id},{70 + place}\n" for place, plan in enumerate(plans(url))), "utf-8"
    )
    rows = [
        (plan.depot_id, who.name, 100 * place + number)
        for place, plan in enumerate(plans(url), 1)
        for number, who in enumerate(plan.positions)
    ]
    people = "".join(f"{depot},{name},x,{number}\n" for depot, name, number in rows)
    (tmp_path / "people.csv").write_text(f"depot_id,person,contract,number\n{people}", "utf-8")
    return path


def plans(url: str) -> tuple[WeekPlan, ...]:
    with Ledger.open_reader(url) as ledger:
        head = ledger.current("harbor-fleet")
        assert head is not None
        return tuple(ledger.plans(head.publication_id))


def export(file: Path, *words: str) -> list[dict[str, Any]]:
    answer = CliRunner().invoke(app, ["schedule", str(file), "--export", *words], catch_exceptions=False)
    assert answer.exit_code == 0
    return [json.loads(line) for line in answer.stdout.splitlines()]


def edit(file: Path, name: str, old: str, new: str) -> None:
    path = file.with_name(name)
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def duties(file: Path) -> list[tuple[str, date, datetime, datetime]]:
    return [
        (plan.depot_id, duty.date, duty.start, duty.end)
        for plan in plans(f"sqlite:///{file.parent}/ledger.db")
        for who in plan.positions
        for duty in who.duties
    ]


@pytest.mark.parametrize(("system", "path"), list(zip(("7shifts", "deputy"), PATHS, strict=True)))
def test_every_record_passes_the_documented_schema(file: Path, api: str, system: str, path: str) -> None:
    records = export(file, system)
    assert len(records) == len(duties(file)) >= 10
    for record in records:
        post(api + path, record)


def post(address: str, record: dict[str, Any]) -> None:
    request = urllib.request.Request(address, json.dumps(record).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 201


def test_forecasts_are_overrides_of_7shifts_in_cents(file: Path, api: str) -> None:
    records = export(file, "7shifts-forecast", "--order-value", "23.5")
    with Ledger.open_reader(f"sqlite:///{file.parent}/ledger.db") as ledger:
        head = ledger.current("harbor-fleet")
        assert head is not None
        days = [day for depot in ledger.depots(head.publication_id) for day in depot.days]
    median = head.levels.index(0.5)
    assert [each["value"] for each in records] == [round(2350 * day.quantiles[median]) for day in days]
    assert [each["date"] for each in records] == [str(day.target_date) for day in days]
    for record in records:
        post(f"{api}/v2/company/77/location/{record.pop('location_id')}/forecast_override", record)
    edit(file, "pipeline.yaml", "  notice_days: 6\n  change_premium: [{added: 15, removed: 45}]\n", "")
    assert len(export(file, "7shifts-forecast", "--order-value", "1", "--city", "Boston")) == len(records) // 2
    with pytest.raises(SpecError, match="--order-value: found inf, wanted the sales of one order"):
        export(file, "7shifts-forecast", "--order-value", "inf")
    with pytest.raises(SpecError, match=r"found no staffing\.notice_days"):
        export(file, "7shifts-forecast", "--order-value", "1", "--publish", "2025-06-16")
    for words in (["7shifts-forecast"], ["deputy", "--order-value", "2"]):
        with pytest.raises(SpecError, match="found one of --export 7shifts-forecast and --order-value"):
            export(file, *words)


def test_records_contain_the_planned_shifts_and_unpublished_days_are_drafts(file: Path) -> None:
    week = CliRunner().invoke(app, ["schedule", str(file), "--publish", "2025-06-16"])
    assert week.exit_code == 0
    wanted = duties(file)
    seven, deputy = export(file, "7shifts"), export(file, "deputy")
    assert [(each["start"], each["end"]) for each in seven] == [
        (f"{start:%Y-%m-%dT%H:%M:%SZ}", f"{end:%Y-%m-%dT%H:%M:%SZ}") for _, _, start, end in wanted
    ]
    instants = [
        tuple(datetime.fromtimestamp(each[f"int{edge}Timestamp"], UTC) for edge in ("Start", "End")) for each in deputy
    ]
    assert instants == [(start, end) for *_, start, end in wanted]
    sunday = date(2025, 6, 22)
    assert [each["draft"] for each in seven] == [day > sunday for _, day, *_ in wanted]
    assert [each["blnPublish"] for each in deputy] == [day <= sunday for _, day, *_ in wanted]
    assert {True, False} == {each["draft"] for each in seven}
    assert [each["location_id"] for each in seven] == [each["intOpunitId"] for each in deputy]
    assert {each["location_id"] for each in seven} == {70, 71}
    assert {each["user_id"] // 100 for each in seven if each["location_id"] == 70} == {1}
    assert {each["role_id"] for each in seven} == {5}
    assert {each["notes"] for each in seven} <= {"early", "late", "night"}


def test_export_can_be_limited_to_a_city(file: Path) -> None:
    assert {each["location_id"] for each in export(file, "7shifts", "--city", "Boston")} == {70}
    with pytest.raises(NoSuchRow, match="found 'Bostn', wanted one of those that are published"):
        export(file, "7shifts", "--city", "Bostn")


def test_numeric_names_are_used_only_without_a_column_of_ids(file: Path) -> None:
    first, second = (plan.depot_id for plan in plans(f"sqlite:///{file.parent}/ledger.db"))
    edit(file, "pipeline.yaml", ", columns: {external_id: area}", "")
    with pytest.raises(SpecError, match=rf"{first}: found '{first}', wanted its number .*depots.columns.external_id"):
        export(file, "7shifts")
    edit(file, "pipeline.yaml", "depots.csv}", "depots.csv}, columns: {external_id: area}")
    edit(file, "depots.csv", f"{second},71", f"{second},")
    with pytest.raises(SpecError, match=rf"{second}: found '', wanted its number .*depots.columns.external_id"):
        export(file, "7shifts")


def test_numbers_of_people_are_read_from_external_id_without_being_declared(file: Path) -> None:
    declared = export(file, "7shifts")
    edit(file, "pipeline.yaml", ", columns: {external_id: number}", "")
    edit(file, "people.csv", "contract,number", "contract,external_id")
    assert export(file, "7shifts") == declared


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (",100\n", ",\n", "of .*: found '', wanted its number there, from the column that staffing.people_table"),
        (",100\n", ",x7\n", "of .*: found 'x7', wanted its number there, from the column that staffing.people_table"),
    ],
)
def test_person_without_an_id_is_reported_by_name(file: Path, old: str, new: str, sentence: str) -> None:
    edit(file, "people.csv", old, new)
    name = plans(f"sqlite:///{file.parent}/ledger.db")[0].positions[0].name
    with pytest.raises(SpecError, match=f"--export: {name} {sentence}"):
        export(file, "7shifts")


def test_rejects_two_ids_of_one_person(file: Path) -> None:
    row = file.with_name("people.csv").read_text("utf-8").splitlines()[1]
    with file.with_name("people.csv").open("a", encoding="utf-8") as people:
        people.write(f"{row.rpartition(',')[0]},999\n")
    with pytest.raises(SpecError, match=r"found 100 and 999 as number, wanted one number"):
        export(file, "7shifts")


def test_without_people_there_is_nothing_to_export(file: Path) -> None:
    lines = file.read_text("utf-8").splitlines()
    file.write_text("\n".join(line for line in lines if "people" not in line), "utf-8")
    with pytest.raises(SpecError, match=r"found no staffing\.people in the pipeline file"):
        export(file, "7shifts")
