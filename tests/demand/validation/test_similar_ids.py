from __future__ import annotations

import unicodedata
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.config import load
from forecaster.core.knowledge import Finding
from forecaster.demand.ingest import ingest
from forecaster.demand.validation.similar_ids import difference, key, pairs

NOW = datetime(2024, 3, 6, 12, tzinfo=UTC)
FIRST, DAYS = date(2024, 1, 1), 60


def rows(depot: str, first: int = 0, end: int = DAYS) -> list[str]:
    return [f"{depot},{FIRST + timedelta(day)},{100 + 7 * (day % 7) + 3 * (day % 5)}" for day in range(first, end)]


def told(folder: Path, *lines: str, more: str = "") -> list[Finding]:
    (folder / "demand.csv").write_text("\n".join(["depot_id,date,demand", *lines]) + "\n", "utf-8")
    (folder / "pipeline.yaml").write_text(
        f"name: t\ndemand: {{source: {{kind: csv, path: demand.csv}}}}\ncalendar: {{holidays: false}}\n{more}", "utf-8"
    )
    result = ingest(load(folder / "pipeline.yaml"), now=NOW)
    return [finding for finding in result.findings if finding.rule in ("similar_id", "unknown_depot")]


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("Cedar", "CEDAR", "only in upper and lower case"),
        ("Cedar Park", "Cedar  Park", "only in blanks"),
        ("Cedar Park", "CedarPark", "only in blanks"),
        ("Cedar Park", "Cedar\u00a0Park", "only in blanks"),
        ("Cedar", "Ce\u200bdar", "only in blanks"),
        ("Zürich", unicodedata.normalize("NFD", "Zürich"), "only in Unicode form"),
        ("A12", "\uff21\uff11\uff12", "only in Unicode form"),
        ("7", "007", "only in zeros in front or a decimal point"),
        ("101", "101.0", "only in zeros in front or a decimal point"),
        ("Store 7", "Store 07", "only in zeros in front or a decimal point"),
        ("St-Denis", "St\u2013Denis", "only in dashes"),
        ("St-Denis", "ST\u2212DENIS", "only in upper and lower case and dashes"),
    ],
)
def test_nearly_equal_ids_are_reported_with_their_days(tmp_path: Path, old: str, new: str, kinds: str) -> None:
    (finding,) = told(tmp_path, *rows(old, end=40), *rows(new, first=40), *rows("Birch"))
    days = f"depot {new!r}: found since 2024-02-10, which differs from {old!r}, silent since 2024-02-09, {kinds}"
    assert finding.message.startswith(days)
    assert "depots.aliases" in finding.message
    assert (finding.severity, finding.places) == ("warn", ((new, "2024-02-29"),))


def test_similar_ids_with_counts_on_the_same_days_are_reported_as_well(tmp_path: Path) -> None:
    (finding,) = told(tmp_path, *rows("Cedar"), *rows("CEDAR", first=20))
    assert "found next to 'Cedar', which has counts on 40 of the same days and differs" in finding.message


def test_run_with_only_the_new_id_names_the_old_one(tmp_path: Path) -> None:
    assert told(tmp_path, *rows("Cedar", end=40), *rows("Birch", end=40)) == []
    (finding,) = told(tmp_path, *rows("CEDAR", first=40), *rows("Birch", first=40))
    assert "'Cedar', silent since" in finding.message


@pytest.mark.parametrize(
    ("one", "other"),
    [("Cedar", "Cedar2"), ("1 1", "11"), ("1.5", "1.05"), ("A1", "A10"), ("0", "00a"), ("store_1_10", "store_110")],
)
def test_ids_with_other_differences_are_two_depots(one: str, other: str) -> None:
    assert key(one) != key(other)
    assert list(pairs([one, other])) == []


def test_each_spelling_is_reported_with_the_one_before_it() -> None:
    assert list(pairs(["a", "b", "A", "ａ"])) == [("a", "A"), ("A", "ａ")]
    assert difference("a", "Ａ") == "only in Unicode form and upper and lower case"


@given(st.lists(st.text("aAB01.,_- \t\u00a0\u200bß\n", max_size=6), unique=True, max_size=30))
def test_ids_with_the_same_key_are_similar(ids: list[str]) -> None:
    by_key: dict[str, list[str]] = {}
    for depot in ids:
        by_key.setdefault(key(depot), []).append(depot)
    assert list(pairs(ids)) == [pair for alike in by_key.values() for pair in pairwise(alike)]


def test_ids_joined_by_aliases_are_not_reported(tmp_path: Path) -> None:
    (tmp_path / "depots.csv").write_text("depot_id\nCEDAR\nBirch\n")
    (tmp_path / "renamed.csv").write_text("alias,depot_id\nCedar,CEDAR\n")
    more = "depots: {source: {kind: csv, path: depots.csv}, aliases: {source: {kind: csv, path: renamed.csv}}}"
    assert told(tmp_path, *rows("Cedar", end=40), *rows("CEDAR", first=40), *rows("Birch"), more=more) == []


ALIASES = "depots: {source: {kind: csv, path: depots.csv}, aliases: {source: {kind: csv, path: aliases.csv}}}"


def left_out(folder: Path, *aliases: str) -> list[str]:
    """Messages about counts of former IDs, given lines of the alias source.

    Alder, Birch and Cedar have counts.
    """
    (folder / "depots.csv").write_text("depot_id\nAlder\nElm\n")
    (folder / "aliases.csv").write_text("\n".join(["alias,depot_id", *aliases]) + "\n")
    lines = (*rows("Alder", first=30), *rows("Birch"), *rows("Cedar", end=40))
    (folder / "demand.csv").write_text("\n".join(["depot_id,date,demand", *lines]) + "\n", "utf-8")
    text = f"name: t\ndemand: {{source: {{kind: csv, path: demand.csv}}}}\ncalendar: {{holidays: false}}\n{ALIASES}"
    (folder / "pipeline.yaml").write_text(text, "utf-8")
    findings = ingest(load(folder / "pipeline.yaml"), now=NOW).findings
    return [finding.message for finding in findings if finding.rule == "alias_counts"]


def test_reports_counts_of_a_former_id_that_its_depot_omits(tmp_path: Path) -> None:
    (message,) = left_out(tmp_path, "Birch,Alder")
    assert message.startswith(
        "depot 'Alder': found counts of its former id 'Birch' on 30 days, the last on 2024-02-29; its own counts "
        "take precedence"
    )
    (tmp_path / "merged").mkdir()
    (message,) = left_out(tmp_path / "merged", "Birch,Alder", "Cedar,Alder")
    assert "'Birch' on 30 days" in message


def test_former_ids_of_a_depot_without_its_own_counts_omit_nothing(tmp_path: Path) -> None:
    assert left_out(tmp_path, "Birch,Elm", "Cedar,Elm", "Alder,Elm") == []


def test_unknown_depot_is_reported_with_the_one_of_similar_spelling(tmp_path: Path) -> None:
    (tmp_path / "depots.csv").write_text("depot_id\nCedar\nBirch\n")
    more = "depots: {source: {kind: csv, path: depots.csv}}"
    (finding,) = told(tmp_path, *rows("CEDAR"), *rows("Birch"), more=more)
    assert finding.message.endswith("did you mean 'Cedar'?")
