"""The data dictionary documents all existing tables and files, and the page on data quality every
rule, and nothing else."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from forecaster.config import Spec, load
from forecaster.config.data_rules import RULES
from forecaster.lake import TABLES
from forecaster.ledger import tables

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"
PAGES = (DATA / "README.md", ROOT / "docs" / "data-dictionary.md")
DICTIONARY = "\n".join(page.read_text("utf-8") for page in PAGES)
QUALITY = (ROOT / "docs" / "data-quality.md").read_text("utf-8")
SAMPLE, REAL = "Sources of the sample, harbor_fleet/", "Real datasets, real/"
LAKE, LEDGER = "Lake tables", "Ledger tables"
SOURCES = ["file", "owner", "a row is", "time zone", "lateness", "kept"]
OWNED = ["table", *SOURCES[1:]]
Rows = list[list[str]]

CSVS = sorted((DATA / "harbor_fleet").glob("*.csv"))
PIPELINES = sorted((DATA / "real").glob("*.yaml"))
LEDGER_TABLES = tables.metadata.tables


def chapters(text: str, mark: str) -> dict[str, str]:
    """Map each heading to its content, for headings that start with a mark such as "## "."""
    parts = re.split(rf"^{mark}(.*)$", text, flags=re.MULTILINE)
    return dict(zip((heading.replace("`", "") for heading in parts[1::2]), parts[2::2], strict=True))


def table(text: str) -> tuple[list[str], Rows]:
    """Return the header and the rows of the first table of a text."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return cells[0], cells[2:]


CHAPTERS = chapters(DICTIONARY, "## ")


def common(chapter: str) -> dict[str, tuple[str, str]]:
    """Return type and meaning of the columns that a chapter documents once for all its tables."""
    intro = CHAPTERS[chapter].split("\n### ")[0]
    rows = re.findall(r"^- `(\w+)` \(([^)]*)\): (.+)$", intro, flags=re.MULTILINE)
    return {name: (kind, meaning) for name, kind, meaning in rows}


def columns_of(chapter: str, name: str, schema: list[list[str]]) -> Rows:
    """Return the documented rows of a table's columns in schema order, including those common to
    all tables."""
    own = {row[0]: row for row in documented(chapter, name)}
    shared = {column: [column, *entry] for column, entry in common(chapter).items()}
    assert set(own) <= {column for column, _ in schema}
    return [own.get(column) or shared[column] for column, _ in schema]


def overview(chapter: str) -> tuple[list[str], Rows]:
    return table(CHAPTERS[chapter].split("\n### ")[0])


def documented(chapter: str, name: str) -> Rows:
    """Return the rows of the table of columns, with the column's bare name first."""
    _, rows = table(chapters(CHAPTERS[chapter], "### ")[name])
    return [[row[0].strip("`"), *row[1:]] for row in rows]


def of_arrow(kind: pa.DataType) -> str:
    """Return the name of a type of the lake."""
    if pa.types.is_list(kind):
        return f"list of {of_arrow(kind.value_type)}"
    words = {"date32[day]": "date", "int64": "long", "int32": "int", "timestamp[us, tz=UTC]": "timestamp"}
    return words.get(str(kind), str(kind))


def of_sql(column: sa.Column[object]) -> str:
    """Return the name of a type of the ledger, with its nullability."""
    kinds = {tables.Instant: "instant", sa.JSON: "json", sa.Boolean: "boolean", sa.Integer: "integer", sa.Date: "date"}
    kinds |= {sa.Float: "number"}
    word = next((word for kind, word in kinds.items() if isinstance(column.type, kind)), "text")
    return f"{word}, null" if column.nullable else word


def read_by(spec: Spec) -> set[str]:
    """Return the columns that a pipeline file reads from its only source."""
    declared = [*spec.demand.columns.model_dump().values(), *spec.calendar.known_future]
    declared += [*spec.depots.static, spec.depots.columns.depot_id] if spec.depots else []
    return {name for name in declared if name}


@pytest.mark.parametrize(
    ("chapter", "header", "names"),
    [
        (SAMPLE, SOURCES, [file.name for file in CSVS]),
        (REAL, SOURCES, [file.name for file in PIPELINES]),
        (LAKE, OWNED, list(TABLES)),
        (LEDGER, OWNED, list(LEDGER_TABLES)),
    ],
)
def test_every_table_and_file_has_owner_grain_zone_lateness_and_retention(
    chapter: str, header: list[str], names: list[str]
) -> None:
    first_row, rows = overview(chapter)
    assert first_row == header
    assert sorted(row[0].strip("`") for row in rows) == sorted(names)
    assert [row[0] for row in rows if not all(row) or len(row) != len(header)] == []
    assert sorted(chapters(CHAPTERS[chapter], "### ")) == sorted(names)


def test_every_chapter_is_tested() -> None:
    assert list(CHAPTERS) == [SAMPLE, REAL, LAKE, LEDGER]


@pytest.mark.parametrize("name", TABLES)
def test_a_lake_table_is_documented_column_by_column_in_its_own_order(name: str) -> None:
    schema = [[field.name, of_arrow(field.type)] for field in TABLES[name]]
    rows = columns_of(LAKE, name, schema)
    assert [row[:2] for row in rows] == schema
    assert all(row[2] for row in rows)


@pytest.mark.parametrize("name", LEDGER_TABLES)
def test_a_ledger_table_is_documented_column_by_column_in_its_own_order(name: str) -> None:
    schema = [[column.name, of_sql(column)] for column in LEDGER_TABLES[name].columns]
    rows = columns_of(LEDGER, name, schema)
    assert [row[:2] for row in rows] == schema
    assert all(row[2] for row in rows)


@pytest.mark.parametrize("file", CSVS, ids=lambda file: file.name)
def test_a_file_of_the_sample_is_documented_column_by_column(file: Path) -> None:
    with file.open(encoding="utf-8", newline="") as lines:
        header = next(csv.reader(lines))
    rows = documented(SAMPLE, file.name)
    assert [row[0] for row in rows] == header
    assert all(row[1] for row in rows)


@pytest.mark.parametrize("file", PIPELINES, ids=lambda file: file.name)
def test_a_real_dataset_is_documented_with_the_columns_that_its_pipeline_file_reads(file: Path) -> None:
    rows = documented(REAL, file.name)
    spec = load(file)
    assert {row[0] for row in rows} == read_by(spec)
    assert len(rows) == len(read_by(spec))
    assert all(row[1] for row in rows)
    zones = {row[0].strip("`"): row[3] for row in overview(REAL)[1]}
    assert zones[file.name] == spec.timezone


@pytest.mark.parametrize("file", PIPELINES, ids=lambda file: file.name)
def test_documented_columns_of_a_real_dataset_exist(file: Path, datasets: Path) -> None:
    names = pq.read_schema(datasets / f"{file.stem}.parquet").names
    assert {row[0] for row in documented(REAL, file.name)} <= set(names)


def test_every_rule_is_documented_with_severity_and_requirement() -> None:
    documented_rules = {}
    for line in QUALITY.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0].strip("`") in RULES:
            documented_rules[cells[0].strip("`")] = (cells[1], cells[2], cells[3], cells[4])
    filled = {name: re.sub(r"{([a-z_]+)(:[^}]*)?}", r"*\1*", rule.wanted) for name, rule in RULES.items()}
    assert documented_rules == {
        name: (rule.severity, filled[name], ", ".join(rule.may), "yes" if rule.releasable else "")
        for name, rule in RULES.items()
    }
