"""A real server: types, streaming, watermarks, and the content of errors."""

from __future__ import annotations

import logging
import traceback
from urllib.parse import quote

import numpy as np
import pandas as pd
import pytest

from forecaster.config import Spec, SqlSource
from forecaster.demand import sources
from forecaster.demand.sources import sql
from forecaster.errors import SourceError, SourceUnreachable
from tests.databases import PASSWORD, Postgres

pytestmark = pytest.mark.long


@pytest.fixture
def orders(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Postgres:
    """Server with a table `wh.Orders`, and the password in the environment."""
    monkeypatch.setenv("ORDERS_PASSWORD", PASSWORD)
    postgres.run(
        "drop schema if exists wh cascade",
        "create schema wh",
        """create table wh."Orders" (id bigint, depot text, day date, count numeric(12, 2), open boolean, whole int,
        changed timestamptz, local timestamp, real double precision, extra jsonb)""",
        """insert into wh."Orders" values
        (1, 'D1', '2024-03-05', 7.25, true, 1, '2024-03-06T01:30:00-05:00', '2024-03-06T01:30:00.000001', 1.5, '{}'),
        (5000000000, 'D2', '2024-03-05', null, null, null, '2024-03-06T06:30:00.5Z', '2024-03-06T02:00', 'NaN', null),
        (5000000001, null, null, 8, false, 3, '2024-11-03T06:30:00Z', null, null, '[1]')""",
    )
    return postgres


def source(server: Postgres, **more: str) -> SqlSource:
    url = f"postgresql+psycopg://owner:${{ORDERS_PASSWORD}}@127.0.0.1:{server.port}/postgres"
    return SqlSource(kind="sql", **{"url": url, **({} if "query" in more else {"table": "wh.Orders"}), **more})


def test_values_have_types_that_pandas_supports(spec: Spec, orders: Postgres) -> None:
    names = ["id", "depot", "day", "count", "open", "whole", "changed", "local", "real", "extra"]
    rows = sources.read(source(orders), spec, names)
    assert rows["id"].tolist() == [1, 5_000_000_000, 5_000_000_001]
    assert rows["depot"].fillna("-").tolist() == ["D1", "D2", "-"]
    assert rows["day"].fillna(pd.Timestamp(0)).tolist() == [pd.Timestamp("2024-03-05")] * 2 + [pd.Timestamp(0)]
    np.testing.assert_array_equal(rows["count"], [7.25, np.nan, 8.0])
    assert rows["open"].tolist() == [True, pd.NA, False]
    np.testing.assert_array_equal(rows["whole"], [1.0, np.nan, 3.0])
    assert rows["changed"].tolist() == [
        pd.Timestamp("2024-03-06T06:30:00Z"),
        pd.Timestamp("2024-03-06T06:30:00.5Z"),
        pd.Timestamp("2024-11-03T06:30:00Z"),
    ]
    assert rows["local"].dt.tz is None
    np.testing.assert_array_equal(rows["real"], [1.5, np.nan, np.nan])
    assert rows["extra"].fillna("-").tolist() == ["{}", "-", "[1]"]
    assert [rows[name].dtype.kind for name in ("id", "day", "count", "changed")] == ["i", "M", "f", "M"]


@pytest.mark.parametrize("column", ["id", "changed", "local", "day", "count", "depot"])
def test_watermark_of_any_type_misses_no_row(spec: Spec, orders: Postgres, column: str) -> None:
    sql_source = source(orders, watermark=column)
    first = sources.open_feed(sql_source, spec, ["id"])
    assert sum(map(len, first.blocks)) == 3
    values = "'D3', '2024-03-06', 9, true, 1, '2024-11-03T06:30:00.000001Z', '2024-03-06T02:00:00.000001', 1"
    orders.run(f"""insert into wh."Orders" values (5000000002, {values}, '{{}}')""")
    later = sources.open_feed(sql_source, spec, ["id"], since=first.watermark)
    read = [number for block in later.blocks for number in block["id"]]
    with_none = {"id": 0, "changed": 0, "count": 1, "depot": 1, "day": 1, "local": 1}[column]
    same = {"day": 2}.get(column, 1)  # those with the last watermark
    assert 5_000_000_002 in read
    assert len(read) == same + with_none + 1
    assert later.watermark != first.watermark
    last = sources.open_feed(sql_source, spec, ["id"], since=later.watermark)
    assert sum(map(len, last.blocks)) == 1 + with_none


def test_streams_rows_from_a_server_side_cursor(spec: Spec, orders: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "ROWS", 100)
    sql_source = source(orders, query="select n, pg_backend_pid() as pid from generate_series(1, 1000) as g(n)")
    feed = sources.open_feed(sql_source, spec, ["n"])
    assert [number for block in feed.blocks for number in block["n"]] == list(range(1, 1001))
    sql_source = source(orders, query="select name from pg_cursors")  # includes the statement itself
    assert len(sources.read(sql_source, spec, ["name"])) == 1


def test_transaction_is_read_only(spec: Spec, orders: Postgres) -> None:
    orders.run("create or replace function wh.f() returns int language sql as 'delete from wh.\"Orders\" returning 1'")
    with pytest.raises(SourceError, match="cannot execute DELETE in a read-only transaction"):
        sources.read(source(orders, query="select wh.f() as a"), spec, ["a"])


def test_errors_of_the_server_are_final(spec: Spec, orders: Postgres) -> None:
    for sql_source, message in (
        (source(orders, table="wh.orders"), r'relation "wh.orders" does not exist.*wanted a table .wh.orders.'),
        (source(orders, query="select nothing"), 'column "nothing" does not exist'),
        (source(orders, query="select id from wh"), 'relation "wh" does not exist'),
        (source(orders, url=source(orders).url.replace("/postgres", "/nowhere")), 'database "nowhere" does not exist'),
    ):
        with pytest.raises(SourceError, match=f"(?s){message}") as caught:
            sources.read(sql_source, spec, ["id"])
        assert not isinstance(caught.value, SourceUnreachable)


def test_unreachable_server_may_be_retried(spec: Spec, orders: Postgres) -> None:
    sql_source = source(orders, url="postgresql+psycopg://owner:${ORDERS_PASSWORD}@127.0.0.1:1/postgres")
    with pytest.raises(SourceUnreachable, match=r"cannot be reached: connection failed.*refused"):
        sources.read(sql_source, spec, ["id"])


def test_broken_connection_may_be_retried(spec: Spec, orders: Postgres) -> None:
    sql_source = source(orders, query="select pg_terminate_backend(pg_backend_pid()) as id")
    with pytest.raises(SourceUnreachable, match="cannot be reached"):
        sources.read(sql_source, spec, ["id"])


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://owner:${ORDERS_PASSWORD}@127.0.0.1:{port}/postgres",
        "${ORDERS_URL}",
        "postgresql+psycopg://owner@127.0.0.1:{port}/postgres?password=${ORDERS_PASSWORD}",
    ],
)
@pytest.mark.parametrize("right", [True, False])
def test_no_message_log_or_traceback_shows_a_password(
    spec: Spec,
    orders: Postgres,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    url: str,
    right: bool,
) -> None:
    password = PASSWORD if right else "wr@ng/" + PASSWORD
    monkeypatch.setenv("ORDERS_PASSWORD", password)
    whole = f"postgresql+psycopg://owner:{quote(password, safe='')}@127.0.0.1:{orders.port}/postgres"
    monkeypatch.setenv("ORDERS_URL", whole)
    sql_source = source(orders, url=url.replace("{port}", str(orders.port)))
    with caplog.at_level(logging.DEBUG), pytest.raises(SourceError) as caught:
        sources.read(sql_source, spec, ["nothing" if right else "id"])
    assert ("wanted 'nothing'" if right else "password authentication failed") in str(caught.value)
    assert not isinstance(caught.value, SourceUnreachable)
    output = str(caught.value) + "".join(traceback.format_exception(caught.value)) + caplog.text
    for spelled in (password, quote(password), quote(password, safe=""), repr(password)[1:-1], "p@ss", "p%40ss"):
        assert spelled not in output


def test_name_of_a_source_contains_no_credential(orders: Postgres) -> None:
    assert sources.name(source(orders)) == "wh.Orders"
    assert sources.name(source(orders, query="select 1 as a")) == "query of postgres"
