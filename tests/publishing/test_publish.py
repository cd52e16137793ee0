"""Publishing: steps that only explain, look back or clean up never block a forecast."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from forecaster.config import Legacy, Spec
from forecaster.demand.ingest import ingest
from forecaster.ledger import accuracy
from forecaster.ledger.accuracy import ALL, LEGACY
from forecaster.ledger.store import Ledger
from forecaster.planning import saved_inputs
from forecaster.publishing.forecast import ModelChoice
from forecaster.publishing.outcome import PublishedForecast, Troubles
from forecaster.publishing.publish import publish, tell_of_namesake
from tests.dashboards.seed import depot, fill, publication
from tests.demand.history.test_past_panels import FIRST, LAST, TONIGHT, days, write
from tests.staffing.test_rosters import DEPOTS, spec_of

FALLBACK = ModelChoice(None, "seasonal naive", "fallback")


def one_day_later(spec: Spec) -> PublishedForecast:
    return publish(spec, FALLBACK, as_of=TONIGHT + timedelta(days=1), run_id="second")


def published(folder: Path) -> Spec:
    """Pipeline of two depots, published once."""
    rows = (f"{depot},{day},{count}" for depot, count in (("A", 40), ("B", 10)) for day in days(FIRST, LAST))
    write(folder, "demand", "depot_id,date,demand", *rows)
    write(folder, "depots", "depot_id,city,vans", "A,Ulm,3", "B,Ulm,3")
    spec = spec_of(folder, DEPOTS)
    ingest(spec, now=TONIGHT)
    with Ledger.open(spec.ledger_url) as ledger:
        for day, run in enumerate(("first", "second")):
            as_of = TONIGHT + timedelta(days=day)
            ledger.start_run(run, pipeline=spec.name, as_of=as_of, spec_digest=spec.digest)
    assert publish(spec, FALLBACK, as_of=TONIGHT, run_id="first").trouble is None
    return spec


def test_forecast_is_published_even_if_its_change_cannot_be_explained(tmp_path: Path) -> None:
    spec = published(tmp_path)
    folder = spec.paths.saved_inputs
    with Ledger.open(spec.ledger_url) as ledger:
        inputs = saved_inputs.read(folder, *ledger.desks())
        # The inputs of the night before cover other years than the current history.
        elsewhere = replace(inputs.panel, days=inputs.panel.days - np.timedelta64(9999, "D"))
        name = saved_inputs.write(folder, replace(inputs, panel=elsewhere))
        with ledger.transaction() as connection:
            connection.execute(sa.text("UPDATE publications SET desk = :name"), {"name": name})
    outcome = one_day_later(spec)
    assert outcome.publication_id == 2
    assert outcome.trouble is not None
    assert outcome.trouble.startswith("the reasons for changes are not computed: ")


def test_forecast_is_published_even_if_old_inputs_cannot_be_removed(tmp_path: Path) -> None:
    spec = published(tmp_path)
    (spec.paths.saved_inputs / "in_the_way.npz").mkdir()
    outcome = one_day_later(spec)
    assert outcome.publication_id == 2
    assert outcome.trouble is not None
    assert outcome.trouble.startswith("inputs of earlier nights were not removed: ")


def test_fleet_too_large_for_the_page_gives_a_note_and_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = published(tmp_path)
    monkeypatch.setattr(saved_inputs, "MAX_BYTES", 1000)
    outcome = one_day_later(spec)
    assert (outcome.publication_id, outcome.trouble) == (2, None)
    assert outcome.note is not None
    assert "more than the page's limit (1,000): what-ifs and immediate overrides are not available." in outcome.note


def test_run_compares_the_legacy_system_and_publishes_without_it(tmp_path: Path) -> None:
    spec = published(tmp_path)
    legacy = Legacy.model_validate({"source": {"kind": "csv", "path": "old.csv"}, "columns": {"date": "day"}})
    spec = spec.model_copy(update={"legacy": legacy})
    write(tmp_path, "demand", "depot_id,date,demand", "A,2024-03-11,44", "B,2024-03-11,12")
    ingest(spec, now=TONIGHT + timedelta(days=1))
    outcome = one_day_later(spec)
    assert outcome.publication_id == 2
    assert outcome.trouble is not None
    assert outcome.trouble.startswith("the legacy system is not compared: ")
    assert "old.csv: no such file" in outcome.trouble
    write(tmp_path, "old", "depot_id,day,forecast", "A,2024-03-11,50", "B,2024-03-11,lots")
    assert one_day_later(spec).trouble is None
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        [whole] = [
            entry for entry in accuracy.all_tallies(connection, spec.name) if (entry.model, entry.part) == (LEGACY, ALL)
        ]
        [finding] = [entry for entry in ledger.run("second").findings if entry["rule"] == "legacy_form"]
    assert (whole.days, whole.actual, whole.error) == (1, 44.0, 6.0)
    assert finding["message"].startswith("old.csv:3: column 'forecast': found 'lots'")


def test_name_clash_of_two_pipelines_in_one_ledger_is_reported(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, publication(2))
    tonight = publication(3)
    others = replace(tonight, depots=(depot(0, "XYZ-01"),))
    with Ledger.open(url) as ledger:
        for whole, expected in (
            (tonight, None),
            (others, "has none of these depots"),
            (replace(others, pipeline="x"), None),
        ):
            troubles = Troubles()
            tell_of_namesake(ledger, whole, troubles)
            assert troubles.summary is None if expected is None else expected in str(troubles.summary)
