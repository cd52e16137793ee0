"""A publication is read back unchanged or not published at all; rollbacks, and the number of kept
publications."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from forecaster.errors import LedgerError
from forecaster.ledger import connect
from forecaster.ledger.publication import (
    Publication,
    PublishedDay,
    PublishedDepot,
    PublishedRoster,
    RecentDay,
    Shortage,
)
from forecaster.ledger.staging.objections import objections
from forecaster.ledger.store import Ledger
from tests.ledger.publications import CUTOFF, LEVELS, NIGHT, broken, publication, start, total


def test_publication_is_read_back_unchanged(ledger: Ledger, url: str) -> None:
    number = ledger.publish(publication())
    with Ledger.open_reader(url) as reader:
        head = reader.current()
        assert head is not None
        assert (head.publication_id, head.previous_id, head.tier, head.levels) == (number, None, "fresh", LEVELS)
        assert head.published_at == NIGHT
        assert head.published_at.tzinfo is UTC
        assert reader.depots(number) == publication().depots
        assert reader.depot(number, "D1") == publication().depots[1]
        assert reader.depot(number, "D9") is None
        assert reader.depots(number + 1) == ()


def test_damaged_columns_are_reported_in_sentences(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as opened:
        start(opened, "night-1")
        number = opened.publish(publication())
        for damage in ("x'5b38302e30ff5d'", "'[80.0'"):
            with opened.transaction() as connection:
                connection.exec_driver_sql(f"update published set quantiles = cast({damage} as text)")
            with pytest.raises(LedgerError, match=r"the ledger .*(damaged: publication 1: |UTF-8)"):
                opened.depots(number)
        with opened.transaction() as connection:
            connection.exec_driver_sql("update published set quantiles = '[80.0, 100.0, 120.0]'")
            connection.exec_driver_sql("""update published_depots set recent = '[["2025-13-18", 4.0, true]]'""")
        with pytest.raises(LedgerError, match=r"the ledger is damaged: publication 1: month must be in 1..12"):
            opened.depots(number)
        with opened.transaction() as connection:
            connection.exec_driver_sql("update runs set started_at = '2025-06-18X'")
        with pytest.raises(LedgerError, match="it is damaged: found '2025-06-18X', wanted an instant"):
            opened.run("night-1")


def test_totals_are_read_back_by_name_and_day_network_first(ledger: Ledger) -> None:
    names = ("Boston", "Ål", "aa", "Zoë", "")
    published = publication(totals=tuple(total(city, step) for step in (2, 1, 3) for city in names))
    number = ledger.publish(published)
    totals = ledger.totals(number)
    assert [(row.name, row.target_date.day) for row in totals[:4]] == [("", 18), ("", 19), ("", 20), ("Boston", 18)]
    assert totals == published.totals
    assert ledger.publish(published) == number  # the same again is not a new publication
    assert ledger.totals(ledger.publish(publication(orders=50))) == ()


def test_numpy_numbers_are_published_as_plain_ones_and_nan_demand_as_unknown(ledger: Ledger) -> None:
    quantiles = tuple(np.array([80.5, 100.25, 120.75], np.float32))
    day = PublishedDay(CUTOFF + timedelta(days=1), np.int64(1), np.True_, quantiles, np.int64(3))  # type: ignore[arg-type]
    depot = PublishedDepot("D0", (day,), (RecentDay(CUTOFF, float("nan")),))
    number = ledger.publish(replace(publication(), horizon=1, depots=(depot,)))
    read = ledger.depot(number, "D0")
    assert read is not None
    assert read.days[0] == PublishedDay(date(2025, 6, 18), 1, True, (80.5, 100.25, 120.75), 3)
    assert read.recent[0].demand is None


def test_depot_ids_may_contain_any_characters(ledger: Ledger) -> None:
    name = 'Dock 7/<b>"Süd"</b>\'; drop table runs; -- 🚚'
    number = ledger.publish(replace(publication(), depots=(replace(publication().depots[0], depot_id=name),)))
    read = ledger.depot(number, name)
    assert read is not None
    assert read.depot_id == name


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (broken(quantiles=(80.0, 100.0)), "2 quantiles, wanted 3"),
        (broken(quantiles=(80.0, float("nan"), 120.0)), "wanted finite numbers"),
        (broken(quantiles=(80.0, 100.0, float("inf"))), "wanted finite numbers"),
        (broken(quantiles=(-1.0, 100.0, 120.0)), "wanted 0 or more"),
        (broken(quantiles=(80.0, 120.0, 100.0)), "wanted no fall"),
        (broken(open=False), "on a closed day, wanted 0"),
        (broken(drivers=-1), "-1 drivers"),
        (broken(roster=PublishedRoster(1, 1.5, 1.0, None, None)), "a chance of 1.5 to be short"),
        (broken(roster=PublishedRoster(1, 0.5, float("nan"), None, None)), "wanted finite amounts of 0 or more"),
        (
            broken(roster=PublishedRoster(1, 0.5, 1.0, None, None, shortage=Shortage("", 1.5, network=True))),
            "a share of 1.5 of the vans wanted, wanted one from 0 to 1",
        ),
        (broken(roster=PublishedRoster(1, 0.5, 1.0, None, None, lent=(("D1", -2),))), "wanted 0 or more"),
        (broken(target_date=date(2025, 6, 25)), "wanted the 3 days after 2025-06-17"),
        (publication(totals=(total(step=4),)), "the total of the network, 2025-06-21: wanted one of the 3 days"),
        (
            publication(totals=(total("Bonn", quantiles=(2.0, 1.0, 3.0)),)),
            "total of Bonn, 2025-06-18: .* wanted no fall",
        ),
        (publication(totals=(total(quantiles=(2.0, 3.0)),)), "2 quantiles, wanted 3"),
        (publication(horizon=4), "wanted the 4 days after 2025-06-17"),
        (publication(levels=(0.2, 0.5, 0.8)), "with 0.1, 0.5 and 0.9 among them"),
        (publication(levels=(0.1, 0.5, 0.5, 0.9)), "wanted rising quantile levels"),
        (publication(tier="best"), "tier is 'best'"),
        (publication(timezone="Mars/Olympus"), "timezone is 'Mars/Olympus'"),
        (publication(depots=0), "there is no depot"),
        (replace(publication(), depots=publication().depots[:1] * 2), "depot 'D0' stands in it twice"),
        (publication(published_at=datetime(2025, 6, 18)), "has no time zone"),
    ],
)
def test_rejected_publication_changes_nothing(ledger: Ledger, wrong: Publication, sentence: str) -> None:
    number = ledger.publish(publication())
    start(ledger, "night-2")
    with pytest.raises(LedgerError, match=sentence):
        ledger.publish(replace(wrong, run_id="night-2"))
    head = ledger.current()
    assert head is not None
    assert head.publication_id == number
    assert ledger.depots(number) == publication().depots


def test_objections_are_limited_to_five() -> None:
    worst = replace(publication(depots=9), levels=(0.1, 0.2, 0.5, 0.9))
    assert len(objections(worst)) == 5


def test_publishing_the_same_again_changes_nothing(ledger: Ledger) -> None:
    number = ledger.publish(publication())
    assert ledger.publish(publication(published_at=NIGHT + timedelta(hours=1))) == number
    assert ledger.publish(publication(orders=110.0)) == number + 1


def test_rejects_publications_of_unknown_runs(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="run 'unknown' is not in the ledger"):
        ledger.publish(publication("unknown"))


def test_second_rollback_undoes_the_first(ledger: Ledger) -> None:
    first = ledger.publish(publication())
    with pytest.raises(LedgerError, match="nothing to roll back to"):
        ledger.rollback("harbor-fleet")
    second = ledger.publish(publication(orders=200.0))
    assert ledger.rollback("harbor-fleet").publication_id == first
    assert ledger.depots(first)[0].days[0].quantiles == (80.0, 100.0, 120.0)
    assert ledger.rollback("harbor-fleet").publication_id == second


def test_last_eight_publications_are_kept_and_ids_are_not_reused(ledger: Ledger, url: str) -> None:
    numbers = [ledger.publish(publication(orders=100.0 + night)) for night in range(10)]
    assert numbers == list(range(numbers[0], numbers[0] + 10))
    assert [number for number in numbers if ledger.depots(number)] == numbers[2:]
    engine = connect.reader(url)
    with engine.begin() as connection:
        assert connection.exec_driver_sql("select count(*) from published").scalar() == 8 * 2 * 3
    engine.dispose()


def test_shown_publication_is_never_pruned(ledger: Ledger) -> None:
    first = ledger.publish(publication())
    start(ledger, "other-1", pipeline="other")
    for night in range(10):
        ledger.publish(publication("other-1", orders=100.0 + night, pipeline="other"))
    assert ledger.depots(first)


def test_current_requires_a_pipeline_if_there_are_several(ledger: Ledger) -> None:
    assert ledger.current() is None
    ledger.publish(publication())
    start(ledger, "other-1", pipeline="other")
    ledger.publish(publication("other-1", pipeline="other"))
    with pytest.raises(LedgerError, match="name one of harbor-fleet, other"):
        ledger.current()
    head = ledger.current("other")
    assert head is not None
    assert head.run_id == "other-1"


def test_shown_at_remains_correct_after_a_rollback(ledger: Ledger) -> None:
    first = publication()
    days = [first.published_at + timedelta(days=i) for i in range(2)]
    numbers = [ledger.publish(replace(first, published_at=day, note=str(day))) for day in days]
    ledger.rollback(first.pipeline)
    assert ledger.shown_at(first.pipeline, days[0] - timedelta(seconds=1)) is None
    assert [ledger.shown_at(first.pipeline, day) for day in days] == numbers
    assert ledger.shown_at(first.pipeline, datetime.now(UTC)) == numbers[0]
    assert [head.publication_id for head in ledger.publications(first.pipeline)] == numbers[::-1]


def test_keeps_the_requested_number_of_publications(ledger: Ledger) -> None:
    for i in range(5):
        ledger.publish(replace(publication(), note=str(i)), keep=3)
    assert [head.note for head in ledger.publications("harbor-fleet")] == ["4", "3", "2"]
