from __future__ import annotations

import hashlib
import json

import numpy as np
import pandas as pd
import pytest

from forecaster.demand.validation import quarantine

TEXT = ['"quoted"', "back\\slash", "tab\t", "nul\x00", "", "Łódź 😀", None]
COLUMNS = {
    "text": pd.Series(TEXT, dtype="str"),
    'a "name"': pd.Series(TEXT).astype("category"),
    "number": pd.Series([0.0, -0.0, 1.5, np.nan, np.inf, 1e300, 0.0]),
    "whole": pd.Series([1, None, 2**60, 1, 1, 1, 1], dtype="Int64"),
    "flag": pd.Series([True, None, False, True, True, True, True], dtype="boolean"),
    "day": pd.Series(["2024-03-05", "NaT", "2024-03-05", "2024-03-06", "NaT", "NaT", "NaT"], dtype="datetime64[ms]"),
    "anything": pd.Series([1, True, 1.0, "1", None, 1, True], dtype=object),
}


def slow_content(block: pd.DataFrame) -> list[str]:
    rows = [
        {name: None if pd.isna(value) else getattr(value, "item", lambda value=value: value)() for name, value in row}
        for row in (zip(block.columns, values, strict=True) for values in zip(*map(block.get, block), strict=True))
    ]
    return [json.dumps(row, ensure_ascii=False, default=str) for row in rows]


@pytest.mark.parametrize("name", COLUMNS)
def test_whole_columns_give_the_same_json_as_single_rows(name: str) -> None:
    block = pd.DataFrame({name: COLUMNS[name], "row": range(len(TEXT))})
    assert quarantine.content(block).tolist() == slow_content(block[[name]])


def test_content_of_no_rows_is_empty() -> None:
    assert quarantine.content(pd.DataFrame(COLUMNS).head(0)).tolist() == []


def test_id_is_the_digest_of_source_rule_and_content() -> None:
    source, text = pd.Series(["a.csv"]).astype("category"), pd.Series(['{"depot": "Łódź"}'], dtype="str")
    digest = hashlib.sha256('a.csv\0spike\0{"depot": "Łódź"}'.encode()).hexdigest()
    assert quarantine.identity(source, "spike", text).tolist() == [digest[: quarantine.DIGITS]]


def test_message_starts_with_the_place_and_a_shortened_depot() -> None:
    rows = pd.DataFrame({"source": ["a.csv"] * 2, "row": [2, 3], "depot_id": pd.Categorical(["", "D" * 99])})
    assert quarantine.place(rows).tolist() == ["a.csv:2: depot ?", f"a.csv:3: depot {'D' * 59}…"]
