"""Contradictions between a pipeline file and its table: rows that the table itself would exclude
and the declaration counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from forecaster.config import Spec
from forecaster.config.demand import Excluded
from forecaster.config.sources import CsvSource, ExcelSource, ParquetSource
from forecaster.errors import ForecasterError
from forecaster.onboarding import tables
from forecaster.onboarding.description import filters
from forecaster.onboarding.description.questions import NO_COLUMN, ROW_COUNT, TableAnswers, written
from forecaster.onboarding.description.readings import Description
from forecaster.onboarding.description.table import describe

_LARGE = 16 << 20  # bytes of a file that takes too long to describe


def of(spec: Spec) -> list[str]:
    """Sentences about rows that the demand source's table excludes or repeats by its own evidence,
    and that the pipeline file counts. Empty for a source that is not a single file, is larger than
    16 MiB, or has one column per depot."""
    source = spec.demand.source
    if not isinstance(source, CsvSource | ExcelSource | ParquetSource) or source.wide:
        return []
    path = spec.folder / Path(source.path).expanduser()
    try:
        if not path.is_file() or path.stat().st_size > _LARGE:
            return []
        table, declared = tables.read(path), _declared(spec)
        if declared.where:
            table = replace(table, frame=table.frame[filters.mask(table.frame, declared.where)].reset_index(drop=True))
        description = describe(table, declared)
    except (ForecasterError, OSError):  # unreadable files are reported by `check`
        return []
    return _sentences(description, spec)


def _declared(spec: Spec) -> TableAnswers:
    """Declaration as answers that replace the table's own evidence."""
    columns = spec.demand.columns
    count = ROW_COUNT if spec.demand.aggregate == "count" else columns.demand
    where = {name: _condition(condition) for name, condition in spec.demand.where.items()}
    rows = {"count": "events", "none": "readings"}.get(spec.demand.aggregate)
    site = NO_COLUMN if spec.demand.depot else columns.depot_id
    return TableAnswers(rows=rows, site=site, day=columns.day_columns, count=(count,), where=where)


def _condition(condition: Any) -> Any:
    return {"not": list(condition.values)} if isinstance(condition, Excluded) else list(condition)


def _sentences(description: Description, spec: Spec) -> list[str]:
    """Contradictions in a description that follows the declaration."""
    left_out: Mapping[str, Any] = {
        name: values for name, values in description.where.items() if name not in spec.demand.where
    }
    sentences = [
        f"the table indicates that only rows where {written(name, values)} count, but the pipeline file counts all "
        "rows: set demand.where"
        for name, values in left_out.items()
    ]
    version = description.recorded_at
    if version is not None and spec.demand.columns.recorded_at is None:
        sentences.append(
            f"days repeat with different values of '{version}', as in snapshots: set demand.columns.recorded_at: "
            f"{version}"
        )
    open_ = [question for question in description.questions if question.part == "where"]
    return sentences + [f"open question in the table, answered by demand.where: {question.text}" for question in open_]
