"""Words among counts: the day was closed, or the count is unknown."""

from __future__ import annotations

from forecaster.onboarding import column_names, columns
from forecaster.onboarding.description.readings import Description
from forecaster.onboarding.tables import FileTable


def of(table: FileTable, description: Description) -> tuple[list[str], list[str]]:
    """Words for closed days, and words for unknown counts, in the column of counts."""
    column = columns.of(table).get(description.demand_column or "")
    if column is None or column.is_typed:
        return [], []
    texts = column.values.dropna().astype("str").str.strip()
    labels = [text for text in texts[~texts.str.contains("[0-9]")].unique() if text]
    closed = [text for text in labels if column_names.is_word(text, "closed_word")]
    unknown = [text for text in labels if text.casefold() in column_names.WORDS["unknown_word"].split()]
    return closed, unknown
