"""Renamed and merged depots, compared with results by hand and with a simple loop."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.demand.history.aliases import (
    apply,
    archive_by_current_id,
    by_current_id,
    current,
    former_names,
    resolve,
)

NAN, NONE = float("nan"), None
Frame = pd.DataFrame


def readings(*rows: tuple[Any, ...], more: dict[str, str] | None = None, text: bool = False) -> Frame:
    columns = ["depot_id", "date", "demand", "open", *(more or {})]
    frame = pd.DataFrame([(row[0], f"2024-03-{row[1]:02}", *row[2:]) for row in rows], columns=columns)
    kinds = {"depot_id": "str" if text else "category", "date": "datetime64[s]", "demand": "float64", "open": "boolean"}
    return frame.astype({**kinds, **(more or {})})


def names(*pairs: tuple[str, str]) -> Frame:
    return pd.DataFrame(pairs, columns=["alias", "depot_id"], dtype="str")


def table(*rows: tuple[Any, ...]) -> Frame:
    frame = pd.DataFrame(rows, columns=["depot_id", "opened", "closed", "timezone", "city"])
    return frame.astype({"opened": "datetime64[s]", "closed": "datetime64[s]", "depot_id": "str"})


NO_DEPOTS = table()


def values_by_day(demand: Frame, aliases: Frame, column: str = "demand") -> dict[tuple[str, int], Any]:
    applied = apply(demand, NO_DEPOTS, aliases)[0]
    assert list(applied.columns) == list(demand.columns)
    assert (applied.dtypes.drop("depot_id") == demand.dtypes.drop("depot_id")).all()
    assert isinstance(applied["depot_id"].dtype, type(demand["depot_id"].dtype))
    assert not applied.duplicated(["depot_id", "date"]).any()
    values = zip(applied["depot_id"], applied["date"].dt.day, applied[column], strict=True)
    return {(depot, day): None if pd.isna(value) else value for depot, day, value in values}


@pytest.mark.parametrize("text", [False, True])
def test_renamed_depot_keeps_its_past(text: bool) -> None:
    demand = readings(
        ("old", 1, 1.0, True), ("old", 2, 2.0, NONE), ("new", 3, 3.0, NONE), ("else", 1, 9.0, NONE), text=text
    )
    assert values_by_day(demand, names(("old", "new"))) == {("else", 1): 9, ("new", 1): 1, ("new", 2): 2, ("new", 3): 3}


def test_own_counts_take_precedence_and_former_counts_fill_gaps() -> None:
    demand = readings(
        ("old", 1, 1.0, NONE),
        ("old", 2, 2.0, False),
        ("old", 3, 3.0, NONE),
        ("new", 2, 20.0, NONE),
        ("new", 3, NAN, True),
    )
    assert values_by_day(demand, names(("old", "new"))) == {("new", 1): 1, ("new", 2): 20, ("new", 3): 3}
    assert values_by_day(demand, names(("old", "new")), "open") == {
        ("new", 1): None,
        ("new", 2): None,
        ("new", 3): True,
    }


def test_merged_depots_past_is_the_sum_of_depots_in_business() -> None:
    demand = readings(
        ("a", 1, 1.0, NONE),  # b is not in business yet
        ("a", 2, 2.0, NONE),
        ("b", 2, 10.0, NONE),
        ("a", 3, 3.0, NONE),  # b is missing
        ("a", 4, 4.0, NONE),
        ("b", 4, NAN, False),  # b is closed
        ("b", 5, 20.0, NONE),  # a's last reading was on the 4th
        ("a", 6, NAN, NONE),
    )
    sums = values_by_day(demand, names(("a", "m"), ("b", "m")))
    assert sums == {("m", 1): 1, ("m", 2): 12, ("m", 3): None, ("m", 4): 4, ("m", 5): 20, ("m", 6): None}
    opened = values_by_day(demand, names(("a", "m"), ("b", "m")), "open")
    assert opened[("m", 4)] is None  # unknown for one of them, the other was closed


def test_merged_depot_uses_only_own_counts_after_its_first_one() -> None:
    demand = readings(
        ("a", 1, 1.0, NONE),
        ("b", 1, 2.0, NONE),
        ("a", 2, 1.0, NONE),
        ("b", 2, 2.0, NONE),
        ("a", 3, 5.0, NONE),
        ("m", 2, 7.0, NONE),
    )
    assert values_by_day(demand, names(("a", "m"), ("b", "m"))) == {("m", 1): 3, ("m", 2): 7}


def test_other_columns_take_any_open_the_maximum_and_the_first_word() -> None:
    more = {"promo": "float64", "weather": "category"}
    demand = readings(
        ("b", 1, 1.0, False, 0.0, "rain"),
        ("a", 1, 2.0, True, 1.0, NONE),
        ("b", 2, 0.0, False, NAN, NONE),
        ("a", 2, 0.0, False, NAN, NONE),
        more=more,
    )
    aliases = names(("a", "m"), ("b", "m"))
    assert values_by_day(demand, aliases, "open") == {("m", 1): True, ("m", 2): False}
    assert values_by_day(demand, aliases, "promo") == {("m", 1): 1.0, ("m", 2): None}
    assert values_by_day(demand, aliases, "weather") == {("m", 1): "rain", ("m", 2): None}


def test_values_announced_under_a_former_id_are_kept() -> None:
    more = {"promo": "float64"}
    demand = readings(("old", 1, 5.0, NONE, 0.0), ("old", 4, NAN, NONE, 1.0), ("new", 2, 6.0, NONE, 0.0), more=more)
    assert values_by_day(demand, names(("old", "new")), "promo") == {("new", 1): 0, ("new", 2): 0, ("new", 4): 1}
    assert values_by_day(demand, names(("old", "new")))[("new", 4)] is None


def test_unused_aliases_change_nothing() -> None:
    demand, depots = readings(("a", 1, 1.0, NONE)), table(("a", None, None, None, "Ulm"))
    for aliases in (names(), names(("x", "y"))):
        applied = apply(demand, depots, aliases)
        assert applied[0] is demand
        assert applied[1] is depots


def test_former_ids_leave_the_depots_table_or_pass_on_their_row() -> None:
    depots = table(
        ("old", "2020-01-01", None, "Asia/Tokyo", "Ulm"),
        ("a", "2021-01-01", "2024-01-01", None, "Bonn"),
        ("b", "2022-01-01", "2024-02-01", None, "Rome"),
        ("gone", None, "2024-01-01", None, "Nice"),
        ("new", "2024-03-02", None, None, "Ulm-Ost"),
        ("else", None, None, None, "Oslo"),
    )
    aliases = names(("old", "new"), ("a", "m"), ("b", "m"), ("gone", "back"))
    demand = readings(("old", 1, 1.0, NONE), ("a", 1, 1.0, NONE), ("back", 1, 1.0, NONE))
    depots_now = apply(demand, depots, aliases)[1].set_index("depot_id")
    assert list(depots_now.index) == ["new", "else", "m", "back"]
    assert depots_now["city"].tolist() == ["Ulm-Ost", "Oslo", "Bonn", "Nice"]
    day = pd.Timestamp
    assert depots_now.loc["new", "opened"] == day("2024-03-01")  # the first inherited reading
    assert (depots_now.loc["m", "opened"], depots_now.loc["m", "closed"]) == (day("2021-01-01"), day("2024-02-01"))
    assert depots_now.loc["back", "closed"] == day("2024-01-01")
    assert (depots_now.dtypes == depots.dtypes.drop("depot_id")).all()


def test_chains_are_followed_and_cycles_are_marked() -> None:
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("x", "y"), ("y", "x"), ("w", "x"), ("e", "d")]
    resolved, circle = resolve(names(*pairs))
    assert circle.tolist() == [False, False, False, True, True, True, False]
    assert resolved["depot_id"][~circle].tolist() == ["d", "d", "d", "d"]
    assert resolve(names())[0].empty
    long = [(f"n{i}", f"n{i + 1}") for i in range(1000)]
    assert set(resolve(names(*long))[0]["depot_id"]) == {"n1000"}


def test_column_of_ids_is_mapped_to_current_ids() -> None:
    ids = pd.Series(["old", "else", None], dtype="str")
    assert current(ids, names(("old", "new"))).fillna("").tolist() == ["new", "else", ""]
    assert current(ids, names()) is ids


@given(
    counts=st.dictionaries(
        st.tuples(st.sampled_from(["a", "b", "c", "m", "z"]), st.integers(1, 6)),
        st.one_of(st.just(NAN), st.just("closed"), st.integers(0, 9)),
        min_size=1,
    )
)
def test_sums_agree_with_a_simple_loop(counts: dict[tuple[str, int], Any]) -> None:
    rows = [(*key, NAN, False) if count == "closed" else (*key, float(count), NONE) for key, count in counts.items()]
    sums = values_by_day(readings(*rows), names(("a", "m"), ("b", "m"), ("c", "m")))
    # on a closed day there is nothing to add: that is known
    day_counts = {key: 0.0 if count == "closed" else count for key, count in counts.items() if count == count}
    own_days = {
        day: count for (depot, day), count in counts.items() if depot == "m" and count == count and count != "closed"
    }
    former = {depot for depot, _ in counts} & set("abc")
    last = {d: [day for depot, day in day_counts if depot == d] for d in former}
    for day in range(1, 7):
        assert sums.get(("z", day)) == next(
            (None if c in ("closed",) or c != c else c for k, c in counts.items() if k == ("z", day)), None
        )
        if day in own_days:
            assert sums[("m", day)] == own_days[day]
            continue
        rows_there = [d for d in former if (d, day) in counts]
        if not rows_there or (len(former) > 1 and own_days and day >= min(own_days)):
            assert sums.get(("m", day)) is None
            continue
        due = [d for d in former if last[d] and min(last[d]) <= day <= max(last[d])]
        parts = [day_counts.get((d, day)) for d in due]
        assert sums[("m", day)] == (sum(parts) if parts and None not in parts else None)


def test_facts_of_former_ids_apply_unless_the_depot_has_its_own_or_several_merged() -> None:
    former = former_names(
        names(("old", "new"), ("a", "m"), ("b", "m"), ("gone", "nowhere"), ("kept", "new")), ["new", "m", "kept"]
    )
    assert former == {"a": "m", "b": "m", "old": "new"}
    assert by_current_id({"old": 1, "x": 2}, former) == {"new": 1, "x": 2}
    assert by_current_id({"old": 1, "new": 3}, former) == {"new": 3}
    assert by_current_id({"a": 1, "b": 2, "x": 2}, former) == {"x": 2}
    assert by_current_id({"a": 1}, former) == {"m": 1}
    said = [("1", "old"), ("1", "old"), ("1", "a"), ("1", "b"), ("2", "new"), ("2", "old"), ("2", "a"), ("3", "x")]
    rows = pa.table({"run_id": [run for run, _ in said], "depot_id": [depot for _, depot in said], "n": range(8)})
    of_now = archive_by_current_id(rows, former)
    assert of_now.schema == rows.schema
    assert [tuple(row.values()) for row in of_now.to_pylist()] == [
        ("1", "new", 0),
        ("1", "new", 1),
        ("2", "new", 4),
        ("2", "m", 6),
        ("3", "x", 7),
    ]
    assert archive_by_current_id(rows, {}) is rows
