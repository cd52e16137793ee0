from __future__ import annotations

import csv
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml

from forecaster.check.dry_run import check
from forecaster.config import Spec, load
from forecaster.errors import SpecError
from forecaster.operations import starter

END = date(2026, 3, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    new = tmp_path_factory.mktemp("a new") / "fleet"
    starter.create(new, end=END)
    return new


def expected_last_day() -> date:
    return (datetime.now(ZoneInfo("America/New_York")) - starter.EXPORTED).date() - timedelta(days=1)


def test_the_folder_holds_a_pipeline_file_and_its_sources(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["demand.csv", "depots.csv", "events.csv", "pipeline.yaml"]


def test_the_pipeline_file_is_valid_and_its_sources_are_usable(folder: Path) -> None:
    trial = check(load(folder / "pipeline.yaml"), now=datetime(2026, 3, 2, 12, tzinfo=UTC))
    assert trial.fault is None
    assert trial.profile is not None
    assert (trial.profile.depots, trial.profile.cutoff) == (64, END)
    assert trial.ingested is not None
    assert {finding.severity for finding in trial.ingested.findings} == {"quarantine"}
    assert not (folder / "var").exists()


def test_the_pipeline_file_shows_every_section(folder: Path) -> None:
    sections = yaml.safe_load((folder / "pipeline.yaml").read_text("utf-8"))
    # Not needed to start: places have defaults; the other sections are documented in docs/.
    left_out = {
        "fleet",
        "lake",
        "ledger",
        "registry",
        "page",
        "execution",
        "legacy",
        "encrypt_bundles",
        "slo",
        "canary",
    }
    assert set(Spec.model_fields) - set(sections) == left_out


def test_without_an_end_the_sample_ends_yesterday(tmp_path: Path) -> None:
    before = expected_last_day()
    starter.create(tmp_path)
    with (tmp_path / "demand.csv").open(encoding="utf-8") as file:
        today = expected_last_day() + timedelta(days=1)
        last = max(row["day"] for row in csv.DictReader(file) if row["day"] <= today.isoformat())
    assert before.isoformat() <= last <= expected_last_day().isoformat()


def test_next_steps_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    instructions = starter.create(tmp_path / "a new one", end=END)
    assert f"forecaster check '{tmp_path}/a new one/pipeline.yaml'" in instructions


def test_rejects_a_nonempty_folder(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear", "utf-8")
    for occupied in (tmp_path, tmp_path / "letter.txt"):
        with pytest.raises(SpecError, match="is not an empty folder; wanted a new one"):
            starter.create(occupied)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_uncreatable_folder_is_reported_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear", "utf-8")
    with pytest.raises(SpecError, match="cannot be written: Not a directory; wanted a folder of yours"):
        starter.create(tmp_path / "letter.txt" / "below")


@pytest.mark.parametrize("ahead", [0, 1, 400])
def test_rejects_a_sample_that_ends_in_the_future(tmp_path: Path, ahead: int) -> None:
    today = datetime.now(ZoneInfo("America/New_York")).date()
    with pytest.raises(SpecError, match=r"--end: found .*, wanted a day that is over in America/New_York, such as"):
        starter.create(tmp_path / "fleet", end=today + timedelta(days=ahead))
    assert not (tmp_path / "fleet").exists()


def test_commands_for_a_past_sample_include_as_of(tmp_path: Path) -> None:
    instructions = starter.create(tmp_path / "fleet", end=date(2024, 5, 30))
    assert instructions.count("pipeline.yaml --as-of 2024-05-31 ") == 2
