"""A feed whose files are sorted by others is the same as one that is sorted here, and so is what comes of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from forecaster.config import load
from forecaster.core.parallel import Fan
from forecaster.demand import feed_sorting, sources
from forecaster.demand.ingest import IngestResult, ingest
from forecaster.errors import SourceUnreachable
from forecaster.lake import Lake

FIRST = date(2024, 1, 1)
NOW = datetime(2024, 3, 6, 12, tzinfo=UTC)
Outcome = tuple[IngestResult, dict[str, pd.DataFrame]]  # and the lake's tables
DEPOTS = "depot_id,timezone\nD1,Europe/Berlin\nD2,America/New_York\nD3,\n"
COLUMNS = "columns: {depot_id: depot, date: day, demand: orders}"
OF_DEPOTS = "depots: {source: {kind: csv, path: depots.csv}}\n"


def rows(day: int) -> list[tuple[str, str, str]]:
    """Those of a file: three depots, and now and then one that nothing is right about."""
    on = (FIRST + timedelta(day)).isoformat()
    count = [str(100 + 7 * (day % 7) + 3 * (day % 5) + depot) for depot in range(3)]
    wrong = {
        3: ("D1", on, "many"),
        11: ("D4", on, "5"),
        12: ("D2", "soon", "5"),
        20: ("", on, "5"),
        21: ("d1", on, "4"),
    }
    return [(f"D{depot + 1}", on, count[depot]) for depot in range(3)] + ([wrong[day]] if day in wrong else [])


def csv_files(folder: Path) -> str:
    for day in range(40):
        lines = [",".join(row) for row in rows(day)]
        (folder / f"{day:02d}.csv").write_text("\n".join(["depot,day,orders", *lines]) + "\n", "utf-8")
    return f"demand: {{source: {{kind: csv, path: '*[0-9].csv'}}, {COLUMNS}}}\n{OF_DEPOTS}"


def parquet_files(folder: Path) -> str:
    """In folders by month, of which each has further columns than the one before, and decimals."""
    for month in (1, 2):
        days = range(31) if month == 1 else range(31, 50)
        table = pd.DataFrame([row for day in days for row in rows(day)], columns=["depot", "day", "orders"])
        table = table[table["orders"] != "many"].assign(orders=lambda t: t["orders"].astype(float) / 3, promo=1.0)
        (folder / "feed" / f"month={month}").mkdir(parents=True)
        of_month = table if month == 2 else table.drop(columns="promo")
        of_month.to_parquet(folder / "feed" / f"month={month}" / "part.parquet")
    (folder / "events.csv").write_text("date,kind,name\n2024-01-09,promotion,fair\n", "utf-8")
    calendar = "calendar: {known_future: [promo, month], events: {source: {kind: csv, path: events.csv}}}\n"
    return f"demand: {{source: {{kind: parquet, path: feed}}, {COLUMNS}}}\n{calendar}{OF_DEPOTS}"


def order_files(folder: Path) -> str:
    """A row an order, at times of day."""
    for day in range(30):
        on = FIRST + timedelta(day)
        times = [f"D{number % 3 + 1},{on} {number % 24:02d}:30:00" for number in range(40 + day)]
        (folder / f"{day:02d}.csv").write_text("\n".join(["depot,day", *times]) + "\n", "utf-8")
    columns = "columns: {depot_id: depot, date: day}"
    return f"demand: {{source: {{kind: csv, path: '*[0-9].csv'}}, aggregate: count, {columns}}}\n{OF_DEPOTS}"


def wide_files(folder: Path) -> str:
    for day in range(0, 30, 3):
        lines = [",".join([rows(place)[0][1], *(row[2] for row in rows(place)[:3])]) for place in range(day, day + 3)]
        (folder / f"{day:02d}.csv").write_text("\n".join(["day,D1,D2,D3", *lines]) + "\n", "utf-8")
    return f"demand: {{source: {{kind: csv, path: '*[0-9].csv', wide: depots}}, {COLUMNS}}}\n"


def fleet(folder: Path, write: Callable[[Path], str]) -> Path:
    folder.mkdir()
    (folder / "depots.csv").write_text(DEPOTS, "utf-8")
    (folder / "pipeline.yaml").write_text(f"name: t\n{write(folder)}", "utf-8")
    return folder


@contextmanager
def elsewhere() -> Iterator[Fan]:
    """A fan whose calls, and what they make, go to another process and come back."""

    def fan(calls: Iterable[Callable[[], Any]], /) -> list[Any]:
        return [pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(call))())) for call in calls]

    yield fan


@pytest.fixture(autouse=True)
def _all_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_sorting, "WORTH_SHARING", 0)
    monkeypatch.setattr(feed_sorting, "SHARES", 7)


def ingested(folder: Path, remarks: list[str], open_fan: Any = None) -> Outcome:
    spec = load(folder / "pipeline.yaml")
    result = ingest(spec, now=NOW, open_fan=open_fan, remark=remarks.append)
    lake = Lake.of(spec)
    return result, {table: lake.read(table).to_pandas() for table in ("demand", "quarantine", "batches", "half_hours")}


def same(one: Outcome, other: Outcome) -> None:
    assert one[0] == other[0]
    assert one[0].read > 30
    for table, rows_of_one in one[1].items():
        pd.testing.assert_frame_equal(rows_of_one, other[1][table], check_exact=True)


@pytest.mark.parametrize("write", [csv_files, parquet_files, order_files, wide_files])
def test_files_that_workers_sort_give_the_same_lake(tmp_path: Path, write: Callable[[Path], str]) -> None:
    remarks = list[str]()
    here = ingested(fleet(tmp_path / "here", write), remarks)
    shared = ingested(fleet(tmp_path / "shared", write), remarks, elsewhere)
    same(here, shared)
    assert remarks == []
    assert (here[0].quarantined > 0) == (write in (csv_files, parquet_files))


@contextmanager
def broken() -> Iterator[Fan]:
    def fan(calls: Iterable[Callable[[], Any]], /) -> list[Any]:
        raise OSError("the cluster is gone")

    yield fan


def test_without_its_workers_the_files_are_read_here(tmp_path: Path) -> None:
    remarks = list[str]()
    here = ingested(fleet(tmp_path / "here", csv_files), remarks)
    same(here, ingested(fleet(tmp_path / "shared", csv_files), remarks, broken))
    assert remarks == ["files were read one after the other, not on workers: OSError: the cluster is gone"]


def words_later(folder: Path) -> str:
    """A covariate that is a number in one file, words in a later one, and in the first is none."""
    for day, promo in enumerate(("", ",7", ",often")):
        on = (FIRST + timedelta(day)).isoformat()
        lines = [f"depot,day,orders{',promo' * bool(promo)}", *(f"D{depot},{on},5{promo}" for depot in range(1, 16))]
        (folder / f"{day:02d}.csv").write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "events.csv").write_text("date,kind,name\n2024-01-09,promotion,fair\n", "utf-8")
    calendar = "calendar: {known_future: [promo], events: {source: {kind: csv, path: events.csv}}}\n"
    return f"demand: {{source: {{kind: csv, path: '*[0-9].csv'}}, {COLUMNS}}}\n{calendar}"


def strangers(folder: Path) -> str:
    """More unknown depots than a hint is looked for."""
    for day in range(30):
        on = (FIRST + timedelta(day)).isoformat()
        (folder / f"{day:02d}.csv").write_text(f"depot,day,orders\nD1,{on},5\nD2,{on},6\nD1{day},{on},5\n", "utf-8")
    return f"demand: {{source: {{kind: csv, path: '*[0-9].csv'}}, {COLUMNS}}}\n{OF_DEPOTS}"


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (words_later, "column 'promo' has numbers in some files and words in others"),
        (strangers, "depots are unknown"),
    ],
)
def test_what_the_order_of_files_decides_is_done_here(tmp_path: Path, write: Callable[[Path], str], why: str) -> None:
    remarks = list[str]()
    here = ingested(fleet(tmp_path / "here", write), remarks)
    same(here, ingested(fleet(tmp_path / "shared", write), remarks, elsewhere))
    [remark] = remarks
    assert remark.startswith("files were read one after the other, not on workers: ValueError: ")
    assert why in remark


def test_few_bytes_or_one_file_are_not_shared_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = load(fleet(tmp_path / "several", csv_files) / "pipeline.yaml")
    assert feed_sorting.is_worth_sharing(spec)
    monkeypatch.setattr(feed_sorting, "WORTH_SHARING", 1_000_000)
    assert not feed_sorting.is_worth_sharing(spec)
    monkeypatch.setattr(feed_sorting, "WORTH_SHARING", 0)
    for source in ("{kind: csv, path: 07.csv}", "{kind: sql, url: 'sqlite:///x', query: select 1}"):
        (spec.folder / "pipeline.yaml").write_text(f"name: t\ndemand: {{source: {source}, {COLUMNS}}}\n", "utf-8")
        assert not feed_sorting.is_worth_sharing(load(spec.folder / "pipeline.yaml"))


def test_a_file_that_is_gone_since_it_was_listed_is_named(tmp_path: Path) -> None:
    spec = load(fleet(tmp_path / "several", csv_files) / "pipeline.yaml")
    paths = [*sources.file_sizes(spec.demand.source, spec)]
    assert len(paths) == 40
    Path(paths[3]).unlink()
    feed = sources.open_feed(spec.demand.source, spec, ["depot"], only=paths[2:5])
    with pytest.raises(SourceUnreachable, match=r"03\.csv: no such file; wanted the one that was there"):
        list(feed.blocks)
