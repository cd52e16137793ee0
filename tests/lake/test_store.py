from __future__ import annotations

import shutil
from datetime import UTC, date, datetime
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import write_deltalake

from forecaster.errors import LakeError
from forecaster.lake import TABLES, Lake

NOON = datetime(2024, 3, 6, 12, tzinfo=UTC)


def readings(*counts: float | None, **more: object) -> pd.DataFrame:
    rows = pd.DataFrame({"demand": pd.Series(counts, dtype="float64")})
    rows["depot_id"], rows["date"], rows["source"], rows["batch"] = "D1", pd.Timestamp("2024-03-05"), "demand.csv", "b1"
    rows["open"] = pd.array([None] * len(rows), "boolean")
    rows["row"], rows["recorded_at"] = range(2, 2 + len(rows)), pd.Timestamp(NOON)
    return rows.assign(**more)  # type: ignore[arg-type]


def test_tables_never_written_are_empty_and_have_their_schema(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    for table, schema in TABLES.items():
        assert lake.read(table).schema == schema
        assert lake.read(table).num_rows == 0
    assert lake.versions() == dict.fromkeys(TABLES, -1)
    assert not (tmp_path / "lake").exists()


def test_each_append_is_one_version_and_older_versions_can_be_read(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "a lake, ü#1"))
    assert lake.append("demand", readings(1.0, None)) == 0
    assert lake.append("demand", readings(3.0)) == 1
    assert sorted(lake.read("demand")["demand"].to_pylist(), key=str) == [1.0, 3.0, None]
    assert lake.read("demand", version=0).num_rows == 2
    assert lake.read("demand", version=-1).num_rows == 0
    assert lake.versions()["demand"] == 1


def test_sees_commits_of_other_processes_and_replaced_tables(tmp_path: Path) -> None:
    lake, other = Lake(str(tmp_path / "lake")), Lake(str(tmp_path / "lake"))
    assert lake.version("demand") == -1
    for number in range(3):
        assert (
            other.append("demand", readings(float(number)))
            == number
            == lake.version("demand")
            == lake.version("demand")
        )
        assert lake.read("demand").num_rows == lake.read("demand").num_rows == number + 1
    other.tidy("demand", hours=0)
    assert lake.version("demand") == other.version("demand") > 2
    assert lake.read("demand").num_rows == 3
    newest = lake.version("demand")
    restored = Lake(str(tmp_path / "restored"))
    while restored.append("demand", readings(7.0, 8.0)) < newest:
        pass
    shutil.rmtree(tmp_path / "lake" / "demand")
    assert (lake.version("demand"), lake.read("demand").num_rows) == (-1, 0)
    shutil.move(tmp_path / "restored" / "demand", tmp_path / "lake" / "demand")
    assert lake.version("demand") == newest


def test_appending_no_rows_makes_no_commit(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    assert lake.append("demand", readings()) == -1
    lake.append("demand", readings(1.0))
    assert lake.append("demand", readings()) == 0


def test_rows_are_read_as_written(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    written = {
        "run_id": "r1",
        "recorded_at": NOON,
        "bundle": "b",
        "tier": "fresh",
        "depot_id": "D1",
        "cutoff": date(2024, 3, 5),
        "target_date": date(2024, 3, 6),
        "horizon": 1,
        "levels": [0.1, 0.5],
        "quantiles": [1.0, 2.5],
        "override": 3,
    }
    lake.append("forecasts", pa.Table.from_pylist([written], schema=TABLES["forecasts"]))
    lake.append("forecasts", pd.DataFrame([written]))
    assert lake.read("forecasts").to_pylist() == [written, written]


def test_archive_without_overrides_accepts_them_later(tmp_path: Path) -> None:
    old = TABLES["forecasts"].remove(TABLES["forecasts"].get_field_index("override"))
    row = {"run_id": "r1", "recorded_at": NOON, "levels": [0.5], "quantiles": [2.5]}
    write_deltalake(str(tmp_path / "forecasts"), pa.Table.from_pylist([row], schema=old))
    lake = Lake(str(tmp_path))
    lake.append("forecasts", pa.Table.from_pylist([row | {"override": 3}], schema=TABLES["forecasts"]))
    assert sorted(lake.read("forecasts")["override"].to_pylist(), key=str) == [3, None]


def test_new_covariate_becomes_a_column_that_is_null_in_older_rows(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.append("demand", readings(1.0))
    lake.append("demand", readings(2.0, promo=1, weather="rain"))
    lake.append("demand", readings(3.0))
    rows = lake.read("demand").sort_by("demand").select(["demand", "promo", "weather"]).to_pylist()
    assert rows == [
        {"demand": 1.0, "promo": None, "weather": None},
        {"demand": 2.0, "promo": 1.0, "weather": "rain"},
        {"demand": 3.0, "promo": None, "weather": None},
    ]


def test_rows_can_be_selected_by_an_expression_or_by_filters(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.append("demand", readings(1.0, 2.0, 3.0))
    assert lake.read("demand", where=ds.field("demand") > 1.5).num_rows == 2
    assert lake.read("demand", where=[("demand", ">", 1.5), ("row", "==", 4)]).num_rows == 1


def test_rejects_rows_that_do_not_fit_and_writes_nothing(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    with pytest.raises(LakeError, match="missing recorded_at"):
        lake.append("demand", readings(1.0).drop(columns="recorded_at"))
    with pytest.raises(LakeError, match="do not fit its schema"):
        lake.append("demand", readings(1.0, date="soon"))
    with pytest.raises(LakeError, match="'scores': found columns"):
        lake.append("scores", readings(1.0))
    lake.append("demand", readings(1.0, promo=1))
    with pytest.raises(LakeError, match="rows cannot be added"):
        lake.append("demand", readings(1.0, promo="sale"))
    with pytest.raises(LakeError, match="unknown lake table 'demands'; wanted one of demand"):
        lake.read("demands")
    assert lake.versions()["demand"] == 0


def test_error_for_a_damaged_table_names_it_and_the_next_step(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.append("demand", readings(1.0))
    for part in (tmp_path / "demand").rglob("*.parquet"):
        part.unlink()
    with pytest.raises(LakeError, match=r"'demand' at .* cannot be read: .*restore the folder from a backup"):
        lake.read("demand")
    (tmp_path / "demand" / "_delta_log" / "00000000000000000000.json").write_text("{bad")
    with pytest.raises(LakeError, match="cannot be opened"):
        lake.versions()


def test_reading_a_version_never_written_raises_an_error(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.append("demand", readings(1.0))
    with pytest.raises(LakeError, match="cannot be read"):
        lake.read("demand", version=7)


def test_rejects_a_folder_with_a_percent_sign() -> None:
    with pytest.raises(LakeError, match="found % in the path"):
        Lake("/data/100%25/lake")


@pytest.mark.parametrize("pattern", ["**/*.parquet", "_delta_log/*.json"])
def test_flipped_byte_is_reported_and_never_read_as_another_number(tmp_path: Path, pattern: str) -> None:
    lake = Lake(str(tmp_path))
    lake.append("demand", readings(*map(float, range(200))))
    [file] = (tmp_path / "demand").glob(pattern)
    content = file.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 50)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        with pytest.raises(LakeError, match=r"(?s)lake table 'demand' .*is damaged: it has sha256"):
            Lake(str(tmp_path)).read("demand")
        with pytest.raises(LakeError, match="is damaged"):
            Lake(str(tmp_path)).append("demand", readings(7.0))
    file.write_bytes(content)
    assert Lake(str(tmp_path)).read("demand").num_rows == 200
