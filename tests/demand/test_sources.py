from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from forecaster.demand import sources
from forecaster.errors import SourceError
from forecaster.spec import CsvSource, ParquetSource, Spec, load


def spec_at(folder: Path) -> Spec:
    file = folder / "pipeline.yaml"
    file.write_text("name: t\ndemand: {source: {kind: csv, path: demand.csv}}\n", "utf-8")
    return load(file)


def read(folder: Path, content: str | bytes, *wanted: str, **options: str) -> pd.DataFrame:
    (folder / "demand.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    source = CsvSource(kind="csv", path="demand.csv", **options)  # type: ignore[arg-type]
    return sources.read(source, spec_at(folder), wanted, ["promo"])


def test_csv_values_stay_text_and_rows_know_their_line(tmp_path: Path) -> None:
    content = '\ufeffdepot, day,orders,promo\r\nD1,2024-03-05,007,\r\n\r\n"D\n2",NA,nan,x\r\nD3,,,1\r\n'
    found = read(tmp_path, content, "depot", "day", "orders")
    assert found.to_dict("list") == {
        "depot": ["D1", "D\n2", "D3"],
        "day": ["2024-03-05", "NA", ""],
        "orders": ["007", "nan", ""],
        "promo": ["", "x", "1"],
        "row": [2, 4, 6],
        ":fault": ["", "", ""],
    }


def test_a_row_with_too_few_or_too_many_fields_says_so(tmp_path: Path) -> None:
    found = read(tmp_path, "depot,day\nD1\nD2,2024-03-05,7\n", "depot", "day")
    assert found[":fault"].tolist() == ["1 fields, wanted 2 as in the header", "3 fields, wanted 2 as in the header"]
    assert found["day"].tolist() == ["", "2024-03-05"]


def test_a_file_with_only_a_header_has_no_rows(tmp_path: Path) -> None:
    found = read(tmp_path, "depot\n", "depot")
    assert found.empty
    assert list(found.columns) == ["depot", "row", ":fault"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('depot,day\nD1,"2024-03-05\nD2,2024-03-06\n', r"demand.csv:2: found a row that does not end as CSV rows do"),
        ('depot,day\nD1,"a"b\n', r"demand.csv:2: found a row that does not end"),
        (b"depot,day\nD1,\xff\xfe\n", r"demand.csv:2: found a byte that is not utf-8 text"),
        ("depots,day\n", r"found columns depots, day; wanted 'depot'; did you mean 'depots'\?"),
        ("depot;day\n", r"delimited by ';': set the source's `delimiter`"),
        ("depot,day,day\n", r"found column 'day' twice"),
        ("", r"found columns ; wanted 'depot'"),
    ],
)
def test_a_file_that_is_no_such_csv_is_answered_with_its_place(
    tmp_path: Path, content: str | bytes, message: str
) -> None:
    with pytest.raises(SourceError, match=message):
        read(tmp_path, content, "depot", "day")


def test_delimiter_and_encoding_are_the_sources_own(tmp_path: Path) -> None:
    assert read(tmp_path, "depot;day\nKöln;1\n".encode("cp1252"), "depot", delimiter=";", encoding="cp1252")[
        "depot"
    ].tolist() == ["Köln"]
    with pytest.raises(SourceError, match="unknown encoding 'utf-9'"):
        read(tmp_path, "depot\n", "depot", encoding="utf-9")
    with pytest.raises(SourceError, match="found delimiter ';;', wanted a single character"):
        read(tmp_path, "depot\n", "depot", delimiter=";;")


def test_parquet_columns_keep_their_types_and_rows_count_from_one(tmp_path: Path) -> None:
    table = pd.DataFrame({"depot": ["D1", "D2"], "orders": [3.0, None], "day": pd.to_datetime(["2024-03-05"] * 2)})
    table.to_parquet(tmp_path / "demand.parquet")
    source = ParquetSource(kind="parquet", path="demand.parquet")
    found = sources.read(source, spec_at(tmp_path), ["depot", "orders", "day"], ["promo"])
    assert found["row"].tolist() == [1, 2]
    assert found["orders"].dtype == "float64"
    assert found["day"].dtype.kind == "M"
    with pytest.raises(SourceError, match="wanted 'order'; did you mean 'orders'"):
        sources.read(source, spec_at(tmp_path), ["order"])
    (tmp_path / "demand.parquet").write_text("depot,day\n")
    with pytest.raises(SourceError, match="found something else than a Parquet file"):
        sources.read(source, spec_at(tmp_path), ["depot"])


def test_a_missing_file_is_named_and_a_missing_dataset_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SourceError, match=r"gone.csv: no such file; wanted a csv file there"):
        sources.read(CsvSource(kind="csv", path="gone.csv"), spec_at(tmp_path), ["depot"])
    monkeypatch.setenv("FORECASTER_DATASETS", str(tmp_path))
    source = ParquetSource(kind="parquet", path="${FORECASTER_DATASETS}/gone.parquet")
    with pytest.raises(SourceError, match=r"tidy Parquet files .* Set FORECASTER_DATASETS .* or point demand.source"):
        sources.digest(source, spec_at(tmp_path))
    with pytest.raises(SourceError, match="cannot be read: Is a directory"):
        sources.digest(CsvSource(kind="csv", path="."), spec_at(tmp_path))


def test_the_same_content_has_the_same_digest(tmp_path: Path) -> None:
    spec = spec_at(tmp_path)
    for name, content in {"a.csv": "1", "b.csv": "1", "c.csv": "2"}.items():
        (tmp_path / name).write_text(content)
    a, b, c = (sources.digest(CsvSource(kind="csv", path=f"{name}.csv"), spec) for name in "abc")
    assert a == b != c
    assert len(a) == 12


def test_a_column_may_not_take_the_name_of_the_row_number(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="column 'row' has a name that is used"):
        read(tmp_path, "row\n1\n", "row")
