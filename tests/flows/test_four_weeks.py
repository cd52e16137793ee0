"""A run with a horizon of four weeks: all days are forecast, rostered and shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from flows import catch_up, lines, steps
from flows.night import Night
from forecaster.config import load
from forecaster.core.forecast import Candidate
from forecaster.core.knowledge import Knowledge
from forecaster.core.panel import Panel
from forecaster.ledger.store import Ledger
from tests.calls import predict_in_this_process
from tests.dashboards.visitor import visitor
from tests.fleets import untrained
from tests.flows.tiny import DAYS, FIRST, NIGHT, pipeline

HISTORY = 200  # days
AT = NIGHT + timedelta(HISTORY - DAYS)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a pipeline after one run with an untrained network and without MLflow, and the night
    before made up for."""
    file = pipeline(tmp_path_factory.mktemp("four-weeks"), "horizon: 28\n", days=HISTORY)

    def train(_: Night, panel: Panel, __: Knowledge) -> Candidate:
        candidate = untrained(panel)
        return replace(candidate, summary={**candidate.summary, "validated_until": str(FIRST)})

    by = SimpleNamespace(**{**vars(steps), "train": train, "record": lambda *_: None, "register": lambda *_: None})
    with pytest.MonkeyPatch.context() as patch:
        predict_in_this_process(patch)
        night = Night.begin(str(file), AT)
        night.run(lambda: lines.nightly(night, by))  # type: ignore[arg-type]
        assert night.exit_code == 0, night.message
        catch_up.publish_past_nights(night, 1)
    return file


def test_each_depot_has_four_weeks_with_a_roster_and_the_network_a_total_of_each_day(file: Path) -> None:
    spec = load(file)
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        assert head is not None
        kinds = [(run.kind, run.as_of, run.outcome) for run in ledger.runs(spec.name)]
        depots, totals = ledger.depots(head.publication_id), ledger.totals(head.publication_id)
    past = [("backfill", at, "published") for at in (AT, AT - timedelta(1))]  # the run's own is published once more
    assert kinds == [*past, ("night", AT, "published")]
    first = AT.date()
    for depot in depots:
        assert [day.target_date for day in depot.days] == [first + timedelta(ahead) for ahead in range(28)]
        assert [day.horizon for day in depot.days] == [*range(1, 29)]
        assert all(day.drivers is not None and day.drivers > 0 for day in depot.days)
        # The data repeat weekly, so each week ahead must equal the first.
        medians = np.array([day.quantiles[1] for day in depot.days]).reshape(4, 7)
        np.testing.assert_allclose(medians, np.broadcast_to(medians[0], (4, 7)), rtol=0.1)
    assert {total.target_date for total in totals} == {first + timedelta(ahead) for ahead in range(28)}


def test_every_page_shows_four_weeks(file: Path) -> None:
    get = visitor(load(file).ledger_url, AT + timedelta(hours=5))
    last = (AT + timedelta(27)).date()
    for address in ("/", "/depot/D1", "/?week=4", "/accuracy", "/wall", "/health", "/champion", "/value"):
        response = get(address)
        assert response.status_code == 200, address
    assert f"{last:%-d} {last:%b}" in get("/depot/D1").text
    assert len(get("/api/v1/depots/D1").json()["days"]) == 28
