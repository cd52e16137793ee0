"""Behavior shared by every kind of source."""

from __future__ import annotations

import sys
import traceback

import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forecaster.config import CsvSource, DeltaSource, ParquetSource, Spec
from forecaster.demand import sources
from forecaster.errors import MissingExtra, SourceError, SourceUnreachable, SpecError


def test_nothing_is_accessed_before_the_first_block(spec: Spec) -> None:
    feed = sources.open_feed(CsvSource(kind="csv", path="gone.csv"), spec, ["depot"])
    assert feed.name == "gone.csv"
    with pytest.raises(SourceUnreachable):
        next(feed.blocks)


def test_digest_is_known_only_at_the_end(spec: Spec) -> None:
    (spec.folder / "demand.csv").write_text("depot\nD1\n")
    feed = sources.open_feed(CsvSource(kind="csv", path="demand.csv"), spec, ["depot"])
    with pytest.raises(AssertionError, match="after the last block was taken"):
        _ = feed.digest
    assert len(list(feed.blocks)) == 1
    assert len(feed.digest) == 12


def test_error_names_a_missing_file_and_explains_a_missing_dataset(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceUnreachable, match=r"gone.csv: no such file; wanted a csv file there; a relative path"):
        sources.read(CsvSource(kind="csv", path="gone.csv"), spec, ["depot"])
    monkeypatch.setenv("FORECASTER_DATASETS", str(spec.folder))
    source = ParquetSource(kind="parquet", path="${FORECASTER_DATASETS}/gone.parquet")
    with pytest.raises(SourceError, match=r"tidy Parquet files .* Set FORECASTER_DATASETS .* or point demand.source"):
        sources.read(source, spec, ["depot"])
    with pytest.raises(SourceError, match="cannot be read: Is a directory"):
        sources.read(CsvSource(kind="csv", path="."), spec, ["depot"])


@pytest.mark.parametrize("name", ["row", ":file", ":fault"])
def test_rejects_columns_named_like_the_position_columns(spec: Spec, name: str) -> None:
    (spec.folder / "demand.csv").write_text(f"{name}\n1\n")
    for required, optional in (([name], []), ([], [name])):
        with pytest.raises(SourceError, match=f"column '{name}' has a name that is reserved"):
            sources.read(CsvSource(kind="csv", path="demand.csv"), spec, required, optional)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("orders/demand.csv", "demand.csv"),
        ("${HOME}/demand.csv", "demand.csv"),
        ("orders/*.csv", "orders/*.csv"),
        ("s3://bucket/orders/demand.csv", "demand.csv"),
        ("s3://bucket/orders/2026-*.csv", "s3://bucket/orders/2026-*.csv"),
        ("https://me:${PASSWORD}@host/orders/demand.csv?sig=abc", "demand.csv"),
        ("sftp://me:${PASSWORD}@host/orders/*.csv", "sftp://host/orders/*.csv"),
    ],
)
def test_source_is_named_by_its_file_or_glob(path: str, name: str) -> None:
    assert sources.name(CsvSource(kind="csv", path=path)) == name


def test_error_names_a_missing_variable_or_secret(spec: Spec) -> None:
    with pytest.raises(SpecError, match="needs the environment variable NOBODY_SET_THIS, which is not set"):
        sources.read(CsvSource(kind="csv", path="${NOBODY_SET_THIS}/a.csv"), spec, ["depot"])
    source = CsvSource(kind="csv", path="memory://a.csv", options={"token": "${secret:store}"})
    with pytest.raises(SpecError, match="needs the secret store, which nobody provided"):
        sources.read(source, spec, ["depot"])


def test_object_store_is_read_like_a_folder(spec: Spec) -> None:
    store = fsspec.filesystem("memory")
    store.pipe({"/fleet/a.csv": b"depot\nD1\n", "/fleet/b.csv": b"depot\nD2\n"})
    with store.open("/fleet/year=2026/c.parquet", "wb") as file:
        pq.write_table(pa.table({"depot": ["D3"]}), file)
    rows = sources.read(CsvSource(kind="csv", path="memory://fleet/a.csv"), spec, ["depot"])
    assert (rows["depot"].tolist(), rows[":file"].tolist()) == (["D1"], ["a.csv"])
    several = sources.read(CsvSource(kind="csv", path="memory://fleet/*.csv"), spec, ["depot"])
    assert (several["depot"].tolist(), several[":file"].tolist()) == (["D1", "D2"], ["a.csv", "b.csv"])
    folder = sources.read(ParquetSource(kind="parquet", path="memory://fleet/year=2026"), spec, ["depot"])
    assert (folder["depot"].tolist(), folder[":file"].tolist()) == (["D3"], ["c.parquet"])
    with pytest.raises(SourceUnreachable, match=r"memory://fleet/gone.csv: no such file; wanted a csv file there"):
        sources.read(CsvSource(kind="csv", path="memory://fleet/gone.csv"), spec, ["depot"])
    with pytest.raises(SourceUnreachable, match=r"memory://none/\*.csv: found no file that matches the glob"):
        sources.read(CsvSource(kind="csv", path="memory://none/*.csv"), spec, ["depot"])
    with pytest.raises(SourceError, match=r"memory://fleet/a.csv: found columns depot; wanted 'day'"):
        sources.read(CsvSource(kind="csv", path="memory://fleet/*.csv"), spec, ["day"])
    store.rm("/fleet", recursive=True)


def test_error_for_a_missing_or_unknown_store_names_the_package(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    with pytest.raises(
        MissingExtra, match=r"s3://bucket/a.csv needs a package .*install 'harbor-forecaster\[object-store\]'"
    ):
        sources.read(CsvSource(kind="csv", path="s3://bucket/a.csv"), spec, ["depot"])
    with pytest.raises(SourceError, match=r"nothing://a.csv: cannot be reached: .*Protocol not known"):
        sources.read(CsvSource(kind="csv", path="nothing://a.csv"), spec, ["depot"])


SECRET = "s3cr3t/ke+y value"


def test_reads_files_in_s3_with_hidden_credentials(s3: str, spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_SECRET", SECRET)
    options = {"key": "${STORE_KEY}", "secret": "${STORE_SECRET}", "endpoint_url": s3}
    monkeypatch.setenv("STORE_KEY", "testing-key")
    store = fsspec.filesystem("s3", key="testing-key", secret=SECRET, endpoint_url=s3)
    store.mkdir("fleet")
    store.pipe("fleet/orders/a.csv", b"depot\nD1\n")
    with store.open("fleet/parts/year=2026/b.parquet", "wb") as file:
        pq.write_table(pa.table({"depot": ["D2"]}), file)
    csv = sources.read(CsvSource(kind="csv", path="s3://fleet/orders/*.csv", options=options), spec, ["depot"])
    assert (csv["depot"].tolist(), csv[":file"].tolist()) == (["D1"], ["a.csv"])
    parquet = ParquetSource(kind="parquet", path="s3://fleet/parts", options=options)
    assert sources.read(parquet, spec, ["depot", "year"])["year"].tolist() == ["2026"]
    for path, message in (
        ("s3://fleet/gone.csv", "no such file"),
        ("s3://nowhere/*.csv", "found no file that matches the glob"),
    ):
        with pytest.raises(SourceUnreachable, match=message) as caught:
            sources.read(CsvSource(kind="csv", path=path, options=options), spec, ["depot"])
        assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


def test_reads_a_delta_table_in_s3(s3: str, spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltalake import write_deltalake

    monkeypatch.setenv("STORE_KEY", "testing-key")
    monkeypatch.setenv("STORE_SECRET", SECRET)
    fsspec.filesystem("s3", key="testing-key", secret=SECRET, endpoint_url=s3).mkdir("delta")
    options = {"aws_endpoint": s3, "aws_region": "us-east-1", "allow_http": "true"}
    credentials = {
        "aws_access_key_id": "testing-key",
        "aws_secret_access_key": SECRET,
        "aws_s3_allow_unsafe_rename": "true",
    }
    write_deltalake("s3://delta/orders", pa.table({"depot": ["D1"]}), storage_options=options | credentials)
    options |= {"aws_access_key_id": "${STORE_KEY}", "aws_secret_access_key": "${STORE_SECRET}"}
    rows = sources.read(DeltaSource(kind="delta", path="s3://delta/orders", options=options), spec, ["depot"])
    assert rows["depot"].tolist() == ["D1"]


def test_categorical_frames_are_joined_as_categorical() -> None:
    blocks = [pd.DataFrame({"depot": pd.Categorical(names), "n": [1]}) for names in (["D1"], ["D2"])]
    whole = sources.joined(blocks)
    assert isinstance(whole["depot"].dtype, pd.CategoricalDtype)
    assert whole["depot"].tolist() == ["D1", "D2"]
