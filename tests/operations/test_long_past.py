from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from forecaster.config import Spec, load
from forecaster.demand.ingest import ingest
from forecaster.errors import StaleHistory
from forecaster.ledger.store import Ledger
from forecaster.operations import long_past

NOW = datetime(2026, 11, 25, 9, tzinfo=UTC)
LAST = date(2024, 5, 30)


def spec_of(folder: Path, last: date = LAST, demand: str = "", more: tuple[str, ...] = (), kind: str = "csv") -> Spec:
    days = [last - timedelta(days=back) for back in range(40)]
    lines = ["depot_id,date,demand", *(f"A,{day},{day.day + 20}" for day in days), *more]
    (folder / "demand.csv").write_text("\n".join(lines) + "\n", "utf-8")
    if kind == "parquet":
        pd.read_csv(folder / "demand.csv").to_parquet(folder / "demand.parquet")
    text = f"name: t\ntimezone: Europe/Berlin\ndemand: {{source: {{kind: {kind}, path: demand.{kind}}}{demand}}}\n"
    (folder / "a pipeline.yaml").write_text(text, "utf-8")
    return load(folder / "a pipeline.yaml")


def sentence(spec: Spec, command: str = "run") -> str:
    with pytest.raises(StaleHistory) as refusal:
        long_past.refuse_archive(spec, Path("a pipeline.yaml"), command, now=NOW)
    return str(refusal.value)


def runs(spec: Spec) -> None:
    long_past.refuse_archive(spec, Path("a pipeline.yaml"), "run", now=NOW)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rejects_a_run_on_an_archive_with_the_command_to_type(tmp_path: Path, kind: str) -> None:
    spec = spec_of(tmp_path, kind=kind)
    assert sentence(spec) == (
        "a pipeline.yaml: the newest reading is of 2024-05-30, 909 days ago, and every day that could be forecast is "
        "over. For an archive, set demand.recorded: next_day, then type: forecaster run 'a pipeline.yaml' --as-of "
        "2024-05-31 (--as-of 2026-11-25 runs all the same)"
    )
    assert not spec.paths.folder.exists()


@pytest.mark.parametrize("demand", [", recorded: next_day", ", columns: {recorded_at: date}"])
def test_declared_archive_only_needs_the_as_of_option(tmp_path: Path, demand: str) -> None:
    message = sentence(spec_of(tmp_path, demand=demand), "predict-only")
    assert "For an archive, type: forecaster predict-only 'a pipeline.yaml' --as-of 2024-05-31" in message


@pytest.mark.parametrize("silent", [1, 14, 60])
def test_late_feed_is_accepted(tmp_path: Path, silent: int) -> None:
    runs(spec_of(tmp_path, NOW.date() - timedelta(days=silent)))


def test_future_days_and_days_without_counts_do_not_make_an_archive_newer(tmp_path: Path) -> None:
    assert "is of 2024-05-30" in sentence(spec_of(tmp_path, more=("A,2026-11-20,", "A,2027-05-01,5", "A,9999-12-31,5")))


def test_one_newer_count_is_enough(tmp_path: Path) -> None:
    runs(spec_of(tmp_path, more=("B,2026-11-20,5",)))


def test_unreadable_days_or_a_missing_source_are_left_to_the_run(tmp_path: Path) -> None:
    runs(spec_of(tmp_path, more=tuple(f"A,{day}.11.2026,5" for day in range(1, 25))))
    spec = spec_of(tmp_path)
    (tmp_path / "demand.csv").unlink()
    runs(spec)


def test_slow_source_is_left_to_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_past, "MOST_SECONDS", -1.0)
    runs(spec_of(tmp_path))


def note_night(spec: Spec, as_of: datetime, begun: datetime) -> None:
    with Ledger.open(spec.ledger_url) as ledger:
        arguments: dict[str, Any] = {"pipeline": spec.name, "as_of": as_of, "spec_digest": spec.digest, "at": begun}
        ledger.start_run("a run", **arguments)
        ledger.finish_run("a run", "degraded", 3, None)


def test_pipeline_that_published_on_time_is_not_an_archive(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    note_night(spec, NOW - timedelta(days=90), NOW - timedelta(days=90))
    runs(spec)


def test_days_of_a_wide_table_are_recognized(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    (tmp_path / "demand.csv").write_text("date,A,B\n2024-05-29,5,6\n2024-05-30,,7\n2024-05-31,,\n", "utf-8")
    text = (tmp_path / "a pipeline.yaml").read_text("utf-8").replace("demand.csv}", "demand.csv, wide: depots}")
    (tmp_path / "a pipeline.yaml").write_text(text, "utf-8")
    assert "is of 2024-05-30" in sentence(load(spec.folder / "a pipeline.yaml"))


def test_run_as_of_a_past_day_keeps_it_an_archive(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    note_night(spec, datetime(2024, 5, 31, 1, 15, tzinfo=UTC), NOW - timedelta(days=1))
    assert "--as-of 2024-05-31" in sentence(spec)


def test_newer_readings_in_the_lake_rule_out_an_archive(tmp_path: Path) -> None:
    ingest(spec_of(tmp_path, NOW.date() - timedelta(days=3)), now=NOW)
    runs(spec_of(tmp_path))


def test_readings_known_from_arrival_require_another_lake(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    ingest(spec, now=NOW)
    assert f"next_day and another `lake` than {spec.lake_url}" in sentence(spec)
