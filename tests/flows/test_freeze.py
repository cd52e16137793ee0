"""A run promotes nothing while an accuracy objective is broken, and explains how to override that."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows import steps
from flows.night import Night
from forecaster.config import load
from forecaster.ledger import accuracy
from forecaster.ledger.accuracy import Tally
from forecaster.ledger.store import GATE, Ledger
from tests.flows.tiny import LAST, NIGHT, pipeline

PANEL: Any = None  # only needed for a canary's depots; none is declared


def exported(digest: str) -> Any:
    return SimpleNamespace(folder=Path(digest))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a pipeline with champion `b0`, whose intervals covered half of the actuals in four
    weeks."""
    path = pipeline(tmp_path, "slo: {}\n")
    spec, monday = load(path), accuracy.monday(date.fromisoformat(str(LAST)))
    rows = [
        Tally(monday - timedelta(weeks=number), accuracy.FORECAST, part, label, 100, 1000.0, 0.0, 90.0, 50)
        for number in range(4)
        for part, label in ((accuracy.ALL, ""), (accuracy.WEEKDAY, "Mon"), (accuracy.WEEKDAY, "Tue"))
    ]
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        accuracy.replace_weeks(connection, spec.name, sorted({row.week for row in rows}), rows)
    with Ledger.open(spec.ledger_url) as ledger:
        before = NIGHT - timedelta(days=40)
        ledger.start_run("first", pipeline=spec.name, as_of=before, spec_digest="5pec", at=before)
        ledger.promote(spec.name, run_id="first", bundle_digest="b0", by=GATE, reason="admitted", at=before)
        ledger.finish_run("first", "published", 0, at=before)
    return path


def test_a_new_model_waits_but_the_champion_can_be_confirmed(file: Path) -> None:
    night = Night.begin(str(file), NIGHT)
    with night.ends_in_an_outcome():
        steps.promote(night, exported("b0"), PANEL)
        assert night.message is None
        steps.promote(night, exported("b1"), PANEL)
        night.settle(
            {"tier": "champion", "note": None, "trouble": None, "remark": None, "bundle_digest": "b0", "depots": 4}
            | {"model": "tiny b0", "publication_id": 1}
        )
    assert (night.outcome, night.promoted) == ("degraded", None)
    assert night.message == (
        "not promoted: promotions are frozen; missed objectives: 74% to 86% within the 80 % range, and it is 50.0%; "
        "`forecaster promote FILE b1 --reason …` lets it forecast"
    )
    assert (
        night._troubles.for_the_page(night.verdict)
        == "Tonight a new model waits until somebody says that it may forecast."
    )
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        assert [promotion.bundle_digest for promotion in ledger.promotions("tiny")] == ["b0", "b0"]


def test_a_promotion_by_hand_lifts_the_freeze(file: Path) -> None:
    with Ledger.open(load(file).ledger_url) as ledger:
        at = NIGHT - timedelta(days=2)
        ledger.promote("tiny", run_id="first", bundle_digest="b0", by="Ada", reason="a strike, over now", at=at)
    night = Night.begin(str(file), NIGHT)
    with night.ends_in_an_outcome():
        steps.promote(night, exported("b1"), PANEL)
    assert night.promoted == "b1"
