"""Tables in shapes found in practice are counted correctly, or a question is asked; none is
silently wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from forecaster.config import load
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.errors import SpecError
from forecaster.onboarding import contradictions, order_numbers, parts, start, tables
from forecaster.onboarding.days import business_day
from forecaster.onboarding.description.questions import OpenQuestions, TableAnswers
from forecaster.onboarding.description.readings import Description
from forecaster.onboarding.description.table import describe
from forecaster.onboarding.tables import FileTable
from tests.onboarding.shapes import FIRST, Shape, Truth, shapes

SHAPES = shapes()
NOW = datetime(2026, 4, 3, 12, tzinfo=UTC)


def counted(table: FileTable, description: Description) -> Truth:
    rows = description.rows[description.rows["demand"].notna() & description.rows["day"].notna()]
    if description.aggregate == "none":
        rows = rows.drop_duplicates(["depot", "day"], keep="last")
    elif order_numbers.of(table, description) == description.date_column:
        rows = rows.drop_duplicates(["depot", "moment"], keep="last")
    sums = rows.groupby([rows["depot"], rows["day"].dt.date])["demand"].sum()
    return {(str(depot), day): float(value) for (depot, day), value in sums.items()}


def outcome(folder: Path, shape: Shape) -> str:
    """Right, asked, rejected or wrong."""
    file = folder / "table.csv"
    file.write_text(shape.text, "utf-8")
    try:
        table, description, _ = parts.sort([tables.read(file)], TableAnswers())
    except SpecError:
        return "refused"
    if description.questions:
        return "asked"
    description, _ = business_day.of(description)
    return "right" if counted(table, description) == shape.truth else "wrong"


def test_no_table_is_silently_wrong_and_most_need_no_question(tmp_path: Path) -> None:
    outcomes = {shape.name: outcome(tmp_path, shape) for shape in SHAPES}
    assert len(outcomes) >= 60
    assert [name for name, result in outcomes.items() if result == "wrong"] == []
    assert [shape.name for shape in SHAPES if shape.is_clear and outcomes[shape.name] != "right"] == []
    assert sum(result == "right" for result in outcomes.values()) >= 0.7 * len(outcomes)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if not shape.is_clear], ids=lambda shape: shape.name)
def test_each_answer_settles_its_question(tmp_path: Path, shape: Shape) -> None:
    file = tmp_path / "table.csv"
    file.write_text(shape.text, "utf-8")
    table = tables.read(file)
    for question in describe(table).questions:
        for choice in question.choices:
            answered = describe(table, TableAnswers().answered(question.part, choice.answer))
            assert question not in answered.questions, choice
    assert describe(table, describe(table).answers).questions == ()


WITH_MORE = {  # shape → rows that count
    "long with a total as site": "depot!=All depots",
    "metric column": "metric=orders",
    "plan and actual": "scenario=actual",
    "channels and their total": "channel!=all",
    "orders with states": "status!=refunded,cancelled",
}


@pytest.mark.parametrize("name", WITH_MORE)
def test_reports_a_declaration_that_counts_rows_the_table_excludes(tmp_path: Path, name: str) -> None:
    shape = next(shape for shape in SHAPES if shape.name == name)
    (tmp_path / "table.csv").write_text(shape.text, "utf-8")
    description = describe(tables.read(tmp_path / "table.csv"))
    columns = f"depot_id: {description.depot_column}, date: {description.date_column}"
    columns += f", demand: {description.demand_column}" if description.demand_column else ""
    demand = f"source: {{kind: csv, path: table.csv}}, columns: {{{columns}}}, aggregate: {description.aggregate}"
    file = tmp_path / "pipeline.yaml"
    file.write_text(f"name: shape\ntimezone: Europe/Berlin\ndemand: {{{demand}}}\n", "utf-8")
    (sentence,) = contradictions.of(load(file))
    assert f"only rows where {WITH_MORE[name]} count, but the pipeline file counts all rows" in sentence


@pytest.mark.long
@pytest.mark.parametrize(
    "shape",
    [
        # The first test of this file reads and counts every table: here one of three is also
        # ingested into a lake.
        pytest.param(shape, id=shape.name, marks=pytest.mark.exhaustive if number % 3 else [])
        for number, shape in enumerate(SHAPES)
    ],
)
def test_ingested_counts_equal_the_truth(tmp_path: Path, shape: Shape) -> None:
    """Uses the pipeline file that `init` writes; for a question the likeliest answer or the
    rejection."""
    file = tmp_path / "table.csv"
    file.write_text(shape.text, "utf-8")
    try:
        start.create([file], tmp_path / "fleet", country=None, ask=None, now=NOW)
    except OpenQuestions:
        assert not shape.is_clear
        return
    spec = load(tmp_path / "fleet" / start.PIPELINE)
    assert contradictions.of(spec) == []
    ingest(spec, now=NOW)
    table = read_as_of(spec, as_of=NOW).demand
    table = table[table["demand"].notna()]
    got = {
        ("" if spec.demand.depot else str(depot), day.date()): float(count)
        for depot, day, count in zip(table["depot_id"], table["date"], table["demand"], strict=True)
    }
    differing = {key for key in {*got, *shape.truth} if got.get(key) != shape.truth.get(key)}
    assert {day for _, day in differing} <= {FIRST, max(day for _, day in shape.truth)}
    assert len(differing) <= 4
