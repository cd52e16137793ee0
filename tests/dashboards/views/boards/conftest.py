"""A pipeline with five nights that measured themselves, one of them without a training, and a reader of its ledger."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pytest

from dashboards.ops.app import create_app
from dashboards.ops.reading.editions import Logbook
from dashboards.ops.reading.store import PublicationStore
from forecaster.config import Spec, load
from forecaster.ledger import tables, value
from forecaster.ledger.publication import PublishedTotal
from forecaster.ledger.store import Ledger
from forecaster.ledger.value import ValuedDay, WayCost
from tests.dashboards.seed import CUTOFF, NOON, PUBLISHED, fill, publication, remember
from tests.dashboards.visitor import ask_locally, text

Read = Callable[[str], str]
PIPELINE = "name: harbor-fleet\ntimezone: America/New_York\ndemand: {source: {kind: csv, path: demand.csv}}\n"
VERSIONS = {"jax": "0.10.2", "depots": 6}
ASIDE = {"rule": "count_negative", "severity": "quarantine", "count": 3, "message": "BOS-01 has a count below 0"}


def measures(night: int) -> dict[str, object]:
    """What a night writes down: the third trained nothing, the last found all of its programs in the cache."""
    of_all = {"peak_memory_bytes": {"night": 1.5e9, "predict": 3e8}, "cpu_seconds": {"night": 12.0}, "parity": 2e-6}
    if night == 2:
        return of_all
    programs = {"compile_seconds": 30.0 if night < 4 else 1.0, "training_seconds": 60.0}
    programs |= {"compile_hits": 26 if night == 4 else 0, "compile_misses": 0 if night == 4 else 26}
    return {**of_all, **programs, "versions": VERSIONS, "training_rows_per_second": 5000.0}


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE, "utf-8")
    loaded = load(file)
    days = [CUTOFF + timedelta(days=ahead) for ahead in range(1, 8)]
    totals = tuple(PublishedTotal("", day, (800.0, 900.0, 1000.0, 1100.0, 1200.0)) for day in days)
    fill(loaded.ledger_url, publication(totals=totals))
    remember(loaded.ledger_url)
    with Ledger.open(loaded.ledger_url) as ledger:
        for night in range(5):
            begun = PUBLISHED - timedelta(days=4 - night, minutes=2)
            run_id = "night-1" if night == 4 else f"past-{night}"
            if night < 4:
                ledger.start_run(run_id, pipeline=loaded.name, as_of=begun, spec_digest="5pec", at=begun)
                ledger.finish_run(
                    run_id, "degraded" if night == 1 else "published", 0, at=begun + timedelta(seconds=100)
                )
            seconds = {"train": 60.0 + night, "predict": 2.0, "night": 100.0}
            ledger.note(run_id, timings=seconds, measures=measures(night), findings=[ASIDE] if night else [])
        with ledger.transaction() as connection:
            of_last = tables.runs.update().where(tables.runs.c.run_id == "night-1")
            begun = PUBLISHED - timedelta(minutes=2)
            connection.execute(
                of_last.values(started_at=begun, as_of=begun, finished_at=begun + timedelta(seconds=300))
            )
            valued = [CUTOFF - timedelta(days=back) for back in range(21)]
            value.replace_days(connection, loaded.name, map(_valued, valued), _costs(valued), keep_from=valued[-1])
    return loaded


def _valued(day: date) -> ValuedDay:
    return ValuedDay(day, "b", "EUR", False, 0, "1", (1.0,))


def _costs(days: list[date]) -> list[WayCost]:
    ways = ((value.PUBLISHED, 10.0), (value.LAST_WEEK, 15.0), (value.FORESIGHT, 4.0), (value.MORE_VANS, 1.0))
    return [WayCost(day, city, way, cost, 1, 1, 5, 2) for day in days for city in ("Ulm", "York") for way, cost in ways]


@pytest.fixture
def read(spec: Spec) -> Read:
    """The words of a page."""
    app = create_app(spec.ledger_url, pipeline=spec.name, clock=lambda: NOON, spec=spec)
    return lambda path: text(ask_locally(app, "GET", path))


@pytest.fixture
def book(spec: Spec) -> Callable[[frozenset[str] | None], Logbook]:
    """What is read by whoever sees some cities, or all."""
    from dataclasses import replace

    def logbook(cities: frozenset[str] | None) -> Logbook:
        store = PublicationStore(spec.ledger_url, spec.name, lambda: NOON, "")
        return replace(store.logbook(cities), spec=spec)

    return logbook
