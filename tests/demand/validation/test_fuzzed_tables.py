"""Any invalid cell in depots, aliases, events or external forecasts drops only its row, and is
reported."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.config import Spec
from forecaster.core.knowledge import Finding
from forecaster.demand.validation import reference_tables
from forecaster.demand.validation.external_forecasts import external_forecasts
from tests.mutations import CELLS, NOW, ZONES, an_end, as_csv, attempt, mutated_csv, spec_of
from tests.panels import bare

PANEL = bare(np.ones((12, 60)))
CONTROL = re.compile("[\0-\x1f\x7f\u2028\u202e]")  # characters that end a line or change the direction of text
DAYS = [str(day) for day in PANEL.days[:12].astype("datetime64[D]")]
FORMER = pd.DataFrame({"alias": [], "depot_id": []}, dtype="str")
TABLES: dict[str, tuple[list[str], list[list[str]]]] = {
    "depots": (
        ["depot_id", "opened", "closed", "zone", "city"],
        [[f"D{row}", "2020-01-01", "", "Asia/Tokyo", "X"] for row in range(12)],
    ),
    "aliases": (["alias", "depot_id"], [[f"old{row}", f"D{row}"] for row in range(12)]),
    "events": (["date", "kind", "name", "until"], [[DAYS[row], "promo", f"sale {row}", ""] for row in range(12)]),
    "legacy": (
        ["depot_id", "date", "demand", "known"],
        [[PANEL.depot_ids[row], DAYS[row], "7", DAYS[0]] for row in range(12)],
    ),
}


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    with an_end():
        yield


def read(spec: Spec, name: str) -> tuple[Any, list[Finding], str]:
    """Content of a source, its findings, and the error message if it is rejected."""
    findings: list[Finding] = []
    read_source: dict[str, Callable[[], Any]] = {
        "depots": partial(reference_tables.depots, spec, findings),
        "aliases": partial(reference_tables.aliases, spec, findings, [f"D{row}" for row in range(12)]),
        "events": lambda: reference_tables.events(spec, findings, NOW)[0],
        "legacy": partial(external_forecasts, spec, PANEL, FORMER, findings),
    }
    table, message = attempt(read_source[name])
    return table, findings, message


def words_of(table: Any, name: str) -> list[str]:
    """Values that identify the rows of a table of `TABLES`."""
    if name == "legacy":
        return [str(key) for key in table.key]
    return list(table[{"depots": "depot_id", "aliases": "alias", "events": "name"}[name]])


@pytest.mark.parametrize(
    ("name", "column"), [(name, column) for name, (header, _) in TABLES.items() for column in range(len(header))]
)
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_invalid_cell_drops_its_row_and_is_reported(tmp_path: Path, name: str, column: int, every: int) -> None:
    spec, (header, rows) = spec_of(tmp_path, ZONES[column]), TABLES[name]
    (tmp_path / f"{name}.csv").write_text(as_csv([header, *rows]), "utf-8")
    all_words, odd_word = words_of(read(spec, name)[0], name), 5
    for cell in CELLS[column % every :: every]:
        odd = [list(row) for row in rows]
        odd[odd_word][column] = cell
        (tmp_path / f"{name}.csv").write_text(as_csv([header, *odd], quoting=csv.QUOTE_ALL), "utf-8", newline="")
        table, findings, message = read(spec, name)
        assert not message
        words = words_of(table, name)
        others = [word for place, word in enumerate(all_words) if place != odd_word]
        assert [word for word in words if word in others] == others
        told = any(f"{name}.csv:{odd_word + 2}: " in finding.message for finding in findings)
        assert told or is_taken(table, words, all_words[odd_word], header[column], cell, name), cell
        assert all(len(finding.message) < 400 and not CONTROL.search(finding.message) for finding in findings)


def is_taken(table: Any, words: list[str], word: str, column: str, cell: str, name: str) -> bool:
    """Return whether the row with the key `word` has the value of its changed cell."""
    if cell.strip() == "" or name == "legacy":  # forecasts of days outside the panel are ignored
        return len(words) == len(TABLES[name][1]) or (name == "legacy" and column == "date")
    if column in ("opened", "closed", "zone", "until", "date"):
        value = table.loc[[words.index(word)], {"zone": "timezone", "until": "date"}.get(column, column)]
        return bool(value.notna().all())
    return bool((table.map(str) == cell.strip()).any(axis=None))


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_reports_damaged_files_of_depots_events_and_forecasts(tmp_path: Path, seed: int) -> None:
    random, spec = np.random.default_rng(seed), spec_of(tmp_path, ZONES[seed])
    for _ in range(30):
        for name, (header, _) in TABLES.items():
            (tmp_path / f"{name}.csv").write_bytes(mutated_csv(random, header))
            _, findings, message = read(spec, name)
            assert not message or f"{name}.csv" in message
            assert all(f"{name}.csv:" in finding.message for finding in findings)
