"""The guide without a browser: content and effect of each step, and its access control."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from dashboards.start import folder as folders
from dashboards.start import nights
from dashboards.start.app import Guide
from dashboards.start.columns import Choices
from forecaster.config import load
from forecaster.errors import SpecError
from forecaster.onboarding import start
from tests.dashboards.visitor import text
from tests.onboarding import made_up_files

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
LAST = date(2026, 3, 1)
Ask = Callable[..., httpx.Response]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Return a function that queries the guide of a new folder, as a browser on its machine would."""
    guide = Guide(tmp_path / "fleet", clock=lambda: NOW)

    def ask(method: str, path: str, **what: Any) -> httpx.Response:
        async def answer() -> httpx.Response:
            transport = httpx.ASGITransport(guide)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8000") as client:
                if method == "POST":
                    token = re.search(r'name="csrf" value="([^"]+)"', (await client.get("/start")).text)
                    assert token is not None
                    if "content" not in what:
                        what["data"] = {"csrf": token[1], **what.get("data", {})}
                return await client.request(method, path, **what)

        return asyncio.run(answer())

    return ask


def uploaded(ask: Ask, file: Path, name: str = "") -> httpx.Response:
    return ask("POST", "/start/files", files={"file": (name or file.name, file.read_bytes())})


@pytest.mark.parametrize("shape", made_up_files.OF_NEWCOMERS, ids=lambda shape: shape.__name__)
def test_the_guide_writes_what_init_writes(shape: Callable[[Path, date], Path], tmp_path: Path, ask: Ask) -> None:
    answer = uploaded(ask, shape(tmp_path, LAST))
    assert answer.status_code == 303
    page = ask("GET", answer.headers["location"])
    assert page.status_code == 200
    name = answer.headers["location"].partition("files=")[2]
    answer = ask("POST", "/start/columns", data={"files": name, "country": "DE", "do": "write"})
    assert answer.headers["location"] == "/start/check"
    file = tmp_path / "fleet" / "pipeline.yaml"
    start.create([tmp_path / "fleet" / name], tmp_path / "again", country="DE", ask=None, now=NOW)
    again = (tmp_path / "again" / "pipeline.yaml").read_text("utf-8")
    added = "training:\n  start: prior                      # a pretrained model forecasts within seconds, until the"
    written = file.read_text("utf-8")
    assert [line for line in written.splitlines() if line not in again.splitlines()][:2] == [
        next(line for line in written.splitlines() if "path:" in line),
        "training:",
    ]
    assert added in written
    assert load(file).calendar.country == "DE"


def test_each_step_has_its_address_and_marks_itself(tmp_path: Path, ask: Ask) -> None:
    assert ask("GET", "/").headers["location"] == "/start"
    assert ask("GET", "/start/check").status_code == 404
    location = uploaded(ask, made_up_files.daily_csv(tmp_path, LAST)).headers["location"]
    page = ask("GET", location)
    assert '<li aria-current="step">2 Columns</li>' in page.text
    assert "names the depot, by its name" in text(page)
    assert "3 sites" in text(page)
    ask("POST", "/start/columns", data={"files": "counts.csv", "do": "write"})
    assert "A forecast can start from this" in text(ask("GET", "/start/check"))
    report = ask("GET", "/start/check/report")
    assert report.headers["content-security-policy"].startswith("sandbox")
    download = ask("GET", "/start/pipeline.yaml")
    assert download.content == (tmp_path / "fleet" / "pipeline.yaml").read_bytes()
    assert "No forecast yet" in text(ask("GET", "/start/forecast"))
    lines = text(ask("GET", "/start/nightly"))
    assert re.search(r"15 3 \* \* \* \S+ -m forecaster run \S+/fleet/pipeline.yaml --plain --due", lines)
    assert "OnCalendar=*-*-* 03:15 UTC" in lines
    assert ask("GET", "/").headers["location"] == "/start/forecast"


def test_every_page_has_the_strict_policy(ask: Ask) -> None:
    policy = ask("GET", "/start").headers["content-security-policy"]
    assert "script-src 'self'; style-src 'self'" in policy
    assert "unsafe" not in policy


def test_a_changed_column_role_changes_the_interpretation(tmp_path: Path, ask: Ask) -> None:
    location = uploaded(ask, made_up_files.orders_with_amounts(tmp_path, LAST)).headers["location"]
    assert "each row counts as one" in text(ask("GET", location))
    answer = ask("POST", "/start/columns", data={"files": "orders.csv", "column.amount": "count", "do": "look"})
    page = ask("GET", answer.headers["location"])
    assert "the count is 'amount', summed over the rows of a day" in text(page)
    assert '<option value="count" selected>' in page.text


def test_an_unused_column_of_a_wide_file_is_not_a_depot(tmp_path: Path, ask: Ask) -> None:
    uploaded(ask, made_up_files.wide_workbook(tmp_path, LAST))
    data = {"files": "standorte.xlsx", "column.Köln": "unused", "do": "write", "timezone": "Europe/Vienna"}
    assert ask("POST", "/start/columns", data=data).headers["location"] == "/start/check"
    spec = load(tmp_path / "fleet" / "pipeline.yaml")
    assert "Köln" in spec.demand.source.ignore  # type: ignore[union-attr]
    assert spec.timezone == "Europe/Vienna"


def test_writes_nothing_before_an_open_question_is_answered(tmp_path: Path, ask: Ask) -> None:
    rows = made_up_files.readings(LAST).assign(
        visitors=lambda table: 2 * table["count"] + table["day"].map(date.toordinal) % 3
    )
    file = tmp_path / "two.csv"
    rows.set_axis(["store", "date", "orders", "visitors"], axis="columns").to_csv(file, index=False)
    page = ask("GET", uploaded(ask, file).headers["location"])
    assert "which column is the count?" in text(page)
    assert page.text.count('type="radio"') == 2
    data = {"files": "two.csv", "do": "write"}
    assert ask("POST", "/start/columns", data=data).headers["location"].startswith("/start/columns?")
    assert not (tmp_path / "fleet" / "pipeline.yaml").exists()
    answer = ask("POST", "/start/columns", data={**data, "answer.count": "visitors"})
    assert answer.headers["location"] == "/start/check"
    assert load(tmp_path / "fleet" / "pipeline.yaml").demand.columns.demand == "visitors"


def test_reports_errors_like_the_command(tmp_path: Path, ask: Ask) -> None:
    file = tmp_path / "odd.csv"
    file.write_text("name,colour\na,red\nb,blue\n", "utf-8")
    page = ask("GET", uploaded(ask, file).headers["location"])
    assert page.status_code == 422
    assert "found no date column; searched columns 'name', 'colour'" in text(page)
    page = ask("GET", "/start/columns?files=odd.csv&timezone=Europe/Berlinn")
    assert "timezone: found 'Europe/Berlinn', wanted a name such as Europe/Berlin" in text(page)
    file.write_bytes(b"")
    assert "the file is empty" in text(ask("GET", uploaded(ask, file, "empty.csv").headers["location"]))


def test_costs_create_the_staffing_section(tmp_path: Path, ask: Ask) -> None:
    uploaded(ask, made_up_files.daily_csv(tmp_path, LAST))
    costs = {"orders_per_driver": "90", "cost_short": "38,5", "cost_idle": "22"}
    ask("POST", "/start/columns", data={"files": "counts.csv", "do": "write", **costs})
    staffing = load(tmp_path / "fleet" / "pipeline.yaml").staffing
    assert staffing is not None
    assert (staffing.orders_per_driver, staffing.cost_short, staffing.cost_idle) == (90, 38.5, 22)
    with pytest.raises(SpecError, match="wanted all of orders_per_driver, cost_short, cost_idle"):
        _ = Choices.of([("cost_idle", "22")]).staffing


def test_an_upload_replaces_nothing_and_stays_in_the_folder(tmp_path: Path, ask: Ask) -> None:
    file = made_up_files.daily_csv(tmp_path, LAST)
    for name in ("counts.csv", "../../counts.csv", "..\\.hidden/.counts.csv"):
        assert uploaded(ask, file, name).status_code == 303
    names = sorted(path.name for path in (tmp_path / "fleet").iterdir())
    assert names == ["counts-2.csv", "counts-3.csv", "counts.csv"]
    assert ask("GET", "/start/columns?files=../counts.csv").status_code == 404


def test_rejects_an_unsupported_or_missing_file(tmp_path: Path, ask: Ask) -> None:
    file = made_up_files.daily_csv(tmp_path, LAST)
    answer = uploaded(ask, file, "page.html")
    assert answer.status_code == 422
    assert "page.html: found a file of another kind, wanted one of .bz2, .csv" in text(answer)
    assert ask("POST", "/start/files", files={"file": ("", b"")}).status_code == 422
    assert not (tmp_path / "fleet").exists()


def test_rejects_a_large_file_and_leaves_nothing(tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "LARGEST_FILE", 1 << 20)
    answer = ask("POST", "/start/files", files={"file": ("counts.csv", b"x" * (2 << 20))})
    assert answer.status_code == 413
    assert "found a file of more than 1,048,576 bytes, wanted at most 1 MB" in text(answer)
    assert [*(tmp_path / "fleet").iterdir()] == []


def test_a_body_beyond_the_limit_is_not_read(ask: Ask) -> None:
    headers = {"content-length": str(1 << 40), "content-type": "multipart/form-data; boundary=x"}
    answer = ask("POST", "/start/files", content=b"", headers=headers)
    assert answer.status_code == 413
    assert "wanted at most 100 MB" in text(answer)


@pytest.mark.parametrize("path", ["/start/files", "/start/columns", "/start/pipeline", "/start/forecast"])
def test_rejects_a_write_without_the_token(path: str, tmp_path: Path, ask: Ask) -> None:
    files = {"file": ("counts.csv", b"a,b\n")} if path == "/start/files" else None
    answer = ask("POST", path, files=files, data={"csrf": "made-up"})
    assert answer.status_code == 403
    assert not (tmp_path / "fleet").exists()


def test_rejects_another_host_name(ask: Ask) -> None:
    assert ask("GET", "/start", headers={"host": "evil.example"}).status_code == 403


def test_validates_a_users_own_pipeline_before_writing_it(tmp_path: Path, ask: Ask) -> None:
    answer = ask("POST", "/start/pipeline", data={"text": "name: x\r\nepoch: 3\r\n"})
    assert answer.status_code == 422
    assert "pipeline.yaml:2: unknown key 'epoch'" in html.unescape(answer.text)
    assert [*(tmp_path / "fleet").iterdir()] == []
    own = "name: own\ntimezone: Europe/Berlin\ndemand:\n  source: {kind: csv, path: counts.csv}\n"
    assert ask("POST", "/start/pipeline", data={"text": own}).headers["location"] == "/start/check"
    assert ask("POST", "/start/pipeline", data={"text": own + "horizon: 5\n"}).status_code == 303
    assert len([*(tmp_path / "fleet").glob("pipeline-until-*.yaml")]) == 1


def test_reports_a_file_made_invalid_meanwhile(tmp_path: Path, ask: Ask) -> None:
    own = "name: own\ndemand:\n  source: {kind: csv, path: counts.csv}\n"
    ask("POST", "/start/pipeline", data={"text": own})
    (tmp_path / "fleet" / "pipeline.yaml").write_text(own + "epoch: 3\n", "utf-8")
    answer = ask("GET", "/start/check")
    assert answer.status_code == 422
    assert "unknown key 'epoch'" in html.unescape(answer.text)
    assert ask("GET", "/start").status_code == 200


def test_with_sign_in_the_guide_is_for_administrators(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    (fleet / "pipeline.yaml").write_text(
        "name: fleet\ndemand: {source: {kind: csv, path: counts.csv}}\n"
        "page: {access: {sign_in: header, url: 'https://page.example', proxies: [127.0.0.1], "
        "roles: {viewer: ['*'], admin: [ada]}}}\n",
        "utf-8",
    )
    guide = Guide(fleet, clock=lambda: NOW)

    def status(**headers: str) -> int:
        async def answer() -> int:
            transport = httpx.ASGITransport(guide)
            async with httpx.AsyncClient(transport=transport, base_url="http://page.example") as client:
                named = {name.replace("_", "-"): value for name, value in headers.items()}
                return (await client.get("/start", headers=named)).status_code

        return asyncio.run(answer())

    name = load(fleet / "pipeline.yaml").page.access.header.user.replace("-", "_")
    assert status() == 401
    assert status(**{name: "vic"}) == 403
    assert status(**{name: "ada"}) == 200


def test_stages_are_read_from_the_log_of_the_run(tmp_path: Path) -> None:
    log = tmp_path / "start.log"
    log.write_text(
        '{"stage": "ingest", "message": "sources into the lake"}\n{"stage": "train", "message": "epoch 3/30"}\nodd\n',
        "utf-8",
    )
    stages = {stage.name: stage for stage in nights._stages(nights._lines(log), runs=True)}
    assert (stages["ingest"].state, stages["train"].state, stages["predict"].state) == ("done", "now", "next")
    assert stages["train"].message == "epoch 3/30"


def test_an_archive_runs_as_of_the_day_after_it(tmp_path: Path, ask: Ask) -> None:
    uploaded(ask, made_up_files.archive(tmp_path, LAST))
    ask("POST", "/start/columns", data={"files": "historico.csv", "do": "write"})
    page = ask("GET", "/start/check")
    assert "A forecast can start from this" in text(page)
    assert 'name="cutoff" value="2025-03-01"' in page.text
    spec = load(tmp_path / "fleet" / "pipeline.yaml")
    assert nights.as_of(spec, date(2025, 3, 1), NOW) == "2025-03-02"
    assert nights.as_of(spec, LAST, NOW) is None
