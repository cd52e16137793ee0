"""Failures cost a tier or add a sentence, but not the forecasts: each run ends with an outcome and
the right exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows import lines, steps
from flows.night import Night
from forecaster.config import load
from forecaster.core.knowledge import Knowledge
from forecaster.core.panel import Panel
from forecaster.errors import ExportError, TrainingError
from forecaster.ledger.records import Head
from forecaster.ledger.store import Ledger
from tests.flows.tiny import NIGHT, pipeline

pytestmark = pytest.mark.usefixtures("predicts_here")
CHEAP = SimpleNamespace(**{name: getattr(steps, name) for name in ("ingest", "panel", "preview", "train", "predict")})


def refresh(file: Path) -> Night:
    night = Night.begin(str(file), NIGHT, kind="refresh")
    return night.run(lambda: lines.predict_only(night, steps))


def nightly(file: Path, by: Any = CHEAP) -> Night:
    night = Night.begin(str(file), NIGHT)
    return night.run(lambda: lines.nightly(night, by))


def published_head(file: Path) -> Head | None:
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        return ledger.current("tiny")


def ended(file: Path) -> tuple[str, int | None]:
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        last = ledger.runs("tiny", limit=1)[0]
    return last.outcome, last.exit_code


def test_forecasts_from_known_data_if_a_source_is_down(tmp_path: Path) -> None:
    file = pipeline(tmp_path)
    before = refresh(file)
    (tmp_path / "demand.csv").unlink()
    after = refresh(file)
    assert (before.exit_code, after.exit_code) == (3, 3)  # there is no champion yet: the fallback forecasts
    assert str(after.message).startswith("the sources could not be read: ")
    assert str(after.message).count("could not be read") == 1  # the page shows it too, in the note of the fallback
    assert str(after.message).endswith("; Seasonal-naive fallback: no model was ever admitted.")
    assert after.progress.expected.keys() == {"ingest", "predict"}
    head = published_head(file)
    assert head is not None
    assert (head.run_id, head.tier) == (after.run_id, "fallback")
    assert ended(file) == ("degraded", 3)


def test_a_misspelled_covariate_is_reported_each_night(tmp_path: Path) -> None:
    events = "events: {source: {kind: csv, path: events.csv}}, known_future: [prmo]"
    file = pipeline(tmp_path)
    file.write_text(file.read_text("utf-8").replace("holidays: false", f"holidays: false, {events}"), "utf-8")
    (tmp_path / "events.csv").write_text("date,kind,name\n2026-05-12,promo,May sale\n", "utf-8")
    night = refresh(file)
    assert night.exit_code == 3
    assert "calendar.known_future: found 'prmo', wanted a column of " in str(night.message)


def test_an_empty_source_without_known_data_leaves_the_page_unchanged(tmp_path: Path) -> None:
    file = pipeline(tmp_path, days=0)
    night = refresh(file)
    assert ended(file) == ("no_data", 4)
    assert "holds no demand" in str(night.message)
    assert published_head(file) is None


def test_reports_a_stopped_batch_and_forecasts_from_yesterdays_data(tmp_path: Path) -> None:
    file = pipeline(tmp_path, days=129)
    refresh(file)
    rows = (tmp_path / "demand.csv").read_text("utf-8")
    (tmp_path / "demand.csv").write_text(rows + "D0,2026-05-10,30\n", "utf-8")  # one depot of four
    night = refresh(file)
    assert ended(file) == ("degraded", 3)
    assert "the batch was stopped and is in quarantine: thin_feed" in str(night.message)
    head = published_head(file)
    assert head is not None
    assert (head.run_id, str(head.cutoff)) == (night.run_id, "2026-05-09")


@pytest.mark.long
def test_forecasts_if_the_lake_becomes_unreadable_after_the_panel(tmp_path: Path) -> None:
    file = pipeline(tmp_path)

    def panel(night: Night) -> tuple[Knowledge, Panel]:
        read = steps.panel(night)
        (newest,) = (tmp_path / "var/lake/demand/_delta_log").glob("*.json")
        newest.write_text("no JSON", "utf-8")
        return read

    night = Night.begin(str(file), NIGHT, trains=False)
    quick = SimpleNamespace(**{**vars(CHEAP), "panel": panel, "register": lambda night: None})
    night.run(lambda: lines.nightly(night, quick))
    assert ended(file) == ("degraded", 3)
    assert "the prediction failed, and was made from what the night had read before: lake table" in str(night.message)
    head = published_head(file)
    assert head is not None
    assert (head.run_id, str(head.cutoff)) == (night.run_id, "2026-05-10")


def interpreter(folder: Path, script: str) -> str:
    """Return an executable that replaces Python only for the training process."""
    file = folder / "python"
    real = f'exec {sys.executable} "$@"'
    file.write_text(f'#!/bin/sh\ncase "$2" in\nforecaster.training.train) {script};;\n*) {real};;\nesac\n', "utf-8")
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize(
    ("script", "hours", "message"),
    [
        ("kill -9 $$", 4, "the training process was killed (signal 9), as the system does when memory runs out"),
        ("exec sleep 300", 1e-4, "training took longer than schedule.max_training_hours (0.0001) and was stopped"),
        ("echo no such library >&2; exit 7", 4, "ended with exit code 7 and printed: no such library"),
        (
            """echo '["fault", ["TrainingError", "epoch 3 of 3: the loss is nan"]]'""",
            4,
            "epoch 3 of 3: the loss is nan",
        ),
    ],
)
@pytest.mark.long
def test_a_training_that_dies_hangs_or_diverges_costs_only_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, hours: float, message: str
) -> None:
    file = pipeline(tmp_path, f"schedule: {{max_training_hours: {hours}}}\n")
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, script))
    night = nightly(file)
    assert message in str(night.message)
    assert str(night.message).startswith("no model could be made tonight: ")
    assert ended(file) == ("degraded", 3)
    head = published_head(file)
    assert head is not None
    assert (head.run_id, head.tier) == (night.run_id, "fallback")


ERRORS = (TrainingError("it diverged"), ExportError("it differs"), MemoryError("none left"))


def raising(error: Exception) -> Callable[..., Any]:
    def stage(*_: Any) -> Any:
        raise error

    return stage


@pytest.mark.parametrize(
    ("stage", "error"),
    [
        pytest.param(stage, error, marks=[] if number % len(ERRORS) == place else pytest.mark.exhaustive)
        for number, stage in enumerate(("train", "backtest", "gate", "export", "record", "promote"))
        for place, error in enumerate(ERRORS)
    ],
)
@pytest.mark.long
def test_predicts_after_any_failure_between_panel_and_prediction(tmp_path: Path, stage: str, error: Exception) -> None:
    """Uses a line with stages that do nothing, except one that fails."""
    nothing = dict.fromkeys(("ingest", "train", "record", "register", "promote"), lambda *_: None)
    stages: dict[str, Any] = {"panel": lambda *_: (None, None), "export": lambda *_: "a bundle"}
    stages |= {"gate": lambda *_: SimpleNamespace(admitted=True), "backtest": lambda *_: (None, None)}
    predicted: list[str] = []

    def predict(night: Night) -> None:
        predicted.append(night.run_id)
        night.exit_code = 3

    by = SimpleNamespace(**{**nothing, **stages, "predict": predict, stage: raising(error)})
    night = nightly(pipeline(tmp_path), by)
    assert predicted == [night.run_id]
    assert night.outcome == "degraded"
    assert str(error) in str(night.message)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.getuid() != 0:
        pytest.skip("only root may mount a small disk")
    process = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if process.returncode:
        pytest.skip(f"no small disk can be mounted here: {process.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def more_readings(file: Path) -> None:
    source = file.parent / "demand.csv"
    source.write_text(source.read_text("utf-8") + "".join(f"D{n},2026-05-10,31\n" for n in range(4)), "utf-8")


def fill(folder: Path) -> None:
    with (folder / "filling").open("wb", buffering=0) as out:
        try:
            while True:
                out.write(b"x" * 4096)
        except OSError:
            return


@pytest.mark.parametrize("trouble", ["full", "read-only"])
@pytest.mark.long
def test_reports_an_unwritable_lake_and_publishes_the_forecasts(small_disk: Path, trouble: str) -> None:
    file = pipeline(small_disk.parent, f"lake: {small_disk / 'lake'}\n", days=129)
    refresh(file)
    more_readings(file)
    if trouble == "full":
        fill(small_disk)
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    night = refresh(file)
    assert ended(file) == ("degraded", 3)
    assert "the sources could not be read: " in str(night.message)
    assert "the archive does not have these forecasts: lake table 'forecasts'" in str(night.message)
    head = published_head(file)
    assert head is not None
    assert (head.run_id, str(head.cutoff)) == (night.run_id, "2026-05-09")


FILLING = """
import sys
from pathlib import Path
from tests.flows import test_degraded as t
night = t.Night.begin(sys.argv[1], t.NIGHT, kind="refresh")
t.fill(Path(sys.argv[1]).parent / "disk")
sys.exit(night.run(lambda: t.lines.predict_only(night, t.steps)).exit_code)
"""


@pytest.mark.long
def test_a_ledger_on_a_full_disk_keeps_the_publication_and_the_next_run_closes_the_row(small_disk: Path) -> None:
    file = pipeline(small_disk.parent, f"ledger: sqlite:///{small_disk / 'ledger.db'}\n")
    first = refresh(file)
    process = subprocess.run([sys.executable, "-c", FILLING, str(file)], capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert "the outcome could not be written down: the ledger at " in process.stderr
    (small_disk / "filling").unlink()
    head = published_head(file)
    assert head is not None
    assert head.run_id == first.run_id
    assert refresh(file).exit_code == 3
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        assert [run.outcome for run in ledger.runs()][1] == "failed"


def test_a_refresh_has_the_same_findings_about_the_days_ahead_as_a_night(tmp_path: Path) -> None:
    depots = "depots: {source: {kind: csv, path: depots.csv}, columns: {opened: opened}}\n"
    file = pipeline(tmp_path, depots)
    (tmp_path / "depots.csv").write_text("depot_id,opened\nD0,\nD1,2126-01-01\nD2,\nD3,\n", "utf-8")
    by_refresh = [finding for finding in refresh(file).findings if finding.rule == "out_of_business"]
    without_training = SimpleNamespace(**vars(CHEAP) | {"train": lambda *_: (_ for _ in ()).throw(TrainingError("no"))})
    by_night = [finding for finding in nightly(file, without_training).findings if finding.rule == "out_of_business"]
    assert by_night == by_refresh
    assert len(by_refresh) == 1
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        rules = [[finding["rule"] for finding in run.findings] for run in ledger.runs("tiny")]
    assert [of_run.count("out_of_business") for of_run in rules] == [1, 1]
