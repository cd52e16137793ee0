"""Items past their retention are removed; items in use, or of another pipeline, stay."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from forecaster.config import Spec, load
from forecaster.lake import TABLES, Lake
from forecaster.ledger.store import Ledger
from forecaster.operations import retention

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    file = tmp_path / "pipeline.yaml"
    file.write_text("name: fleet\ndemand: {source: {kind: csv, path: demand.csv}}\n", "utf-8")
    return load(file)


def write_aged(path: Path, days_ago: int, content: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, "utf-8")
    at = (NOW - timedelta(days=days_ago)).timestamp()
    os.utime(path, (at, at))
    os.utime(path.parent, (at, at))
    return path


def bundle(spec: Spec, name: str, days_ago: int, pipeline: str = "fleet") -> Path:
    return write_aged(spec.paths.bundle(name) / "manifest.json", days_ago, json.dumps({"pipeline": pipeline}))


def run(ledger: Ledger, name: str, days_ago: int) -> None:
    at = NOW - timedelta(days=days_ago)
    ledger.start_run(name, pipeline="fleet", as_of=at, spec_digest="5pec", at=at)
    ledger.finish_run(name, "published", 0, at=at)


def test_only_old_unused_items_are_removed(spec: Spec) -> None:
    with Ledger.open(spec.ledger_url) as ledger:
        for name, days_ago in (("ancient", 500), ("promoting", 500), ("last-year", 300), ("now", 0)):
            run(ledger, name, days_ago)
        ledger.promote("fleet", run_id="promoting", bundle_digest="reigned", by="gate", reason="better")
    expired = [
        bundle(spec, "never-reigned", 31),
        write_aged(spec.paths.checkpoints / "7" / "manifest.json", 15),
        write_aged(spec.paths.backtest_checkpoints / "7" / "manifest.json", 15),
        write_aged(spec.paths.profiles / "night" / "trace", 31),
        write_aged(spec.paths.registry_outbox / "night.new" / "record.json", 2),
        write_aged(spec.paths.bundles / ".bundle-half" / "model.onnx", 2),
    ]
    retained = [
        bundle(spec, "reigned", 400),
        bundle(spec, "young", 29),
        bundle(spec, "anothers", 400, "other-fleet"),
        write_aged(spec.paths.checkpoints / "9" / "manifest.json", 13),
        write_aged(spec.paths.registry_outbox / "night" / "record.json", 40),
        write_aged(spec.paths.registry_outbox / "being-written.new" / "record.json", 0),
    ]
    counts = retention.tidy(spec, now=NOW, keep="now")
    assert [path for path in expired if path.exists()] == []
    assert [path for path in retained if not path.exists()] == []
    assert (counts.bundles, counts.checkpoints, counts.caches, counts.leftovers, counts.runs) == (1, 2, 1, 2, 1)
    with Ledger.open_reader(spec.ledger_url) as ledger:
        assert {run_row.run_id for run_row in ledger.runs()} == {"promoting", "last-year", "now"}


def test_small_lake_files_are_compacted_without_losing_rows(spec: Spec) -> None:
    lake = Lake(spec.lake_url)
    for number in range(5):
        row = {"alias": f"a{number}", "depot_id": "D1", "retracted": False, "recorded_at": NOW}
        lake.append("aliases", pa.Table.from_pylist([row], schema=TABLES["aliases"]))
    counts = retention.tidy(spec, now=NOW, keep="now")
    assert counts.files == (5, 1)
    assert len(lake.read("aliases")) == 5
    assert counts.sentence().endswith("the lake has 1 file, had 5")


def test_half_written_files_of_a_killed_run_are_swept_at_once(spec: Spec) -> None:
    half = [
        write_aged(spec.paths.bundles / ".bundle-half" / "model.onnx", 0),
        write_aged(spec.paths.saved_inputs / ".desk-half", 0),
        write_aged(spec.paths.registry_outbox / ".told" / "record.json", 0),
    ]
    whole = bundle(spec, "whole", 0)
    retention.sweep(spec)
    assert not any(path.exists() for path in half)
    assert whole.exists()
