"""Singular forms on every page: one depot with one order, one driver, one day and one run."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from dashboards.ops.app import create_app
from dashboards.ops.views.catalogue import VIEWS
from forecaster.config import Spec, load
from forecaster.core.knowledge import Finding
from forecaster.ledger import accuracy
from forecaster.ledger.accuracy import ALL, FORECAST, HORIZON, NAIVE, Tally
from forecaster.ledger.publication import Publication, PublishedDepot, PublishedRoster, PublishedTotal, RecentDay
from forecaster.ledger.store import Ledger
from forecaster.planning import override_table
from forecaster.planning.overrides import ProposedOverride
from tests.dashboards.seed import CUTOFF, NOON, PUBLISHED, depot, fill, publication, with_plans
from tests.dashboards.visitor import ask_locally, text
from tests.nouns import wrong_plurals

DAY = CUTOFF + timedelta(days=1)


def _one(run_id: str, day: date, **changes: object) -> Publication:
    """Return a publication of one depot with one expected order on one day, for one driver in one
    van."""
    whole = depot(0)
    roster = PublishedRoster(1, 0.1, 1.0, 1.0, 1.0, (("BOS-02", 1),), ())
    ahead = replace(whole.days[0], target_date=day, quantiles=(1.0,) * 5, drivers=1, roster=roster)
    recent = RecentDay(day - timedelta(days=1), None, True)
    member = PublishedDepot(whole.depot_id, (ahead,), (recent,), whole.attributes, whole.marks)
    totals = tuple(PublishedTotal(city, day, (1.0,) * 5) for city in ("", "Boston"))
    edition = publication(1, run_id=run_id, horizon=1, totals=totals, cutoff=day - timedelta(days=1))
    return replace(edition, depots=(member,), **changes)  # type: ignore[arg-type]


@pytest.fixture
def spec(url: str, tmp_path: Path) -> Spec:
    file = tmp_path / "pipeline.yaml"
    source = "demand: {source: {kind: csv, path: demand.csv}}"
    file.write_text(f"name: harbor-fleet\n{source}\nstate: .\nledger: {url}\noverrides: {{min_days: 1}}\n", "utf-8")
    return load(file)


def _fill(url: str) -> None:
    before = _one("night-0", DAY - timedelta(days=1), published_at=PUBLISHED - timedelta(days=1))
    fill(url, before, with_plans(_one("night-1", DAY)))
    found = [Finding("late", "warn", 1, "one row"), Finding("count_negative", "quarantine", 1, "one row")]
    with Ledger.open(url) as ledger:
        ledger.note("night-1", findings=found, timings={"ingest": 1.0, "night": 1.0})
        ledger.finish_run("night-1", "published", 0, "1 depot", "fresh", at=datetime(2025, 6, 17, 8, tzinfo=UTC))
        week = [
            Tally(date(2025, 6, 9), model, part, label, 1, 1.0, 1.0, 1.0, 1 if model == FORECAST else None)
            for model in (FORECAST, NAIVE)
            for part, label in ((ALL, ""), (HORIZON, "01"), (HORIZON, "02"))
        ]
        with ledger.transaction() as connection:
            accuracy.replace_weeks(connection, "harbor-fleet", [week[0].week], week)
            wish = ProposedOverride("BOS-01", DAY, 1, "weather", "Ana")
            override = override_table.write(connection, "harbor-fleet", wish, PUBLISHED)
            override_table.record_model_orders(connection, "harbor-fleet", [DAY], {override.id: 2.0})
            override_table.record_actuals(connection, {override.id: 1.0})


def test_every_page_uses_singular_forms_for_one(url: str, spec: Spec) -> None:
    _fill(url)
    app = create_app(url, pipeline="harbor-fleet", clock=lambda: NOON, spec=spec)
    pages = sorted({view.page for view in VIEWS if view.page} - {"/roster"})  # no shifts are declared here
    pages += [
        "/depot/BOS-01",
        f"/day/{DAY}/BOS-01",
        "/overrides",
        "/?q=BOS",
        "/wall?city=Boston",
        "/?city=Boston&sort=city",
    ]
    for page in pages:
        answer = ask_locally(app, "GET", page)
        assert answer.status_code == 200, page
        assert wrong_plurals(text(answer)) == [], page
        titles = re.findall(r'<title>(.*?)</title>|aria-label="([^"]*)"', answer.text)
        assert wrong_plurals(" . ".join(map("".join, titles))) == [], page
    saved = ask_locally(
        app,
        "POST",
        "/api/v1/overrides",
        json={"depot_id": "BOS-01", "target_date": str(DAY), "orders": 1, "by": "Ana", "reason": "weather"},
    )
    assert wrong_plurals(saved.json()["said"]) == []


def test_detects_wrong_plurals() -> None:
    assert wrong_plurals("1 depots, 21 depots, 0.1 orders; 1 of 2 vans; 1 is, 1 s") == ["1 depots"]
