from __future__ import annotations

import sqlite3
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest

from forecaster.config import Spec, SqlSource
from forecaster.demand import sources
from forecaster.demand.sources import driver_types, sql
from forecaster.errors import MissingExtra, SourceError, SourceUnreachable


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """SQLite file with a table, next to the pipeline file."""
    file = tmp_path / "orders.db"
    fill(
        file,
        "create table orders (id integer, Depot text, day date, seen timestamp, count numeric, note text, unread blob)",
        "insert into orders values (1, 'D1', '2024-03-05', '2024-03-06 01:30:00', 7, 'a', x'00')",
        "insert into orders values (2, 'D2', '2024-03-05', null, 7.5, 5, x'00')",
        "insert into orders values (3, 'D1', '2024-03-06', '2024-03-07', null, null, x'00')",
    )
    return file


def fill(file: Path, *statements: str) -> None:
    connection = sqlite3.connect(file)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def table(name: str = "orders", **more: str) -> SqlSource:
    return SqlSource(kind="sql", url="sqlite:///orders.db", table=name, **more)


def query(text: str, **more: str) -> SqlSource:
    return SqlSource(kind="sql", url="sqlite:///orders.db", query=text, **more)


def test_columns_of_a_table_are_read_as_numbers_dates_and_text(spec: Spec, orders: Path) -> None:
    rows = sources.read(table(), spec, ["Depot", "day", "count"], ["note", "seen", "promo"])
    assert list(rows.columns) == ["Depot", "day", "count", "note", "seen", "row", ":fault", ":file"]
    assert rows["Depot"].tolist() == ["D1", "D2", "D1"]
    assert rows["day"].tolist() == [pd.Timestamp("2024-03-05")] * 2 + [pd.Timestamp("2024-03-06")]
    assert rows["count"].fillna(-1).tolist() == [7.0, 7.5, -1.0]
    assert rows["count"].dtype == "float64"
    assert rows["note"].fillna("-").tolist() == ["a", "5", "-"]
    assert rows["seen"].isna().tolist() == [False, True, False]
    assert rows["row"].tolist() == [1, 2, 3]
    assert rows[":file"].tolist() == ["orders"] * 3


def test_long_ids_of_drivers_stay_distinct() -> None:
    long = 123_456_789_012_345_678
    rows = [[Decimal(long), 2**70, Decimal("7.50")], [Decimal(long + 1), 2**70 + 1, 2.0], [Decimal("NaN"), None, None]]
    columns = driver_types.table(["id", "wide", "count"], rows).to_pydict()
    assert columns["id"][:2] == [str(long), str(long + 1)]
    assert columns["wide"] == [str(2**70), str(2**70 + 1), None]
    assert columns["count"] == [7.5, 2.0, None]


def test_invalid_dates_stay_text(spec: Spec, orders: Path) -> None:
    fill(orders, "update orders set day = '5 March' where id = 1")
    assert sources.read(table(), spec, ["day"])["day"].tolist() == ["5 March", "2024-03-05", "2024-03-06"]


def test_query_is_used_unchanged(spec: Spec, orders: Path) -> None:
    source = query("select Depot as depot, '12:30' as at, '100%' as share from orders where day > '2024-03-05'; -- c")
    with pytest.raises(SourceError):  # a second statement is rejected
        sources.read(source, spec, ["depot"])
    source = query("select Depot as depot, '12:30' as at, '100%' as share from orders where id > 2 -- the last ;")
    rows = sources.read(source, spec, ["depot", "at", "share"])
    assert rows[["depot", "at", "share"]].to_numpy().tolist() == [["D1", "12:30", "100%"]]
    assert sources.name(source) == "query of orders.db"
    assert rows[":file"].tolist() == ["query of orders.db"]


def test_result_without_rows_has_the_right_columns(spec: Spec, orders: Path) -> None:
    rows = sources.read(query("select * from orders where id > 9"), spec, ["Depot", "count"])
    assert rows.empty
    assert list(rows.columns) == ["Depot", "count", "row", ":fault", ":file"]


def test_error_for_a_missing_column_or_table_suggests_the_nearest(spec: Spec, orders: Path) -> None:
    with pytest.raises(SourceError, match=r"wanted 'depot'; did you mean 'Depot'\? Case, spaces and punctuation"):
        sources.read(table(), spec, ["depot"])
    with pytest.raises(SourceError, match=r"no such table: order.*wanted a table 'order'") as caught:
        sources.read(table("order"), spec, ["depot"])
    assert not isinstance(caught.value, SourceUnreachable)
    with pytest.raises(SourceError, match=r"watermark: found columns .* wanted 'changed'"):
        sources.read(table(watermark="changed"), spec, ["Depot"])


def test_reports_a_missing_or_foreign_file_and_creates_none(spec: Spec) -> None:
    with pytest.raises(SourceUnreachable, match=r"orders.db: no such file; wanted an SQLite file there"):
        sources.read(table(), spec, ["depot"])
    assert not (spec.folder / "orders.db").exists()
    (spec.folder / "orders.db").write_text("depot,day\n" * 100)
    with pytest.raises(SourceError, match="file is not a database") as caught:
        sources.read(table(), spec, ["depot"])
    assert not isinstance(caught.value, SourceUnreachable)


def test_busy_database_may_be_retried(spec: Spec, orders: Path) -> None:
    busy = sqlite3.connect(orders)
    busy.execute("begin exclusive")
    source = SqlSource(kind="sql", url="sqlite:///orders.db?timeout=0.1", table="orders")
    with pytest.raises(SourceUnreachable, match="cannot be reached: database is locked"):
        sources.read(source, spec, ["Depot"])
    busy.close()


def test_reading_writes_nothing(spec: Spec, orders: Path) -> None:
    before = orders.read_bytes()
    for text in ("delete from orders returning *", "insert into orders (id) values (9) returning *"):
        with pytest.raises(SourceError):
            sources.read(query(text), spec, ["Depot"])
    assert orders.read_bytes() == before


@pytest.mark.parametrize(
    ("url", "kind", "message"),
    [
        ("orders.db", SourceError, "orders.db: not a database URL; wanted one such as postgresql"),
        ("db2://host/orders", SourceError, "found a database 'db2', which SQLAlchemy does not support"),
        (
            "postgresql://host/orders",
            MissingExtra,
            r"needs the driver psycopg2, .*install 'harbor-forecaster\[postgres\]'",
        ),
        ("mysql+pymysql://host/orders", MissingExtra, "needs the driver pymysql, .*install pymysql in the same"),
    ],
)
def test_error_for_an_unsupported_driver_names_the_remedy(
    spec: Spec, url: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        sources.read(SqlSource(kind="sql", url=url, table="orders"), spec, ["depot"])


def test_feed_resumes_at_the_watermark_and_repeats_its_rows(spec: Spec, orders: Path) -> None:
    first = sources.open_feed(table(watermark="id"), spec, ["Depot"])
    assert sum(map(len, first.blocks)) == 3
    again = sources.open_feed(table(watermark="id"), spec, ["Depot"], since=first.watermark)
    assert [block["Depot"].tolist() for block in again.blocks] == [["D1"]]
    assert again.watermark == first.watermark
    fill(orders, "insert into orders (id, Depot) values (4, 'D4'), (null, 'D5')")
    later = sources.open_feed(table(watermark="id"), spec, ["Depot"], since=first.watermark)
    assert sorted(depot for block in later.blocks for depot in block["Depot"]) == ["D1", "D4", "D5"]
    assert later.watermark != first.watermark


def test_watermark_of_another_column_restarts_and_a_foreign_one_is_rejected(spec: Spec, orders: Path) -> None:
    first = sources.open_feed(table(watermark="id"), spec, ["Depot"])
    assert sum(map(len, first.blocks)) == 3
    other = sources.open_feed(table(watermark="seen"), spec, ["Depot"], since=first.watermark)
    assert sum(map(len, other.blocks)) == 3
    with pytest.raises(SourceError, match="found '3', which no feed produced"):
        next(sources.open_feed(table(watermark="id"), spec, ["Depot"], since="3").blocks)


def test_watermark_needs_an_ordered_type(spec: Spec, orders: Path) -> None:
    with pytest.raises(
        SourceError, match="watermark 'unread': found a value of type bytes; wanted a column of integers"
    ):
        sources.read(table(watermark="unread"), spec, ["Depot"])


def test_rows_stream_in_order_independent_of_block_size(
    spec: Spec, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "ROWS", 7)
    fill(orders, "delete from orders")
    fill(orders, *(f"insert into orders (id, Depot, count) values ({n}, 'D{n}', {n})" for n in range(99, -1, -1)))
    feed = sources.open_feed(table(watermark="id"), spec, ["Depot", "count"])
    whole = pd.concat(list(feed.blocks))
    assert whole["count"].tolist() == list(range(100))
    assert whole["row"].tolist() == list(range(1, 101))


def test_digest_is_independent_of_the_order_of_rows(spec: Spec, orders: Path) -> None:
    def digest(text: str) -> str:
        feed = sources.open_feed(query(text), spec, ["Depot", "count", "note"])
        assert sum(map(len, feed.blocks)) > 0
        return feed.digest

    same = digest("select * from orders order by id")
    assert digest("select * from orders order by id desc") == same
    assert digest("select * from orders where id < 3") != same
    assert digest("select * from orders union all select * from orders where id = 3") != same
    assert digest("select Depot, count, coalesce(note, '') as note from orders") != same
    assert len(same) == 12
