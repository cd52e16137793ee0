from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from forecaster.config import DeltaSource, Spec
from forecaster.demand import sources
from forecaster.errors import SourceError, SourceUnreachable


@pytest.fixture
def orders(spec: Spec) -> Path:
    """Table of three rows in two partitions, next to the pipeline file."""
    append(spec.folder / "orders", depot=["D1", "D2", "D1"], day=pa.array([0, 0, 1], pa.date32()), city=["A", "B", "A"])
    return spec.folder / "orders"


def append(folder: Path, **columns: object) -> None:
    write_deltalake(folder, pa.table(columns), mode="append", partition_by=["city"])


def at(path: str = "orders") -> DeltaSource:
    return DeltaSource(kind="delta", path=path)


def test_rows_of_all_partitions_are_read_once_and_numbered(spec: Spec, orders: Path) -> None:
    read_rows = sources.read(at(), spec, ["depot", "day", "city"], ["promo"])
    assert list(read_rows.columns) == ["depot", "day", "city", "row", ":fault", ":file"]
    rows = sorted(zip(read_rows["depot"], read_rows["day"].dt.strftime("%m-%d"), read_rows["city"], strict=True))
    assert rows == [("D1", "01-01", "A"), ("D1", "01-02", "A"), ("D2", "01-01", "B")]
    assert read_rows["row"].tolist() == [1, 2, 3]
    assert read_rows[":file"].tolist() == ["orders"] * 3
    assert isinstance(read_rows["depot"].dtype, pd.CategoricalDtype)


def test_digest_depends_on_the_tables_version(spec: Spec, orders: Path) -> None:
    def digest() -> str:
        feed = sources.open_feed(at(), spec, ["depot"])
        assert sum(map(len, feed.blocks)) > 0
        return feed.digest

    before = digest()
    assert digest() == before
    append(orders, depot=["D9"], day=pa.array([9], pa.date32()), city=["A"])
    assert digest() != before


def test_table_without_rows_has_the_right_columns(spec: Spec, orders: Path) -> None:
    DeltaTable(orders).delete()
    rows = sources.read(at(), spec, ["depot", "day"])
    assert rows.empty
    assert list(rows.columns) == ["depot", "day", "row", ":fault", ":file"]


def test_reports_a_missing_table_or_column(spec: Spec, orders: Path) -> None:
    with pytest.raises(SourceUnreachable, match="nowhere: found no Delta table; wanted a folder with a _delta_log"):
        sources.read(at("nowhere"), spec, ["depot"])
    with pytest.raises(SourceError, match="found columns depot, day, city; wanted 'depots'; did you mean 'depot'"):
        sources.read(at(), spec, ["depots"])


def test_rejects_a_damaged_table_in_one_line(spec: Spec, orders: Path) -> None:
    next(orders.glob("_delta_log/*.json")).write_text("garbage")
    with pytest.raises(SourceError, match="orders: not a readable Delta table") as caught:
        sources.read(at(), spec, ["depot"])
    assert not isinstance(caught.value, SourceUnreachable)
    assert "\n" not in str(caught.value)


def test_reports_a_damaged_or_missing_data_file(spec: Spec, orders: Path) -> None:
    part = next(orders.glob("city=A/*.parquet"))
    part.write_bytes(b"PAR1garbage")
    with pytest.raises(SourceError):
        sources.read(at(), spec, ["depot"])
    part.unlink()
    with pytest.raises(SourceUnreachable):
        sources.read(at(), spec, ["depot"])


def test_store_without_an_answer_is_unreachable(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_SECRET", "s3cr3t+/value")
    options = {"aws_secret_access_key": "${STORE_SECRET}", "aws_access_key_id": "${HOME}", "aws_region": "us-east-1"}
    options |= {"aws_endpoint": "http://127.0.0.1:1", "allow_http": "true", "max_retries": "0"}
    source = DeltaSource(kind="delta", path="s3://bucket/orders", options=options)
    with pytest.raises(SourceUnreachable, match=r"s3://bucket/orders: cannot be read: .*refused") as caught:
        sources.read(source, spec, ["depot"])
    assert "\n" not in str(caught.value)
    assert "s3cr3t" not in str(caught.value)
