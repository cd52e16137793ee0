from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.config import Spec, load
from forecaster.demand import readings
from forecaster.demand.history import reading_versions
from forecaster.demand.validation import batch as batches
from forecaster.demand.validation import history_checks, known_days
from forecaster.demand.validation.known_days import NEVER, KnownDays, LastReadings

NAN = float("nan")
NOW = datetime(2024, 3, 6, 8, 15, tzinfo=UTC)
Row = tuple[str, int, float, int, int]  # depot, day, demand, open, recorded_at
ROW = st.tuples(
    st.sampled_from("ABC"),
    st.sampled_from([100, 101, 103, 130]),
    st.sampled_from([NAN, 0.0, 1.0]),
    st.sampled_from([-1, 0, 1]),
    st.sampled_from([10, 20]),
)


def rows_of(*rows: Row) -> pd.DataFrame:
    columns = list(zip(*rows, strict=True)) or [()] * 5
    return pd.DataFrame(
        {
            "depot_id": pd.Categorical(np.array(columns[0], object), sorted(set(columns[0]))),
            "day": np.array(columns[1], np.int32),
            "demand": np.array(columns[2], float),
            "open": np.array(columns[3], np.int8),
            "recorded_at": np.array(columns[4], np.int64),
            "row": np.arange(len(rows), dtype=np.int64),
            "source": pd.Categorical(["f"] * len(rows)),
        }
    )


def known_of(rows: pd.DataFrame) -> KnownDays:
    days, count = np.unique(rows["day"], return_counts=True)
    return KnownDays(days, count, lambda first, last: rows[rows["day"].between(first, last)])


def spec_of(folder: Path, *, declared: bool) -> Spec:
    columns = "depot_id: depot, date: day, demand: orders" + (", recorded_at: at" if declared else "")
    file = folder / "pipeline.yaml"
    source = "source: {kind: csv, path: demand.csv}"
    file.write_text(f"name: t\ntimezone: UTC\ndemand: {{{source}, columns: {{{columns}}}}}\n", "utf-8")
    return load(file)


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Spec]:
    return {declared: spec_of(tmp_path_factory.mktemp("spec"), declared=declared) for declared in (True, False)}


def in_stretches(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(known_days, "CACHED", 0)
    monkeypatch.setattr(known_days, "STRETCH", most)


@given(st.lists(ROW, max_size=8), st.lists(ROW, max_size=8), st.booleans(), st.sampled_from([1, 3, 100]))
def test_new_readings_are_the_same_in_parts_and_at_once(
    specs: dict[bool, Spec], given_rows: list[Row], before: list[Row], declared: bool, most: int
) -> None:
    spec = specs[declared]
    batch = batches.without_repeats(batches.Batch(rows_of(*given_rows), pd.DataFrame()), spec, NOW)
    instant = int(pd.Timestamp(NOW).as_unit("us").asm8.astype(np.int64))
    at_once = reading_versions.new_readings(batch.accepted, rows_of(*before), declared=declared, now=instant)
    with pytest.MonkeyPatch.context() as patch:
        in_stretches(patch, most)
        known_days = known_of(rows_of(*before))
        by_stretch = batches.without_known(batch, known_days, spec, NOW)
    assert by_stretch.accepted["row"].tolist() == batch.accepted["row"][at_once.new].tolist()
    assert by_stretch.accepted["recorded_at"].tolist() == at_once.recorded_at[at_once.new].tolist()
    assert by_stretch.unchanged == np.count_nonzero(~at_once.new)
    whole = LastReadings.of(rows_of(*before))
    assert by_depot(known_days.last_readings) == by_depot(whole)


def by_depot(last_readings: LastReadings) -> dict[str, tuple[int, int]]:
    days = zip(last_readings.last_counted.tolist(), last_readings.last_heard.tolist(), strict=True)
    return dict(zip(last_readings.depots, days, strict=True))


@given(st.lists(ROW, min_size=1, max_size=8), st.lists(ROW, max_size=8), st.sampled_from([1, 3]))
def test_grid_is_the_same_in_parts_and_at_once(given_rows: list[Row], before: list[Row], most: int) -> None:
    def grid() -> history_checks.CountGrid:
        batch = batches.Batch(rows_of(*given_rows), pd.DataFrame())
        return history_checks.count_grid(batch, known_of(rows_of(*before)))

    at_once = grid()
    with pytest.MonkeyPatch.context() as patch:
        in_stretches(patch, most)
        by_stretch = grid()
    assert by_stretch.depots.tolist() == at_once.depots.tolist()
    for name in ("counts", "fresh", "closed", "row"):
        np.testing.assert_array_equal(getattr(by_stretch, name), getattr(at_once, name))


def test_grid_has_one_row_for_each_depot_in_any_order_and_with_missing_depots() -> None:
    batch = batches.Batch(rows_of(("C", 130, 3.0, -1, 20), ("A", 130, 1.0, 0, 20)), pd.DataFrame())
    batch.accepted["depot_id"] = batch.accepted["depot_id"].cat.reorder_categories(["C", "A"])
    before = rows_of(("B", 129, 2.0, -1, 10), ("A", 129, NAN, 0, 10), ("C", 129, 4.0, -1, 10), ("A", 128, 5.0, 1, 10))
    grid = history_checks.count_grid(batch, known_of(before))
    assert grid.depots.tolist() == ["A", "B", "C"]
    np.testing.assert_array_equal(grid.counts[:, -3:], [[5, NAN, 1], [NAN, 2, NAN], [NAN, 4, 3]])
    assert [list(place) for place in np.nonzero(grid.closed)] == [[0, 0], [grid.counts.shape[1] - n for n in (2, 1)]]
    assert grid.row.tolist() == [[1], [-1], [0]]
    assert np.flatnonzero(grid.fresh.any(axis=1)).tolist() == [0, 2]


def test_reads_few_known_rows_once() -> None:
    spans: list[tuple[int, int]] = []
    rows = rows_of(("A", 100, 1.0, -1, 10), ("A", 101, 2.0, -1, 10))

    def read(first: int, last: int) -> pd.DataFrame:
        spans.append((first, last))
        return rows

    known_days = KnownDays(np.array([100, 101]), np.array([1, 1]), read)
    assert by_depot(known_days.last_readings) == {"A": (101, 101)}
    assert [(*span, part["day"].tolist()) for *span, part in known_days.between(101, 200)] == [(101, 101, [101])]
    assert spans == [(100, 101)]


def test_last_readings_of_many_rows_read_only_days_not_requested_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_stretches(monkeypatch, 100)
    spans: list[tuple[int, int]] = []
    rows = rows_of(*((depot, day, 1.0, -1, 10) for day in range(100, 111) for depot in "AB"[: 1 + (day == 100)]))

    def read(first: int, last: int) -> pd.DataFrame:
        spans.append((first, last))
        return rows[rows["day"].between(first, last)]

    known_days = KnownDays(*np.unique(rows["day"], return_counts=True), read)
    for first, last in ((103, 105), (101, 104)):
        assert {day for *_, part in known_days.between(first, last) for day in part["day"]} == {*range(first, last + 1)}
    assert by_depot(known_days.last_readings) == {"A": (110, 110), "B": (100, 100)}
    assert spans == [(103, 105), (101, 104), (100, 100), (106, 110)]
    assert by_depot(known_days.last_readings)["B"] == (100, 100)
    assert len(spans) == 4


def test_part_consists_of_whole_days_and_approximately_the_given_number_of_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_stretches(monkeypatch, 3)
    rows = rows_of(*((depot, day, 1.0, -1, 10) for day in (100, 101, 102, 110) for depot in "AB"))
    stretches = [(first, last, len(part)) for first, last, part in known_of(rows).between(0, 200)]
    assert sum(count for *_, count in stretches) == 8
    assert all(earlier[1] < later[0] for earlier, later in pairwise(stretches))
    assert max(count for *_, count in stretches) <= 4


def test_counts_and_declared_closed_days_are_readings_of_a_depot() -> None:
    last_readings = LastReadings.of(
        rows_of(("A", 100, 1.0, -1, 10), ("A", 103, NAN, 0, 10), ("A", 105, NAN, 1, 10), ("B", 7, NAN, 1, 1))
    )
    assert by_depot(last_readings) == {"A": (100, 103), "B": (NEVER, NEVER)}


def coded(*pieces: list[Any]) -> pa.Table:
    kind = pa.dictionary(pa.int32(), pa.string())
    words = [pa.array(piece, pa.string()).dictionary_encode() for piece in pieces]
    return pa.table({"depot_id": pa.chunked_array(words, kind)})


def test_ids_from_the_lake_share_the_given_categories() -> None:
    given_ids = pd.Index(["D1", "D2", "D3"], dtype="str")
    categories = readings.DepotCategories(given_ids)
    ids = readings.from_table(coded(["D2", "D1"], ["D1", "D2"]), categories)["depot_id"]
    assert ids.tolist() == ["D2", "D1", "D1", "D2"]
    assert ids.cat.categories is given_ids
    further = readings.from_table(coded(["D2"], ["D9", "D2"]), categories)["depot_id"]
    assert further.tolist() == ["D2", "D9", "D2"]
    assert further.cat.categories.tolist() == ["D1", "D2", "D3", "D9"]
    assert readings.from_table(coded(["D2"], ["D9", "D2"]))["depot_id"].tolist() == ["D2", "D9", "D2"]
