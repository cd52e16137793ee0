"""Only failures that prevent a forecast may fail a run: after any other damage it is published,
with a note."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest

from flows import lines, steps
from flows.night import Night
from forecaster.config import load
from forecaster.ledger.store import Ledger
from tests.flows.tiny import NIGHT, pipeline, pipeline_that_knows_its_model

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
LEGACY = "legacy: {source: {kind: parquet, path: legacy.parquet}}\n"
MORE = f"registry: http://127.0.0.1:9\nschedule: {{cron: '0 3 * * *', deadline: '03:01'}}\n{LEGACY}"
Damage = Callable[[Path], None]  # applied to the folder of a pipeline


def forecaster(command: str, folder: Path, days: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    at = (NIGHT + timedelta(days)).isoformat()
    return subprocess.run(
        [sys.executable, "-m", "forecaster", command, "--plain", str(folder / "pipeline.yaml"), "--as-of", at],
        cwd=ROOT,
        env={**os.environ, "MLFLOW_HTTP_REQUEST_TIMEOUT": "2", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )


@pytest.fixture(scope="module")
def after_a_night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a pipeline with a champion, a publication, and all tables and files of a run."""
    folder = tmp_path_factory.mktemp("night")
    file = pipeline_that_knows_its_model(folder, MORE)
    rows = pd.DataFrame({"depot_id": ["D0"], "date": ["2026-05-10"], "forecast": ["31"]})
    rows.to_parquet(folder / "legacy.parquet")
    with (folder / "demand.csv").open("a", encoding="utf-8") as source:
        source.write("D1,2026-05-10,none\n")  # a row for the quarantine
    process = forecaster("run", folder)
    assert process.returncode == 3, process.stderr
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        assert ledger.runs()[0].tier == "fresh"
    return folder


@pytest.fixture
def folder(after_a_night: Path, tmp_path: Path) -> Path:
    copy = Path(shutil.copytree(after_a_night, tmp_path / "pipeline"))
    with (copy / "demand.csv").open("a", encoding="utf-8") as source:  # actuals of a day that was forecast
        source.write("".join(f"D{depot},2026-05-11,{30 * (1 + depot)}\n" for depot in range(4)))
    return copy


def log_of(table: str) -> Damage:
    """Return a damage: a Delta table whose last commit is invalid JSON."""

    def damage(folder: Path) -> None:
        commits = folder / f"var/lake/{table}/_delta_log"
        commits.mkdir(parents=True, exist_ok=True)
        (commits / f"{max(0, len(list(commits.glob('*.json'))) - 1):020d}.json").write_text("no JSON\n", "utf-8")

    return damage


def data_of(table: str, *, gone: bool) -> Damage:
    """Return a damage: a Delta table whose files are truncated or missing."""

    def damage(folder: Path) -> None:
        files = list((folder / f"var/lake/{table}").rglob("*.parquet"))
        assert files
        for file in files:
            if gone:
                file.unlink()
            else:
                file.write_bytes(file.read_bytes()[:100])

    return damage


def in_place_of(name: str) -> Damage:
    """Return a damage: a file in place of a folder or vice versa, neither readable nor writable."""

    def damage(folder: Path) -> None:
        place = folder / "var" / name
        if place.is_dir():
            shutil.rmtree(place)
            place.write_text("", "utf-8")
        else:
            place.unlink(missing_ok=True)
            place.mkdir()
            (place / "something").write_text("", "utf-8")

    return damage


def cut(pattern: str) -> Damage:
    def damage(folder: Path) -> None:
        files = list((folder / "var").glob(pattern))
        assert files
        for file in files:
            file.write_bytes(file.read_bytes()[:50])

    return damage


def sql(statement: str) -> Damage:
    def damage(folder: Path) -> None:
        with sqlite3.connect(folder / "var/ledger.db") as connection:
            connection.execute(statement)
        connection.close()

    return damage


def legacy(frame: pd.DataFrame | bytes | None) -> Damage:
    """Return a damage: other content in the legacy system's file; None is a file that never opens."""

    def damage(folder: Path) -> None:
        file = folder / "legacy.parquet"
        file.unlink()
        if frame is None:
            os.mkfifo(file)
        elif isinstance(frame, bytes):
            file.write_bytes(frame)
        else:
            frame.to_parquet(file)

    return damage


NOT_COMPARED = "the legacy system is not compared: "
BY_REFRESH: dict[str, tuple[Damage, int, str]] = {
    "nothing": (lambda folder: None, 0, ""),
    "owners, log": (log_of("owners"), 3, "whose demand the lake holds is not known: lake table 'owners'"),
    "owners, cut": (data_of("owners", gone=False), 3, "whose demand the lake holds is not known: lake table 'owners'"),
    "quarantine, log": (log_of("quarantine"), 3, "readings count as days without readings: lake table 'quar"),
    "quarantine, gone": (data_of("quarantine", gone=True), 3, "the sources could not be read: lake table 'quarantine'"),
    "decisions, log": (log_of("decisions"), 3, "the sources could not be read: lake table 'decisions'"),
    "batches, log": (log_of("batches"), 3, "the sources could not be read: lake table 'batches'"),
    "batches, cut": (data_of("batches", gone=False), 3, "the sources could not be read: lake table 'batches'"),
    "forecasts, log": (log_of("forecasts"), 3, "the archive does not have these forecasts: lake table 'forecasts'"),
    "forecasts, cut": (
        data_of("forecasts", gone=False),
        3,
        "earlier forecasts is not computed: lake table 'forecasts'",
    ),
    "forecasts, gone": (
        data_of("forecasts", gone=True),
        3,
        "earlier forecasts is not computed: lake table 'forecasts'",
    ),
    "hindsight": (sql("drop table hindsight"), 3, "the accuracy of earlier forecasts is not computed: the ledger"),
    "drift_days": (sql("drop table drift_days"), 0, "drift is not computed: the ledger"),
    "drifts": (sql("drop table drifts"), 0, "drift is not computed: the ledger"),
    "audit": (sql("drop table audit"), 0, ""),
    "audit, refused": (
        sql("create trigger no before insert on audit begin select raise(abort, 'refused'); end"),
        0,
        "",
    ),
    "links": (sql("drop table links"), 0, ""),
    "sessions": (sql("drop table sessions"), 0, ""),
    "override_results": (sql("drop table override_results"), 0, ""),
    "desks": (
        in_place_of("desks"),
        3,
        "planners cannot change this publication immediately: the night's inputs cannot",
    ),
    "desks, cut": (cut("desks/*.npz"), 0, ""),
    "specs": (in_place_of("specs"), 0, ""),
    "legacy, gone": (lambda folder: (folder / "legacy.parquet").unlink(), 3, NOT_COMPARED),
    "legacy, no Parquet": (legacy(b"PAR1 no more"), 3, NOT_COMPARED),
    "legacy, no column": (legacy(pd.DataFrame({"depot_id": ["D0"], "date": ["2026-05-10"]})), 3, NOT_COMPARED),
    "legacy, bad cell": (
        legacy(pd.DataFrame({"depot_id": ["D0", "D1"], "date": ["2026-05-10", "soon"], "forecast": ["31", "many"]})),
        0,
        "",
    ),
    "legacy, odd type": (
        legacy(pd.DataFrame({"depot_id": ["D0"], "date": [[1, 2]], "forecast": [{"a": 1}]})),
        0,
        "",
    ),
    "legacy, hangs": (legacy(None), 3, NOT_COMPARED + "the source legacy.parquet gave nothing for 10 s"),
}


def published(folder: Path) -> str:
    """Return the note of the last run, after checking that its forecast is published."""
    with Ledger.open_reader(load(folder / "pipeline.yaml").ledger_url) as ledger:
        run, head = ledger.runs()[0], ledger.current("tiny")
    assert head is not None
    assert head.run_id == run.run_id, run
    assert run.outcome in ("published", "degraded")
    return run.message or ""


@pytest.mark.usefixtures("predicts_here")
@pytest.mark.parametrize("name", BY_REFRESH)
def test_publishes_a_forecast_without_its_by_products(folder: Path, name: str) -> None:
    damage, code, note = BY_REFRESH[name]
    damage(folder)
    night = Night.begin(str(folder / "pipeline.yaml"), NIGHT + timedelta(1), kind="refresh")
    night.run(lambda: lines.predict_only(night, steps))
    message = published(folder)
    print(name, night.exit_code, message)
    assert (night.exit_code, note in message) == (code, True), message
    assert bool(message) == bool(note) or code == 0


def test_trains_without_a_program_cache_and_publishes_without_scores(folder: Path) -> None:
    log_of("scores")(folder)
    (cache := folder / "no folder").write_text("", "utf-8")
    process = forecaster("run", folder, days=1, JAX_COMPILATION_CACHE_DIR=str(cache))
    message = published(folder)
    assert process.returncode == 3, process.stderr  # because of the registry
    assert "compiled programs of this night are not kept: " in process.stderr
    assert "the lake does not have tonight's scores: lake table 'scores'" in message
    assert "no model could be made" not in message
    with Ledger.open_reader(load(folder / "pipeline.yaml").ledger_url) as ledger:
        run, head = ledger.runs()[0], ledger.current("tiny")
    assert head is not None
    assert "scores" not in (head.note or ""), "which is no word for a depot"
    assert (run.tier, head.tier) == ("fresh", "fresh")


def test_reports_an_unwritable_report_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = pipeline(tmp_path)
    in_place_of("report.html")(make_state(tmp_path).parent)
    monkeypatch.setattr("forecaster.training.record.record", lambda *_, **__: "<!doctype html>")
    night = Night.begin(str(file), NIGHT)
    night.run(lambda: steps.record(night, *(None,) * 5))  # type: ignore[arg-type]
    assert str(night.message).startswith("the report of tonight's model was not written: IsADirectoryError")


def test_reports_a_full_disk_for_the_report_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = pipeline(tmp_path)
    (make_state(tmp_path) / f".report.html.{os.getpid()}").symlink_to("/dev/full")
    monkeypatch.setattr("forecaster.training.record.record", lambda *_, **__: "<!doctype html>")
    night = Night.begin(str(file), NIGHT)
    night.run(lambda: steps.record(night, *(None,) * 5))  # type: ignore[arg-type]
    assert str(night.message).startswith("the report of tonight's model was not written: OSError: [Errno 28] No space")
    assert not (tmp_path / "var/report.html").exists()


def make_state(folder: Path) -> Path:
    (folder / "var").mkdir()
    return folder / "var"
