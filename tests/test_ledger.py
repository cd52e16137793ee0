"""The ledger keeps what was written, shows whole publications only, and says in a sentence what it cannot do."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory

from forecaster.errors import LedgerError
from forecaster.ledger import (
    Ledger,
    Publication,
    PublishedDay,
    PublishedDepot,
    PublishedMark,
    PublishedRoster,
    PublishedTotal,
    RecentDay,
    objections,
)
from forecaster.migrations import connect
from forecaster.migrations.tables import REVISION
from forecaster.values import Finding

ROOT = Path(__file__).parents[1]
NIGHT = datetime(2025, 6, 18, 7, 15, tzinfo=UTC)
CUTOFF = date(2025, 6, 17)
LEVELS = (0.1, 0.5, 0.9)
POSTGRES = os.environ.get("LEDGER_TEST_POSTGRES")  # the URL of a server on which databases may be made


@pytest.fixture(params=["sqlite", *(["postgresql"] if POSTGRES else [])])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'new' / 'ledger.db'}"
        return
    name = f"ledger_{uuid4().hex}"
    server = sa.create_engine(str(POSTGRES), isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.exec_driver_sql(f"create database {name}")
    yield sa.make_url(str(POSTGRES)).set(database=name).render_as_string(hide_password=False)
    with server.connect() as connection:
        connection.exec_driver_sql(f"drop database {name} with (force)")
    server.dispose()


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger.open(url) as opened:
        start(opened, "night-1")
        yield opened


ROSTERS = {
    1: PublishedRoster(3, 0.125, 41.5, 44.0, None, borrowed=(("D9", 2),)),
    3: PublishedRoster(None, 0.0, 0.1 + 0.2, None, 44.0),  # without loans, and with a number that has many digits
}


def start(ledger: Ledger, run_id: str, pipeline: str = "harbor-fleet", hours: int = 0) -> None:
    at = NIGHT + timedelta(hours=hours)
    ledger.start_run(run_id, pipeline=pipeline, as_of=at, spec_digest="5pec", lake_versions={"demand": 3}, at=at)


def publication(run_id: str = "night-1", orders: float = 100.0, depots: int = 2, **changes: object) -> Publication:
    """Depots D0, D1, … that expect `orders`, 20 less and 20 more; closed on the second day."""
    days = tuple(
        PublishedDay(
            CUTOFF + timedelta(days=step),
            step,
            step != 2,
            (orders - 20, orders, orders + 20) if step != 2 else (0.0, 0.0, 0.0),
            drivers=3,
            roster=ROSTERS.get(step),
        )
        for step in (1, 2, 3)
    )
    recent = (RecentDay(CUTOFF - timedelta(days=1), 97), RecentDay(CUTOFF, None), RecentDay(CUTOFF, 0.0, open=False))
    marks = (PublishedMark(date(2025, 6, 19), "holiday", "Juneteenth"),)
    made = Publication(
        pipeline="harbor-fleet",
        run_id=run_id,
        published_at=NIGHT,
        as_of=NIGHT,
        cutoff=CUTOFF,
        horizon=3,
        tier="fresh",
        model="harbor-fleet v3",
        timezone="America/New_York",
        levels=LEVELS,
        depots=tuple(PublishedDepot(f"D{i}", days, recent, {"city": "Boston"}, marks) for i in range(depots)),
        bundle_digest="b0",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def broken(**changes: object) -> Publication:
    """The publication with its first depot's first day changed."""
    whole = publication()
    first = whole.depots[0]
    day = replace(first.days[0], **changes)  # type: ignore[arg-type]
    return replace(whole, depots=(replace(first, days=(day, *first.days[1:])), *whole.depots[1:]))


def test_what_was_published_is_read_back_as_it_was(ledger: Ledger, url: str) -> None:
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


def total(city: str = "", step: int = 1, quantiles: tuple[float, ...] = (180.0, 200.0, 220.0)) -> PublishedTotal:
    return PublishedTotal(city, CUTOFF + timedelta(days=step), quantiles)


def test_totals_are_read_back_by_city_and_day_the_networks_first(ledger: Ledger) -> None:
    names = ("Boston", "Ål", "aa", "Zoë", "")
    given = publication(totals=tuple(total(city, step) for step in (2, 1, 3) for city in names))
    number = ledger.publish(given)
    found = ledger.totals(number)
    assert [(each.city, each.target_date.day) for each in found[:4]] == [("", 18), ("", 19), ("", 20), ("Boston", 18)]
    assert found == given.totals
    assert ledger.publish(given) == number  # the same again is no new publication
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


def test_depot_ids_of_any_letters_are_kept(ledger: Ledger) -> None:
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
def test_a_publication_that_is_not_whole_changes_nothing(ledger: Ledger, wrong: Publication, sentence: str) -> None:
    number = ledger.publish(publication())
    start(ledger, "night-2")
    with pytest.raises(LedgerError, match=sentence):
        ledger.publish(replace(wrong, run_id="night-2"))
    head = ledger.current()
    assert head is not None
    assert head.publication_id == number
    assert ledger.depots(number) == publication().depots


def test_at_most_five_objections_are_told() -> None:
    worst = replace(publication(depots=9), levels=(0.1, 0.2, 0.5, 0.9))
    assert len(objections(worst)) == 5


def test_publishing_the_same_again_changes_nothing(ledger: Ledger) -> None:
    number = ledger.publish(publication())
    assert ledger.publish(publication(published_at=NIGHT + timedelta(hours=1))) == number
    assert ledger.publish(publication(orders=110.0)) == number + 1


def test_publishing_for_a_run_that_never_began_is_refused(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="run 'unknown' is not in the ledger"):
        ledger.publish(publication("unknown"))


def test_rolling_back_shows_the_publication_before_and_again_undoes_it(ledger: Ledger) -> None:
    first = ledger.publish(publication())
    with pytest.raises(LedgerError, match="nothing to roll back to"):
        ledger.rollback("harbor-fleet")
    second = ledger.publish(publication(orders=200.0))
    assert ledger.rollback("harbor-fleet").publication_id == first
    assert ledger.depots(first)[0].days[0].quantiles == (80.0, 100.0, 120.0)
    assert ledger.rollback("harbor-fleet").publication_id == second


def test_the_last_eight_publications_are_kept_and_ids_are_never_given_twice(ledger: Ledger, url: str) -> None:
    numbers = [ledger.publish(publication(orders=100.0 + night)) for night in range(10)]
    assert numbers == list(range(numbers[0], numbers[0] + 10))
    assert [number for number in numbers if ledger.depots(number)] == numbers[2:]
    engine = connect.reader(url)
    with engine.begin() as connection:
        assert connection.exec_driver_sql("select count(*) from published").scalar() == 8 * 2 * 3
    engine.dispose()


def test_the_publication_that_is_shown_outlives_the_last_eight(ledger: Ledger) -> None:
    first = ledger.publish(publication())
    start(ledger, "other-1", pipeline="other")
    for night in range(10):
        ledger.publish(publication("other-1", orders=100.0 + night, pipeline="other"))
    assert ledger.depots(first)


def test_a_ledger_of_several_pipelines_wants_to_be_told_which(ledger: Ledger) -> None:
    assert ledger.current() is None
    ledger.publish(publication())
    start(ledger, "other-1", pipeline="other")
    ledger.publish(publication("other-1", pipeline="other"))
    with pytest.raises(LedgerError, match="name one of harbor-fleet, other"):
        ledger.current()
    head = ledger.current("other")
    assert head is not None
    assert head.run_id == "other-1"


def test_a_run_is_written_from_its_start_to_its_end(ledger: Ledger) -> None:
    (run,) = ledger.runs("harbor-fleet")
    assert (run.outcome, run.finished_at, run.timings, run.findings) == ("running", None, {}, ())
    late = Finding("late_days", "warn", 2, "demand.csv: 2 readings came late")
    ledger.note("night-1", timings={"ingest": 1.5}, findings=[late], lake_versions={"depots": 1})
    ledger.note("night-1", timings={"train": 60}, findings=[late], verdict={"admitted": True}, bundle_digest="b0")
    ledger.finish_run("night-1", "published", 0, "64 depots", "fresh", at=NIGHT + timedelta(minutes=9))
    (run,) = ledger.runs()
    assert run.timings == {"ingest": 1.5, "train": 60.0}
    assert run.lake_versions == {"demand": 3, "depots": 1}
    assert [finding["message"] for finding in run.findings] == [late.message]
    assert (run.outcome, run.exit_code, run.tier, run.bundle_digest) == ("published", 0, "fresh", "b0")
    assert (run.message, run.verdict) == ("64 depots", {"admitted": True})
    assert run.finished_at == NIGHT + timedelta(minutes=9)


def test_runs_come_newest_first(ledger: Ledger) -> None:
    start(ledger, "night-2", hours=24)
    start(ledger, "night-3", hours=48)
    assert [run.run_id for run in ledger.runs("harbor-fleet", limit=2)] == ["night-3", "night-2"]
    assert ledger.runs("other") == ()


def test_a_run_id_is_used_once_and_an_unknown_run_is_refused(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="'night-1' is in the ledger already"):
        start(ledger, "night-1")
    with pytest.raises(LedgerError, match="'night-9' is not in the ledger"):
        ledger.note("night-9", timings={"ingest": 1})
    with pytest.raises(LedgerError, match="outcome is 'over'"):
        ledger.finish_run("night-1", "over", 0)  # type: ignore[arg-type]


def test_instants_of_any_zone_come_back_in_utc(ledger: Ledger) -> None:
    early = datetime(2025, 6, 19, 3, 15, tzinfo=timezone(timedelta(hours=-4)))
    ledger.start_run("night-2", pipeline="harbor-fleet", as_of=early, spec_digest="5pec", at=early)
    run = ledger.runs(limit=1)[0]
    assert run.as_of.isoformat() == "2025-06-19T07:15:00+00:00"


def test_expected_timings_are_the_median_of_the_last_fourteen_finished_runs(ledger: Ledger) -> None:
    assert ledger.expected_timings("harbor-fleet") == {}
    for night in range(2, 22):  # 20 finished runs; the last 14 took 8 … 21 seconds
        start(ledger, f"night-{night}", hours=night)
        ledger.note(f"night-{night}", timings={"train": night, **({"export": 2.0} if night == 20 else {})})
        ledger.finish_run(f"night-{night}", "published", 0, at=NIGHT + timedelta(hours=night, minutes=5))
    ledger.note("night-1", timings={"train": 999})  # still running
    assert ledger.expected_timings("harbor-fleet") == {"train": 14.5, "export": 2.0}


def test_a_promotion_names_whom_it_replaced(ledger: Ledger) -> None:
    assert ledger.champion("harbor-fleet") is None
    ledger.promote("harbor-fleet", run_id="night-1", bundle_digest="b0", by="gate", reason="first model", at=NIGHT)
    second = ledger.promote(
        "harbor-fleet", run_id="night-1", bundle_digest="b1", by="gate", reason="better", model_version="2"
    )
    assert second.previous_digest == "b0"
    assert ledger.champion("harbor-fleet") == second
    assert ledger.champion("other") is None


def test_the_newest_revision_makes_exactly_the_tables_that_the_code_names(url: str) -> None:
    Ledger.open(url).close()
    engine = connect.writer(url)
    with engine.begin() as connection:
        command.check(connect.config(connection))  # raises when they differ
        assert ScriptDirectory.from_config(connect.config(connection)).get_heads() == [REVISION]
    engine.dispose()


def test_a_reader_cannot_write(ledger: Ledger, url: str) -> None:
    ledger.publish(publication())
    with Ledger.open_reader(url) as reader, pytest.raises(LedgerError, match=r"read-?only"):
        reader.finish_run("night-1", "failed", 1)


def test_a_missing_ledger_is_told_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"there is no ledger at .* yet"):
        Ledger.open_reader(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("opening", [Ledger.open, Ledger.open_reader])
def test_a_ledger_of_another_revision_is_told(url: str, opening: type[Ledger]) -> None:
    Ledger.open(url).close()
    engine = connect.writer(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("update forecaster_revision set version_num = '9999'")
    engine.dispose()
    with pytest.raises(LedgerError, match=f"has revision 9999, this program knows {REVISION}"):
        opening(url)  # type: ignore[call-arg]


def test_a_file_that_is_no_ledger_is_told(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("orders\n" * 200)
    with pytest.raises(LedgerError, match="file is not a database"):
        Ledger.open(f"sqlite:///{tmp_path / 'text.db'}")
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as foreign:
        foreign.execute("create table runs (id int)")
    with pytest.raises(LedgerError, match="is not a ledger"):
        Ledger.open_reader(f"sqlite:///{tmp_path / 'foreign.db'}")
    with pytest.raises(LedgerError, match="table runs already exists"):
        Ledger.open(f"sqlite:///{tmp_path / 'foreign.db'}")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("sqlite://", "would be gone with the process"),
        ("var/ledger.db", "URL is not one"),
        ("oracle9://x", "URL is not one"),
        ("sqlite:////proc/ledger/ledger.db", "cannot be made"),
    ],
)
def test_a_url_that_cannot_be_a_ledger_is_told(wrong: str, sentence: str) -> None:
    with pytest.raises(LedgerError, match=sentence):
        Ledger.open(wrong)


def test_a_writer_that_waits_too_long_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "WAIT_SECONDS", 0.05)
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Ledger.open(url) as ledger, closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as other:
        other.execute("begin immediate")
        with pytest.raises(LedgerError, match="another program has been writing to it"):
            start(ledger, "night-1")
        with Ledger.open_reader(url) as reader:  # readers do not wait
            assert reader.current() is None
        other.execute("rollback")
        start(ledger, "night-1")


def test_two_writers_may_make_the_ledger_at_once(url: str) -> None:
    code = f"from forecaster.ledger import Ledger; Ledger.open({url!r}).close()"
    racing = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) for _ in range(2)]
    assert [process.wait(60) for process in racing] == [0, 0]
    with Ledger.open_reader(url) as reader:
        assert reader.current() is None


WRITER = """
import sys
from dataclasses import replace
from forecaster.ledger import Ledger
from tests.test_ledger import publication, start
ledger = Ledger.open(sys.argv[1])
run = sys.argv[2]
start(ledger, run)
print("ready", flush=True)
for step in range(10_000):
    ledger.publish(publication(run, orders=100.0 + step, depots=40))
"""


def test_a_writer_killed_while_publishing_leaves_one_whole_publication(url: str) -> None:
    """Every depot of a publication expects the same orders: two numbers in one publication would be a torn one."""
    rng = random.Random(0)
    torn: list[object] = []
    seen: set[int] = set()
    done = threading.Event()
    with Ledger.open(url) as ledger:
        start(ledger, "night-1")
        ledger.publish(publication(depots=40))

    def read() -> None:
        with Ledger.open_reader(url) as reader:
            while not done.is_set():
                try:
                    head = reader.current()
                    assert head is not None
                    depots = reader.depots(head.publication_id)
                except (LedgerError, AssertionError) as error:
                    torn.append(error)
                    return
                if depots:  # else eight newer ones came between the two reads
                    seen.add(head.publication_id)
                    if len(depots) != 40 or len({day.quantiles for depot in depots for day in depot.days}) != 2:
                        torn.append((head, depots))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for kill in range(10):
            with subprocess.Popen(
                [sys.executable, "-c", WRITER, url, f"kill-{kill}"], stdout=subprocess.PIPE, text=True, cwd=ROOT
            ) as writer:
                assert writer.stdout is not None
                assert writer.stdout.readline() == "ready\n"
                time.sleep(rng.uniform(0.0, 0.12))
                writer.send_signal(signal.SIGKILL)
            with Ledger.open(url) as ledger:
                head = ledger.current()
                assert head is not None
                shown = ledger.depots(head.publication_id)
                assert len(shown) == 40
                assert len({depot.days for depot in shown}) == 1
                assert ledger.runs(limit=1)[0].outcome == "running"  # the killed night is visible as such
    finally:
        done.set()
        reader.join()
    assert torn == []
    assert len(seen) > 1


def test_what_was_up_at_an_instant_is_known_also_after_a_step_back(ledger: Ledger) -> None:
    first = publication()
    days = [first.published_at + timedelta(days=i) for i in range(2)]
    numbers = [ledger.publish(replace(first, published_at=day, note=str(day))) for day in days]
    ledger.rollback(first.pipeline)
    assert ledger.shown_at(first.pipeline, days[0] - timedelta(seconds=1)) is None
    assert [ledger.shown_at(first.pipeline, day) for day in days] == numbers
    assert ledger.shown_at(first.pipeline, datetime.now(UTC)) == numbers[0]
    assert [head.publication_id for head in ledger.publications(first.pipeline)] == numbers[::-1]


def test_as_many_publications_are_kept_as_were_asked_for(ledger: Ledger) -> None:
    for i in range(5):
        ledger.publish(replace(publication(), note=str(i)), keep=3)
    assert [head.note for head in ledger.publications("harbor-fleet")] == ["4", "3", "2"]
