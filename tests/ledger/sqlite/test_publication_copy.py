"""What is copied of a ledger reads as it does there, follows what is published, and has its bounds."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from forecaster.ledger import overview
from forecaster.ledger.sqlite.publication_copy import PublicationCopy
from forecaster.ledger.store import Ledger
from tests.dashboards.seed import CUTOFF, earlier, fill, publication, with_plans

FLEET = "harbor-fleet"


@pytest.fixture
def source(tmp_path: Path) -> Ledger:
    """Two pipelines, one of which has published twice."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, earlier(), with_plans(publication(3)), publication(1, pipeline="other", run_id="others-night"))
    return Ledger.open_reader(url)


@pytest.fixture
def copy(tmp_path: Path) -> PublicationCopy:
    return PublicationCopy(tmp_path)


def test_a_copy_reads_as_the_ledger_does(source: Ledger, copy: PublicationCopy) -> None:
    copy.take(source, [FLEET, "nobody"])
    assert (copy.holds(FLEET), copy.holds("other"), copy.holds("nobody")) == (True, False, False)
    head = source.current(FLEET)
    assert head is not None
    assert copy.ledger.current(FLEET) == head
    assert copy.ledger.whole(head) == source.whole(head)
    assert copy.ledger.whole(head).plans != ()
    assert copy.ledger.run(head.run_id) == source.run(head.run_id)
    with copy.ledger.transaction() as there, source.transaction() as here:
        assert overview.outline(there, head.publication_id) == overview.outline(here, head.publication_id)
        before = overview.previous_publication_id(there, head)
        assert before is not None
        assert overview.medians(there, before) == overview.medians(here, before)
        depot = source.whole(head).depots[0].depot_id
        assert overview.earlier_forecasts(there, head, depot) == overview.earlier_forecasts(here, head, depot) != {}


def test_a_copy_follows_what_is_published(source: Ledger, copy: PublicationCopy) -> None:
    copy.take(source, [FLEET, "other"])
    newest = publication(2, run_id="night-9", as_of=publication().as_of + timedelta(hours=1))
    fill(source.url, newest)
    assert copy.ledger.current(FLEET) != source.current(FLEET)
    copy.take(source, [FLEET, "other"])
    head = copy.ledger.current(FLEET)
    assert head == source.current(FLEET)
    assert head is not None
    assert copy.ledger.whole(head) == newest
    assert copy.ledger.current("other") == source.current("other")
    assert [held.cutoff for held in copy.ledger.publications(FLEET)] == [CUTOFF, CUTOFF - timedelta(days=1)]


def test_what_has_no_room_is_not_held_at_all(source: Ledger, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    copy = PublicationCopy(folder, most=160_000)
    with caplog.at_level(logging.WARNING, "forecaster.page"):
        copy.take(source, [FLEET, "other"])
        assert (copy.holds(FLEET), copy.holds("other")) == (True, True)
        fill(source.url, replace(publication(400), run_id="night-9"))
        copy.take(source, [FLEET, "other"])
        copy.take(source, [FLEET, "other"])
    assert (copy.holds(FLEET), copy.holds("other")) == (False, True)
    assert [record.getMessage() for record in caplog.records] == [
        f"there is no room for a copy of what {FLEET} shows: database or disk is full"
    ]
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 160_000
