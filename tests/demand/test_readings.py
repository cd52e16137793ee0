"""Readings of the lake as a frame: ids from files with separate dictionaries become one column."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from unittest.mock import patch

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from forecaster.demand import readings

DEPOTS = pd.Index(["c", "a"], dtype="str")
PIECES: list[list[str | None]] = [["b", None, "a", "b"], ["d", "c", None], [], ["a", "b"]]


def ids(pieces: Sequence[Sequence[str | None]]) -> pa.Table:
    chunks = [pa.array(piece, pa.string()).dictionary_encode() for piece in pieces]
    return pa.table({"depot_id": pa.chunked_array(chunks, pa.dictionary(pa.int32(), pa.string()))})


@pytest.mark.parametrize(
    ("depots", "categories"), [(None, ["b", "a", "d", "c"]), (DEPOTS, ["c", "a", "b", "d"])], ids=["none", "some known"]
)
def test_ids_of_pieces_with_own_dictionaries_start_with_the_known_ones(
    depots: pd.Index[str] | None, categories: list[str]
) -> None:
    column = readings.from_table(ids(PIECES), readings.DepotCategories(depots))["depot_id"]
    assert column.astype(object).where(column.notna(), None).tolist() == [*chain.from_iterable(PIECES)]
    assert column.cat.categories.tolist() == categories


def test_reuses_the_index_if_all_ids_are_known() -> None:
    column = readings.from_table(ids([["a"], ["c", "a"], [None]]), readings.DepotCategories(DEPOTS))["depot_id"]
    assert column.cat.categories is DEPOTS
    assert column.cat.codes.tolist() == [1, 0, 1, -1]


def test_no_ids_give_no_codes() -> None:
    assert readings.from_table(ids([]), readings.DepotCategories(DEPOTS))["depot_id"].cat.codes.tolist() == []


@pytest.mark.parametrize(
    ("piece", "codes"),
    [
        (["a", "b", "d", "e"], [0, 1, 2, 3]),
        (["d", "e", "a", "b"], [2, 3, 0, 1]),
        (["b", "d"], [1, 2]),
        (["e", "a"], [3, 0]),
        (["e"], [3]),
    ],
    ids=["as before", "begins elsewhere", "a part", "a part over the end", "one"],
)
def test_words_in_known_order_are_not_searched(piece: list[str], codes: list[int]) -> None:
    depots = readings.DepotCategories(pd.Index(["a", "b", "d", "e"], dtype="str"))
    with patch("pyarrow.compute.index_in", side_effect=AssertionError):
        assert depots.of(ids([piece])["depot_id"]).codes.tolist() == codes


@pytest.mark.parametrize(
    "piece", [["b", "a"], ["a", "d"], ["e", "b"], ["d", "e", "b", "a"], ["z"], ["e", "a", "b", "d", "z"]], ids="".join
)
def test_words_in_another_order_get_their_codes(piece: list[str]) -> None:
    depots = readings.DepotCategories(pd.Index(["a", "b", "d", "e"], dtype="str"))
    column = depots.of(ids([piece])["depot_id"])
    assert column.tolist() == piece
    assert column.categories[:4].tolist() == ["a", "b", "d", "e"]
    again = depots.of(ids([[*piece[1:], piece[0]], piece])["depot_id"])
    assert again.tolist() == [*piece[1:], piece[0], *piece]
    assert again.categories is column.categories


def test_words_in_random_order_are_searched_and_get_their_codes() -> None:
    words = [f"D{number}" for number in range(50)]
    depots = readings.DepotCategories(pd.Index(words, dtype="str"))
    with patch("pyarrow.compute.index_in", wraps=pc.index_in) as search:
        assert depots.of(ids([words[::-1], words[::2]])["depot_id"]).tolist() == words[::-1] + words[::2]
    assert search.call_count == 2


def test_run_may_end_at_any_position(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "COMPARED", 4)
    words = [f"D{number}" for number in range(30)]
    for end in range(1, 29):
        piece = [*words[end:], *words[: end - 1]]
        depots = readings.DepotCategories(pd.Index(words, dtype="str"))
        with patch("pyarrow.compute.index_in", side_effect=AssertionError):
            assert depots.of(ids([piece])["depot_id"]).tolist() == piece
