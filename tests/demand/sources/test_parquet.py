from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forecaster.config import ParquetSource, Spec
from forecaster.demand import sources
from forecaster.demand.sources import parquet
from forecaster.errors import SourceError, SourceUnreachable


def at(path: str) -> ParquetSource:
    return ParquetSource(kind="parquet", path=path)


def write(folder: Path, name: str = "demand.parquet", **columns: object) -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / name)
    return folder / name


def test_columns_keep_their_types_and_rows_count_from_one(spec: Spec) -> None:
    write(
        spec.folder,
        depot=["D1", "D2", "D1"],
        orders=[3.0, None, 5.0],
        day=pa.array([0, 1, 2], pa.date32()),
        open=[True, None, False],
        price=pa.array([1, 2, None], pa.int32()).cast(pa.decimal128(12, 2)),
        at=pa.array([0, 1, None], pa.timestamp("us", "UTC")),
        nothing=pa.nulls(3),
    )
    rows = sources.read(
        at("demand.parquet"), spec, ["depot", "orders", "day"], ["price", "open", "at", "nothing", "no"]
    )
    assert list(rows.columns[:3]) == ["depot", "orders", "day"]
    assert rows["row"].tolist() == [1, 2, 3]
    assert rows[":fault"].tolist() == ["", "", ""]
    assert rows[":file"].tolist() == ["demand.parquet"] * 3
    assert rows["depot"].tolist() == ["D1", "D2", "D1"]
    assert isinstance(rows["depot"].dtype, pd.CategoricalDtype)
    assert (rows["orders"].dtype, rows["price"].dtype) == ("float64", "float64")
    assert rows["day"].dtype.kind == "M"
    assert rows["open"].tolist() == [True, pd.NA, False]
    assert rows["at"].dt.tz is not None
    assert rows["nothing"].isna().all()


def test_integers_are_unchanged_next_to_missing_values(spec: Spec) -> None:
    write(spec.folder, depot=[2**60 + 1, None, 1], few=[1, None, 2])
    rows = sources.read(at("demand.parquet"), spec, ["depot", "few"])
    assert rows["depot"].tolist() == [2**60 + 1, pd.NA, 1]
    assert rows["few"].dtype == "float64"


def test_long_ids_stay_distinct_as_decimals_and_unsigned_numbers(spec: Spec) -> None:
    long = 123_456_789_012_345_678
    write(
        spec.folder,
        id=pa.array([long, long + 1, None], pa.decimal128(38, 0)),
        scaled=pa.array([Decimal(long), Decimal("7.50"), None], pa.decimal128(38, 2)),
        unsigned=pa.array([2**63 + 1, None, 2**63 + 2], pa.uint64()),
    )
    rows = sources.read(at("demand.parquet"), spec, ["id", "scaled", "unsigned"])
    assert rows["id"].tolist()[:2] == [str(long), str(long + 1)]
    assert rows["scaled"].tolist()[:2] == [str(long), "7.5"]
    assert rows["unsigned"].tolist() == [2**63 + 1, pd.NA, 2**63 + 2]


def test_text_with_many_distinct_values_is_not_categorical(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_MANY", 10)
    write(spec.folder, depot=["D1", "D2"] * 20, note=[str(n) for n in range(40)])
    rows = sources.read(at("demand.parquet"), spec, ["depot", "note"])
    assert [str(rows[name].dtype) for name in ("depot", "note")] == ["category", "str"]


def test_file_without_rows_has_the_right_columns(spec: Spec) -> None:
    write(spec.folder, depot=pa.array([], pa.string()), orders=pa.array([], pa.float64()))
    rows = sources.read(at("demand.parquet"), spec, ["depot", "orders"])
    assert rows.empty
    assert list(rows.columns) == ["depot", "orders", "row", ":fault", ":file"]


def test_error_for_a_missing_column_suggests_the_nearest(spec: Spec) -> None:
    write(spec.folder, depot=["D1"], orders=[1.0])
    with pytest.raises(SourceError, match="wanted 'order'; did you mean 'orders'"):
        sources.read(at("demand.parquet"), spec, ["order"])


def test_rejects_files_that_are_no_parquet_or_are_damaged(spec: Spec) -> None:
    random = np.random.default_rng(0)
    columns = {"depot": [f"D{n}" for n in random.integers(0, 500, 5_000)], "orders": random.normal(size=5_000)}
    whole = write(spec.folder, **columns).read_bytes()
    broken = [b"", b"depot,day\n", whole[: len(whole) // 2], whole[:-4] + b"PAR2", random.bytes(3_000)]
    broken += [whole[:40] + random.bytes(2_000) + whole[2_040:], b"PAR1" + random.bytes(500) + b"\xf0\0\0\0PAR1"]
    for content in broken:
        (spec.folder / "demand.parquet").write_bytes(content)
        with pytest.raises(SourceError, match=r"demand.parquet: not a Parquet file") as caught:
            sources.read(at("demand.parquet"), spec, ["depot", "orders"])
        assert not isinstance(caught.value, SourceUnreachable)


def test_invalid_text_is_read_with_escapes(spec: Spec) -> None:
    wrong = pa.array([b"D1", b"\xff\xfe"], pa.binary()).view(pa.string())
    write(spec.folder, depot=wrong)
    assert sources.read(at("demand.parquet"), spec, ["depot"])["depot"].tolist() == ["D1", "\\xff\\xfe"]


def test_folder_is_read_file_by_file_with_partitions_as_columns(spec: Spec) -> None:
    write(spec.folder, "orders/year=2025/city=New%20York/b.parquet", depot=["D1", "D2"])
    write(spec.folder, "orders/year=2026/city=__HIVE_DEFAULT_PARTITION__/a.parquet", depot=["D3"])
    (spec.folder / "orders" / "_SUCCESS").touch()
    (spec.folder / "orders" / "year=2026" / ".a.parquet.crc").write_bytes(b"x")
    feed = sources.open_feed(at("orders/"), spec, ["depot", "year"], ["city"])
    rows = sources.joined(list(feed.blocks))
    assert rows["depot"].tolist() == ["D1", "D2", "D3"]
    assert rows["year"].tolist() == ["2025", "2025", "2026"]
    assert rows["city"].astype("str").fillna("?").tolist() == ["New York", "New York", "?"]
    assert rows["row"].tolist() == [1, 2, 1]
    assert rows[":file"].tolist()[1:] == [
        "year=2025/city=New%20York/b.parquet",
        "year=2026/city=__HIVE_DEFAULT_PARTITION__/a.parquet",
    ]
    assert {name for name in rows if isinstance(rows[name].dtype, pd.CategoricalDtype)} >= {"depot", "year", "city"}


def test_glob_matches_files_and_folders(spec: Spec) -> None:
    write(spec.folder, "o/2025.parquet", depot=["D1"])
    write(spec.folder, "o/2026.parquet/part.parquet", depot=["D2"])
    rows = sources.read(at("o/*.parquet"), spec, ["depot"])
    assert rows[":file"].tolist() == ["2025.parquet", "2026.parquet/part.parquet"]
    assert sources.name(at("o/*.parquet")) == "o/*.parquet"


def test_reports_an_empty_folder(spec: Spec) -> None:
    (spec.folder / "orders").mkdir()
    with pytest.raises(SourceError, match="orders: found a folder without files; wanted parquet files in it"):
        sources.read(at("orders"), spec, ["depot"])


def test_same_files_have_the_same_digest(spec: Spec) -> None:
    def digest(path: str) -> str:
        feed = sources.open_feed(at(path), spec, ["depot"])
        assert sum(map(len, feed.blocks)) > 0
        return feed.digest

    first = write(spec.folder, "a.parquet", depot=["D1"])
    shutil.copy(first, spec.folder / "b.parquet")
    write(spec.folder, "c.parquet", depot=["D2"])
    assert digest("a.parquet") == digest("b.parquet") != digest("c.parquet")
    assert digest("*.parquet") not in {digest("a.parquet"), digest("c.parquet")}


def test_large_row_groups_are_cut_and_small_ones_gathered(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    depots = [f"D{n // 10}" for n in range(1_000)]
    for size, most in ((1_000, 100), (7, 100)):
        pq.write_table(pa.table({"depot": depots}), spec.folder / "demand.parquet", row_group_size=size)
        with monkeypatch.context() as patch:
            patch.setattr(parquet, "BLOCK", most)
            patch.setattr(sources.feed, "BLOCK", most)
            patch.setattr(sources.feed, "_ENOUGH", most // 2)
            blocks = list(sources.open_feed(at("demand.parquet"), spec, ["depot"]).blocks)
        assert max(map(len, blocks)) <= most
        assert len(blocks) <= 20
        rows = sources.joined(blocks)
        assert rows["depot"].tolist() == depots
        assert rows["row"].tolist() == list(range(1, 1_001))
        assert isinstance(rows["depot"].dtype, pd.CategoricalDtype)
