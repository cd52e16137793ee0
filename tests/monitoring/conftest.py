"""A pipeline whose ledger has one publication, one night with measures, and three weeks of scored
forecasts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forecaster.config import Spec, load
from forecaster.ledger.store import Ledger
from tests.dashboards.seed import PUBLISHED, fill, publication, remember

NOON = datetime(2025, 6, 17, 16, 0, tzinfo=UTC)  # in New York, where the night began at 03:15
MEASURES = {
    "training_seconds": 30.0,
    "compile_hits": 19,
    "compile_misses": 1,
    "peak_memory_bytes": {"night": 5e8, "training": 9e8},
    "rows": {"accepted": 640, "quarantined": 3},
    "versions": {"jax": "0.10.2"},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "name: harbor-fleet\ntimezone: America/New_York\ndemand: {source: {kind: csv, path: demand.csv}}\n", "utf-8"
    )
    return path


@pytest.fixture
def spec(file: Path) -> Spec:
    """Return the pipeline before its first night."""
    return load(file)


@pytest.fixture
def ledger(spec: Spec) -> Ledger:
    """Return its ledger after a night."""
    fill(spec.ledger_url, publication())
    remember(spec.ledger_url)
    opened = Ledger.open(spec.ledger_url)
    end(opened, "night-1", PUBLISHED, 120.0)
    opened.note("night-1", timings={"train": 31.5, "predict": 2.5, "night": 120.0}, measures=MEASURES)
    return opened


def end(ledger: Ledger, run_id: str, finished: datetime, seconds: float) -> None:
    """End a run with this duration as published."""
    from forecaster.ledger import tables

    ledger.finish_run(run_id, "published", 0, at=finished)
    begun = finished - timedelta(seconds=seconds)
    with ledger.transaction() as connection:
        of_run = tables.runs.update().where(tables.runs.c.run_id == run_id)
        connection.execute(of_run.values(started_at=begun, as_of=begun))
