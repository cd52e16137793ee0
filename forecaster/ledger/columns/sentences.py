"""Columns for a sentence: its English text, and its template with values as JSON, for translation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from forecaster.core.language.sentences import MADE_OF, restored, stored


def sentence_columns(name: str, *, nullable: bool = True) -> tuple[sa.Column[str], sa.Column[Any]]:
    """Return the column of the text, and that of its template."""
    return sa.Column(name, sa.Text, nullable=nullable), sa.Column(_beside(name), sa.JSON(none_as_null=True))


def sentence_values(name: str, text: str | None) -> dict[str, Any]:
    """Values of both columns."""
    return {name: None if text is None else str(text), _beside(name): stored(text)}


def with_sentence(row: Mapping[Any, Any], name: str) -> dict[str, Any]:
    """Return a row with its sentence restored from both columns, without the template's column."""
    values = dict(row)
    made_of = values.pop(_beside(name))
    return values if values[name] is None else {**values, name: restored(made_of, values[name])}


def _beside(name: str) -> str:
    return f"{name}_{MADE_OF}"
