from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from forecaster.demand.history import reading_versions

NAN = float("nan")
NOW = 1000
Row = tuple[str, int, float, int, int, float]  # depot, day, demand, open, recorded_at, promo


def readings(*rows: Row) -> pd.DataFrame:
    columns = list(zip(*rows, strict=True)) or [()] * 6
    return pd.DataFrame(
        {
            "depot_id": pd.Categorical(np.array(columns[0], object), sorted(set(columns[0]))),
            "day": np.array(columns[1], np.int32),
            "demand": np.array(columns[2], float),
            "open": np.array(columns[3], np.int8),
            "recorded_at": np.array(columns[4], np.int64),
            "row": np.arange(len(rows), dtype=np.int64),
            "source": pd.Categorical(["f"] * len(rows)),
            "promo": np.array(columns[5], float),
        }
    )


def rows_of(rows: pd.DataFrame) -> list[Row]:
    columns = [rows[name] for name in ("depot_id", "day", "demand", "open", "recorded_at", "promo")]
    return list(zip(*columns, strict=True))


def same(first: Row, second: Row) -> bool:
    return all(a == b or (a != a and b != b) for a, b in ((first[i], second[i]) for i in (2, 3, 5)))


ROW = st.tuples(
    st.sampled_from("ABC"),
    st.sampled_from([3, 4, 900]),
    st.sampled_from([NAN, 0.0, 1.0]),
    st.sampled_from([-1, 0, 1]),
    st.sampled_from([10, 20, 30]),
    st.sampled_from([NAN, 1.0]),
)


def unrepeated(rows: list[Row], *, declared: bool) -> list[Row]:
    frame = readings(*rows)
    broken = np.concatenate([np.zeros(0, int), *reading_versions.repeats(frame, declared=declared).broken.values()])
    return rows_of(frame[~np.isin(np.arange(len(frame)), broken)])


def slow_repeats(rows: list[Row], *, declared: bool) -> list[str]:
    """Result of `reading_versions.repeats`, computed row by row."""
    key: Callable[[Row], Any] = lambda row: (row[0], row[1], row[4] if declared else 0)  # noqa: E731
    rules = []
    for i, row in enumerate(rows):
        last = [other for other in rows if key(other) == key(row)][-1]
        earlier = [other for other in rows[:i] if key(other) == key(row)]
        repeated = any(same(other, row) for other in earlier)
        rules.append("superseded" if not same(row, last) else "duplicate_row" if repeated else "")
    return rules


def slow_new_readings(batch: list[Row], history: list[Row], *, declared: bool) -> list[tuple[bool, int]]:
    """Result of `reading_versions.new_readings`, computed row by row."""
    expected = []
    for row in batch:
        versions = [other for other in history if other[:2] == row[:2]]
        last = max(enumerate(versions), key=lambda pair: (pair[1][4], pair[0]))[1] if versions else None
        newest = max(other[4] for other in batch if other[:2] == row[:2])
        if last is None:
            expected.append((True, row[4]))
        elif not declared:
            first_count = last[2] != last[2]
            instant = row[4] if first_count else NOW
            expected.append((not same(row, last), row[4] if same(row, last) else max(instant, last[4] + 1)))
        elif any(same(other, row) and other[4] == row[4] for other in versions):
            expected.append((False, row[4]))
        elif any(other[4] == row[4] for other in versions) and row[4] == newest:
            expected.append((not same(row, last), max(NOW, last[4] + 1)))
        else:
            expected.append((True, row[4]))
    return expected


@given(rows=st.lists(ROW, max_size=9), declared=st.booleans())
def test_repeats_agree_with_a_simple_loop(rows: list[Row], declared: bool) -> None:
    rules = np.full(len(rows), "", object)
    for rule, places in reading_versions.repeats(readings(*rows), declared=declared).broken.items():
        rules[places] = rule
    assert list(rules) == slow_repeats(rows, declared=declared)


@given(rows=st.lists(ROW, max_size=8), history=st.lists(ROW, max_size=8), declared=st.booleans())
def test_new_readings_agree_with_a_simple_loop(rows: list[Row], history: list[Row], declared: bool) -> None:
    batch = unrepeated(rows, declared=declared)
    result = reading_versions.new_readings(readings(*batch), readings(*history), declared=declared, now=NOW)
    expected = slow_new_readings(batch, history, declared=declared)
    assert result.new.tolist() == [new for new, _ in expected]
    assert result.recorded_at[result.new].tolist() == [at for new, at in expected if new]


@given(rows=st.lists(ROW, max_size=9))
def test_latest_version_of_each_day_is_the_one_recorded_last(rows: list[Row]) -> None:
    latest = rows_of(reading_versions.latest(readings(*rows)))
    expected = {}
    for row in sorted(rows, key=lambda row: row[4]):
        expected[row[:2]] = row
    assert repr(sorted(latest, key=repr)) == repr(sorted(expected.values(), key=repr))


def test_words_are_compared_independently_of_their_codes() -> None:
    batch, history = readings(("A", 1, 1, 1, 5, NAN), ("B", 1, 1, 1, 5, NAN)), readings(("A", 1, 1, 1, 5, NAN))
    batch["sky"] = pd.Categorical(["rain", "sun"])
    history["sky"] = pd.Categorical(["rain"], ["sun", "rain"])
    assert reading_versions.new_readings(batch, history, declared=False, now=NOW).new.tolist() == [False, True]
    history["sky"] = pd.Categorical(["sun"], ["sun", "rain"])
    assert reading_versions.new_readings(batch, history, declared=False, now=NOW).new.tolist() == [True, True]
    batch["sky"] = pd.Categorical([None, None], ["x"])
    assert reading_versions.new_readings(batch, history.drop(columns="sky"), declared=False, now=NOW).new.tolist() == [
        False,
        True,
    ]


def test_days_far_apart_need_no_dense_table() -> None:
    apart = [(f"D{i}", 10**6 * i, 1.0, 1, 5, NAN) for i in range(2000)]
    slots = reading_versions.slots(readings(*apart), readings(*apart[:3]))
    assert slots.count == 2000
    assert slots.history.tolist() == slots.batch[:3].tolist()
