"""Readings of the lake as a frame: ids whose files each have a dictionary of their own are one column."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

from forecaster.demand import readings

DEPOTS = pd.Index(["c", "a"], dtype="str")
PIECES = [["b", None, "a", "b"], ["d", "c", None], [], ["a", "b"]]


def ids(pieces: list[list[str | None]]) -> pa.Table:
    chunks = [pa.array(piece, pa.string()).dictionary_encode() for piece in pieces]
    return pa.table({"depot_id": pa.chunked_array(chunks, pa.dictionary(pa.int32(), pa.string()))})


@pytest.mark.parametrize(
    ("depots", "categories"), [(None, ["b", "a", "d", "c"]), (DEPOTS, ["c", "a", "b", "d"])], ids=["none", "some known"]
)
def test_ids_of_pieces_with_dictionaries_of_their_own_begin_with_the_known_ones(
    depots: pd.Index[str] | None, categories: list[str]
) -> None:
    column = readings.from_table(ids(PIECES), depots)["depot_id"]
    assert column.astype(object).where(column.notna(), None).tolist() == [each for piece in PIECES for each in piece]
    assert column.cat.categories.tolist() == categories


def test_where_all_ids_are_known_their_index_is_used_as_it_is() -> None:
    column = readings.from_table(ids([["a"], ["c", "a"], [None]]), DEPOTS)["depot_id"]
    assert column.cat.categories is DEPOTS
    assert column.cat.codes.tolist() == [1, 0, 1, -1]


def test_no_ids_are_none() -> None:
    assert readings.from_table(ids([]), DEPOTS)["depot_id"].cat.codes.tolist() == []
