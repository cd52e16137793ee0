"""The health page shows service objectives, their status, and the reason for frozen promotions."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

from dashboards.ops.app import create_app
from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.views.reliability.promises import promises
from forecaster.config import load
from forecaster.ledger import accuracy
from forecaster.ledger.accuracy import Tally
from forecaster.ledger.store import Ledger
from tests.dashboards.seed import NOON, fill, publication, remember
from tests.dashboards.visitor import ask_locally, text

PIPELINE = "name: harbor-fleet\ntimezone: America/New_York\ndemand: {source: {kind: csv, path: demand.csv}}\n"


def test_the_page_shows_a_broken_objective_and_the_resulting_freeze(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE + "slo: {bias: 0.01}\n", "utf-8")
    spec = load(file)
    fill(spec.ledger_url, publication())
    remember(spec.ledger_url)
    monday = date(2025, 6, 9)
    rows = [
        Tally(monday - timedelta(weeks=number), accuracy.FORECAST, part, label, 100, 1000.0, -20.0, 90.0, 80)
        for number in range(4)
        for part, label in ((accuracy.ALL, ""), (accuracy.WEEKDAY, "Mon"), (accuracy.WEEKDAY, "Tue"))
    ]
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        accuracy.replace_weeks(connection, spec.name, sorted({row.week for row in rows}), rows)
    page = create_app(spec.ledger_url, pipeline=spec.name, clock=lambda: NOON, spec=spec)
    seen_by_all = text(ask_locally(page, "GET", "/health"))
    assert "Service level objectives" in seen_by_all
    assert "Off by at most 1.0% in sum broken -100 % 2.0 -2.0%" in seen_by_all
    assert (
        "Promotions are frozen; missed objectives: off by at most 1.0% in sum, and it is -2.0%. The champion"
        in seen_by_all
    )
    store = PublicationStore(spec.ledger_url, spec.name, lambda: NOON, "")
    assert promises(store.logbook(), spec) is not None
    assert promises(store.logbook(frozenset({"Boston"})), spec) is None  # a reader of one city
    assert promises(store.logbook(), spec.model_copy(update={"slo": None})) is None
    store.close()
