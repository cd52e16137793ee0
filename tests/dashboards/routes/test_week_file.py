"""An edited workbook of the week board: its changes are previewed, saved together, and read
correctly, also after LibreOffice."""

from __future__ import annotations

import html
import io
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from python_calamine import CalamineWorkbook
from xlsxwriter import Workbook

from dashboards.ops.app import create_app
from dashboards.ops.reading import store
from forecaster.config import Spec, load
from forecaster.ledger import access as ledger_access
from forecaster.ledger.store import Ledger
from forecaster.planning import service
from tests import fleets
from tests.dashboards.guests import SECRET, Guest, declared, house, signed_in
from tests.dashboards.seed import NOON, PUBLISHED, depot, fill, publication
from tests.dashboards.visitor import ask_locally, text
from tests.planning.nights import THURSDAY, current, publish_nights

Sheets = dict[str, list[list[Any]]]
DAY = date(2025, 6, 18)
NIGHT = datetime(2024, 4, 10, 12, tzinfo=UTC)
LIBREOFFICE = shutil.which("soffice")


@pytest.fixture
def spec(tmp_path: Path, url: str) -> Spec:
    file = tmp_path / "pipeline.yaml"
    source = "demand: {source: {kind: csv, path: demand.csv}}"
    file.write_text(f"name: harbor-fleet\n{source}\nstate: .\nledger: {url}\n", "utf-8")
    return load(file)


@pytest.fixture
def app(url: str, spec: Spec) -> FastAPI:
    fill(url, publication(3))
    return create_app(url, pipeline="harbor-fleet", clock=lambda: NOON, spec=spec)


def sheets(app: FastAPI) -> Sheets:
    """Return the cells of the board's workbook, by sheet."""
    book = CalamineWorkbook.from_filelike(io.BytesIO(ask_locally(app, "GET", "/?sort=depot&format=xlsx").content))
    return {name: book.get_sheet_by_name(name).to_python() for name in book.sheet_names}


def workbook(content: Sheets) -> bytes:
    out = io.BytesIO()
    with Workbook(out, {"in_memory": True, "default_date_format": "yyyy-mm-dd"}) as book:
        for name, rows in content.items():
            page = book.add_worksheet(name)
            for line, row in enumerate(rows):
                page.write_row(line, 0, row)
    return out.getvalue()


def sent(app: FastAPI, content: bytes) -> httpx.Response:
    return ask_locally(app, "POST", "/week-file", files={"file": ("week.xlsx", content)})


def fields(answer: httpx.Response) -> list[str]:
    """Return the cells that the page would save."""
    return [html.unescape(cell) for cell in re.findall(r'name="cell" value="([^"]*)"', answer.text)]


def saved(app: FastAPI, cells: list[str], **more: str | list[str]) -> httpx.Response:
    data = {"cell": cells, "reason": "local event", "by": "Ada", **more}
    return ask_locally(app, "POST", "/week-file/overrides", data=data)


def overrides(url: str, pipeline: str = "harbor-fleet") -> dict[tuple[str, date], int]:
    with Ledger.open_reader(url) as ledger:
        return {(row.depot_id, row.target_date): row.orders for row in service.list_overrides(ledger, pipeline)}


def test_changed_orders_are_previewed_saved_together_and_withdrawn_together(app: FastAPI, url: str) -> None:
    content = sheets(app)
    content["Orders"][1][3], content["Orders"][2][3] = 512, 0  # of BOS-01 and NYC-01, Wednesday
    answer = sent(app, workbook(content))
    assert answer.status_code == 200
    assert "2 changed days; nothing is saved yet" in text(answer)
    assert fields(answer) == [f"BOS-01\t{DAY}\t512", f"NYC-01\t{DAY}\t0"]
    assert overrides(url) == {}
    answer = saved(app, fields(answer), note="a match")
    assert (answer.status_code, answer.headers["location"]) == (303, "/?only=overridden")
    assert overrides(url) == {("BOS-01", DAY): 512, ("NYC-01", DAY): 0}
    with Ledger.open_reader(url) as ledger, ledger.transaction() as connection:
        (entry,) = ledger_access.entries(connection, "harbor-fleet")
    assert "2 depots on 2025-06-18, 512 orders together (local event)" in entry.what
    withdrawal = {"together": "true", "by": "Ada"}
    assert ask_locally(app, "POST", "/overrides/1/withdrawal", data=withdrawal).status_code == 303
    with Ledger.open_reader(url) as ledger:
        assert all(row.withdrawn for row in service.list_overrides(ledger, "harbor-fleet"))


def night_page(folder: Path, staffing: str) -> tuple[FastAPI, Spec]:
    """Return the page of a run with crews."""
    spec = publish_nights(folder, fleets.counts("AB"), staffing=staffing).spec
    return create_app(spec.ledger_url, pipeline=spec.name, clock=lambda: NIGHT, spec=spec), spec


def crews(spec: Spec) -> dict[tuple[str, date], int | None]:
    return {(depot.depot_id, each.target_date): each.drivers for depot in current(spec).depots for each in depot.days}


def test_changed_drivers_are_set_by_hand_together_with_changed_orders(tmp_path: Path) -> None:
    app, spec = night_page(tmp_path, "staffing: {orders_per_driver: 10, cost_short: 38, cost_idle: 22}\n")
    content, before = sheets(app), crews(spec)
    column = content["Drivers"][0].index(THURSDAY)
    content["Drivers"][1][column] = before["A", THURSDAY] + 3  # type: ignore[operator]
    content["Drivers"][2][column + 1] = 12
    content["Orders"][2][column] = 40
    answer = sent(app, workbook(content))
    rows = re.findall(r'name="(cell|crew)" value="([^"]*)"', answer.text)
    friday = THURSDAY + timedelta(days=1)
    wanted = [("cell", f"B\t{THURSDAY}\t40"), ("crew", f"A\t{THURSDAY}\t{before['A', THURSDAY] + 3}")]  # type: ignore[operator]
    assert rows == [*wanted, ("crew", f"B\t{friday}\t12")]
    assert "12 drivers" in text(answer)
    assert crews(spec) == before
    sheet = {name: [value for field, value in rows if field == name] for name in ("cell", "crew")}
    refused = saved(app, sheet["cell"], crew=[*sheet["crew"], f"A\t{friday}\t-1"])
    assert refused.status_code == 422
    assert "drivers: found -1" in text(refused)
    assert crews(spec) == before  # all or none
    assert saved(app, sheet["cell"], crew=sheet["crew"]).status_code == 303
    after = crews(spec)
    assert (after["A", THURSDAY], after["B", friday]) == (before["A", THURSDAY] + 3, 12)  # type: ignore[operator]
    assert list(overrides(spec.ledger_url, spec.name).values()) == [40]
    answer = saved(app, [], crew=[f"A\t{THURSDAY}\t1"], reason="")  # crews only
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert crews(spec)["A", THURSDAY] == 1
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        entries = [entry.what for entry in ledger_access.entries(connection, spec.name)]
    assert sorted(entry for entry in entries if "workbook" in entry) == [
        "set 1 crew by a workbook",
        "set 2 crews by a workbook",
    ]


def test_drivers_alone_have_no_reason_note_or_last_day(tmp_path: Path) -> None:
    app, spec = night_page(tmp_path, "staffing: {orders_per_driver: 10, cost_short: 38, cost_idle: 22}\n")
    content, before = sheets(app), crews(spec)
    content["Drivers"][1][content["Drivers"][0].index(THURSDAY)] += 3
    answer = sent(app, workbook(content))
    assert "Your name" in answer.text
    assert not re.findall('name="(reason|note|until)"', answer.text)
    for field, word in {"reason": "weather", "note": "storm", "until": "2026-12-31"}.items():
        refused = saved(app, [], **{"crew": f"A\t{THURSDAY}\t1", "reason": "", field: word})
        assert (refused.status_code, "wanted them only with changed orders" in text(refused)) == (422, True)
    assert crews(spec) == before


def test_rejects_drivers_of_a_day_with_shifts(tmp_path: Path) -> None:
    shifts = "shifts: [{name: early, start: 06:00, end: 14:00, share: 1}]"
    app, spec = night_page(tmp_path, f"staffing: {{orders_per_driver: 10, cost_short: 38, cost_idle: 22, {shifts}}}\n")
    content, before = sheets(app), crews(spec)
    content["Drivers"][1][2] += 1
    answer = sent(app, workbook(content))
    assert answer.status_code == 422
    assert "drivers, wanted them by shift, on the page of the day" in text(answer)
    assert crews(spec) == before


def test_an_unchanged_file_changes_nothing(app: FastAPI) -> None:
    answer = sent(app, ask_locally(app, "GET", "/?format=xlsx").content)
    assert answer.status_code == 200
    assert "The file changes nothing." in text(answer)


def test_rows_may_be_missing_or_reordered(app: FastAPI) -> None:
    content = sheets(app)
    head, first, _, third = content["Orders"]
    content["Orders"] = [head, third, first]
    first[2] = 77
    assert fields(sent(app, workbook(content))) == ["BOS-01\t2025-06-17\t77"]


def test_a_newer_publication_is_shown_but_not_treated_as_a_change_of_the_file(
    app: FastAPI, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "REREAD_SECONDS", 0.0)
    content = sheets(app)
    content["Orders"][1][3] = 512
    days = [replace(day, quantiles=(300.0,) * 5) if day.open else day for day in depot(0).days]
    later = publication(3, run_id="night-2", published_at=PUBLISHED + timedelta(hours=1))
    fill(url, replace(later, depots=(replace(later.depots[0], days=tuple(days)), *later.depots[1:])))
    answer = sent(app, workbook(content))
    assert fields(answer) == [f"BOS-01\t{DAY}\t512"]
    row = re.search(r"<tr><th scope=\"row\"><a href=.*?</tr>", answer.text)
    assert row is not None
    assert re.findall(r'<td class="([^"]*)">([^<]*)<', row[0])[1:] == [
        ("n worse", "300"),
        ("n o", "512"),
        ("n", "+212"),
    ]


def _set(sheet: str, line: int, column: int, value: Any) -> Callable[[Sheets], None]:
    def change(content: Sheets) -> None:
        content[sheet][line][column] = value

    return change


MEDIAN = round(depot(0).days[0].quantiles[2], 1)
BAD: list[tuple[Callable[[Sheets], None], str]] = [
    (_set("Orders", 1, 2, "many"), "Orders!C2: found 'many', wanted a whole number from 0 to 10,000,000"),
    (_set("Orders", 1, 2, 12.5), "Orders!C2: found 12.5, wanted a whole number"),
    (_set("Orders", 1, 2, -3), "Orders!C2: found -3.0, wanted a whole number"),
    (_set("Orders", 1, 2, ""), "Orders!C2: found '', wanted a whole number"),
    (_set("Orders", 1, 2, True), "Orders!C2: found True, wanted a whole number"),
    (_set("Orders", 1, 4, 40), "Orders!E2: found 40.0, wanted nothing, as on a closed day"),
    (_set("Orders", 1, 0, "BOS-99"), "Orders!A2: found 'BOS-99', wanted a depot of the board, once"),
    (_set("Orders", 2, 0, "BOS-01"), "Orders!A3: found 'BOS-01', wanted a depot of the board, once"),
    (_set("Orders", 0, 3, date(2025, 6, 17)), "Orders!D1: found 2025-06-17, wanted a day of the board, once"),
    (_set("Orders", 0, 2, "Tuesday"), "Orders!C1: found 'Tuesday', wanted a day of the board, once"),
    (_set("Drivers", 1, 2, 2.5), "Drivers!C2: found 2.5, wanted a whole number"),
    (lambda content: content.pop("Published") and None, "found no sheets “Orders” and “Published”"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "sentence"), BAD, ids=[sentence for _, sentence in BAD])
def test_names_an_invalid_cell_and_saves_nothing(
    change: Callable[[Sheets], None], sentence: str, app: FastAPI, url: str
) -> None:
    content = sheets(app)
    content["Orders"][3][2] = 5  # valid
    change(content)
    answer = sent(app, workbook(content))
    assert answer.status_code == 422
    assert sentence in text(answer)
    assert fields(answer) == []
    assert overrides(url) == {}


def test_rejects_other_files(app: FastAPI) -> None:
    for content in (b"", b"depot,day\n", b"PK\x03\x04" + bytes(100)):
        answer = sent(app, content)
        assert answer.status_code == 422
        assert "found no workbook, wanted an Excel file of the page" in text(answer)
    assert sent(app, bytes(9 << 20)).status_code == 413


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        ([], "found 0 depots and days, wanted at least one and at most 5,000"),
        (["BOS-01\t2025-06-18\tmany"], "wanted a depot, a day and a number"),
        (["BOS-77\t2025-06-18\t5"], "depot: found 'BOS-77', wanted a depot of the published forecasts"),
        (["BOS-01\t2025-06-18\t5", "BOS-01\t2026-06-18\t5"], "date: found 2026-06-18, wanted a published day"),
    ],
)
def test_an_invalid_form_saves_nothing(cells: list[str], sentence: str, app: FastAPI, url: str) -> None:
    answer = saved(app, cells)
    assert answer.status_code == 422
    assert sentence in text(answer)
    assert overrides(url) == {}


def test_rejects_a_write_without_the_token(app: FastAPI, url: str) -> None:
    guest = Guest(app, address="127.0.0.1", base="http://localhost:8000")
    assert guest("/week-file", "POST", files={"file": ("week.xlsx", b"")}).status_code == 403
    assert guest("/week-file/overrides", "POST", data={"cell": "x", "csrf": "made-up"}).status_code == 403
    assert overrides(url) == {}


def test_only_planners_send_files_and_only_for_their_cities(
    url: str, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    fill(url, publication(3))
    app = house(url, declared(roles={"planner": ["bob"]}), spec=spec)
    assert signed_in(app, "vic")("/week-file").status_code == 403
    bob = signed_in(app, "bob")
    token = bob("/api/v1/me").json()["csrf"]
    book = CalamineWorkbook.from_filelike(io.BytesIO(bob("/?format=xlsx").content))
    content = {name: book.get_sheet_by_name(name).to_python() for name in book.sheet_names}
    content["Orders"][1][3] = 512
    headers = {"X-CSRF-Token": token}
    answer = bob("/week-file", "POST", files={"file": ("week.xlsx", workbook(content))}, headers=headers)
    assert fields(answer) == [f"BOS-01\t{DAY}\t512"]
    content["Orders"][1][0] = "NYC-01"
    answer = bob("/week-file", "POST", files={"file": ("week.xlsx", workbook(content))}, headers=headers)
    assert "Orders!A2: found 'NYC-01', wanted a depot of the board, once" in text(answer)
    del content["Drivers"]
    for row in content["Published"]:
        row[0] = str(row[0]).replace("BOS", "NYC")
    answer = bob("/week-file", "POST", files={"file": ("week.xlsx", workbook(content))}, headers=headers)
    assert "NYC-01 on 2025-06-18: wanted an open day that is published" in text(answer)
    data = {"cell": f"NYC-01\t{DAY}\t5", "reason": "local event"}
    assert bob("/week-file/overrides", "POST", data=data, headers=headers).status_code == 404
    assert overrides(url) == {}


@pytest.mark.skipif(LIBREOFFICE is None, reason="LibreOffice is not installed (Debian: libreoffice-calc)")
def test_reads_a_thousand_cells_correctly_after_libreoffice(url: str, spec: Spec, tmp_path: Path) -> None:
    fill(url, publication(180))
    app = create_app(url, pipeline="harbor-fleet", clock=lambda: NOON, spec=spec)
    (tmp_path / "week.xlsx").write_bytes(ask_locally(app, "GET", "/?sort=depot&format=xlsx").content)
    _convert(tmp_path / "week.xlsx", "fods")
    typed: list[int] = []

    def type_number(cell: re.Match[str]) -> str:
        typed.append(1_000 + 7 * len(typed))
        return re.sub('office:value="[^"]*"', f'office:value="{typed[-1]}"', cell[0])

    document = (tmp_path / "week.fods").read_text("utf-8")
    begin, end = document.index('table:name="Orders"'), document.index('table:name="Drivers"')
    orders = re.sub('<table:table-cell[^>]*office:value-type="float"[^>]*>', type_number, document[begin:end])
    (tmp_path / "week.fods").write_text(document[:begin] + orders + document[end:], "utf-8")
    _convert(tmp_path / "week.fods", "xlsx")
    cells = fields(sent(app, (tmp_path / "week.xlsx").read_bytes()))
    assert len(cells) == len(typed) > 1_000
    assert saved(app, cells).status_code == 303
    open_days = [(depot(i).depot_id, day.target_date) for i in range(180) for day in depot(i).days if day.open]
    assert overrides(url) == dict(zip(sorted(open_days), typed, strict=True))


def through_libreoffice(content: bytes, folder: Path) -> bytes:
    """Open and save a workbook with LibreOffice."""
    (folder / "week.xlsx").write_bytes(content)
    _convert(folder / "week.xlsx", "ods")
    return (folder / "week.ods").read_bytes()


def _convert(file: Path, form: str) -> None:
    profile = f"-env:UserInstallation={(file.parent / 'profile').as_uri()}"
    command = [str(LIBREOFFICE), profile, "--headless", "--convert-to", form, "--outdir", str(file.parent), str(file)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
