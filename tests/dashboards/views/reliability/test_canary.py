"""Pages show where a canary model runs, and its result."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboards.ops.app import create_app
from dashboards.ops.views.reliability.canary import canary_line
from forecaster.core.forecast import CanaryTrial
from forecaster.ledger.store import GATE, Ledger
from forecaster.ledger.trials import canaries
from tests.dashboards.seed import NOON, PUBLISHED, fill, publication
from tests.dashboards.visitor import ask_locally, text


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A publication whose first depot has the canary `c1`."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    first, *others = publication().depots
    fill(url, replace(publication(), depots=(replace(first, bundle_digest="c1"), *others)))
    with Ledger.open(url) as ledger:
        run = ledger.runs()[0].run_id
        ledger.promote("harbor-fleet", run_id=run, bundle_digest="b0", by=GATE, reason="first", at=PUBLISHED)
        with ledger.transaction() as connection:
            canaries.start(
                connection,
                "harbor-fleet",
                run_id=run,
                bundle_digest="c1",
                cohort=[first.depot_id],
                now=PUBLISHED - timedelta(days=2),
            )
    return url


def test_only_the_canarys_depots_mention_it(url: str) -> None:
    page = create_app(url, pipeline="harbor-fleet", clock=lambda: NOON)
    first, second = (depot.depot_id for depot in publication().depots[:2])
    sentence = "A new model is on trial at this depot"
    assert sentence in text(ask_locally(page, "GET", f"/depot/{first}"))
    assert sentence not in text(ask_locally(page, "GET", f"/depot/{second}"))


@pytest.mark.parametrize("address", ["/champion", "/health"])
def test_champion_and_health_pages_show_its_status(url: str, address: str) -> None:
    page = create_app(url, pipeline="harbor-fleet", clock=lambda: NOON)
    first = publication().depots[0].depot_id
    words = text(ask_locally(page, "GET", address))
    assert "New model on trial in progress c1" in words
    assert f"Tried at {first} Compared on 0 days" in words


def test_pages_do_not_mention_a_canary_without_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, publication())
    page = create_app(url, pipeline="harbor-fleet", clock=lambda: NOON)
    assert "New model on trial" not in text(ask_locally(page, "GET", "/champion"))
    assert canary_line(None, None) is None


def test_many_depots_are_counted(url: str) -> None:
    with Ledger.open_reader(url) as ledger, ledger.transaction() as connection:
        trial = canaries.running(connection, "harbor-fleet")
    assert isinstance(trial, CanaryTrial)
    many = replace(
        trial, cohort=frozenset(f"D{number:02d}" for number in range(20)), state="rolled_back", reason="6 % worse"
    )
    line = canary_line(many, None)
    assert line is not None
    assert (line.state, line.quality, line.reason) == ("withdrawn", "bad", "6\N{NO-BREAK SPACE}% worse")
    assert line.depots.startswith("D00, D01, ")
    assert line.depots.endswith("8 more")
