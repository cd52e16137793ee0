"""Day of a row: the column, or the three columns, that hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forecaster.demand.arrangement import joined_days
from forecaster.onboarding import column_names, notation
from forecaster.onboarding.columns import Column
from forecaster.onboarding.description.questions import Choice, Question, TableAnswers

_PARTS = {
    "year": "year jahr annee ano anno jaar rok yil",
    "month": "month monat mois mes mese maand miesiac mesic ay",
    "day": "day tag jour dia giorno dag dzien den gun",
}
_SAME = 0.95  # share of the rows in which two columns hold the same day


@dataclass(frozen=True)
class DayColumns:
    """Columns that hold the day, the days, and the original texts."""

    names: tuple[str, ...]
    values: Any  # days, NaT if unreadable
    moments: Any
    form: str | None = None
    rival_form: str | None = None

    @property
    def answer(self) -> str:
        return ",".join(self.names)

    @property
    def sample(self) -> str:
        """First day, for messages."""
        valid_days = self.values.dropna()
        return f"{valid_days.iloc[0]:%Y-%m-%d}" if len(valid_days) else "no day"


def candidates(columns: Mapping[str, Column], answers: TableAnswers) -> list[DayColumns]:
    """Columns of days, the likeliest first: by name, then by position; without columns that hold
    the same days as an earlier one, and without recording times if there are others."""
    if answers.day is not None:
        return [_of(answers.day, columns)]
    dated = [name for name, column in columns.items() if column.dates is not None]
    exact = [name for name in dated if not _is_of_recording(name)] or dated
    ranked = column_names.best(exact, "date")
    names = [*ranked, *(name for name in exact if name not in ranked)]
    day_columns = [_of((name,), columns) for name in names]
    triple = _triple(columns)
    if triple is not None and not any(_same(triple, candidate) for candidate in day_columns):
        best_is_exact = names and column_names.rank(names[0], "date") < column_names.INEXACT
        day_columns = [*day_columns, triple] if best_is_exact else [triple, *day_columns]
    return [
        candidate
        for place, candidate in enumerate(day_columns)
        if not any(_same(candidate, other) for other in day_columns[:place])
    ]


def question(day_columns: list[DayColumns]) -> Question | None:
    """Question for the relevant day, if several columns hold different days."""
    if len(day_columns) < 2:
        return None
    choices = tuple(
        Choice(candidate.answer, f"first row: {candidate.sample}" + _of_recording(candidate.names[0]))
        for candidate in day_columns
    )
    return Question("day", "which column contains the day of a row?", choices)


def _is_of_recording(name: str) -> bool:
    return any(column_names.says(name, role) for role in ("recorded", "snapshot"))


def _of_recording(name: str) -> str:
    return ", possibly the recording date" if _is_of_recording(name) else ""


def _of(names: tuple[str, ...], columns: Mapping[str, Column]) -> DayColumns:
    if len(names) == 3:
        texts = joined_days(*(columns[name].values for name in names))
        return DayColumns(names, notation.days(texts, None), texts)
    column = columns[names[0]]
    form = column.dates.form if column.dates else None
    rival = column.dates.rival if column.dates else None
    return DayColumns(names, notation.days(column.values, form), column.values, form, rival)


def _triple(columns: Mapping[str, Column]) -> DayColumns | None:
    """Year, month and day in three columns whose names differ only in that word."""
    for name in columns:
        stem = _stem(name, "year")
        if stem is None:
            continue
        other_columns = [[other for other in columns if _stem(other, part) == stem] for part in ("month", "day")]
        if all(other_columns):
            names = (name, other_columns[0][0], other_columns[1][0])
            days = _of(names, columns)
            if days.values.notna().mean() > _SAME:
                return days
    return None


def _stem(name: str, part: str) -> str | None:
    """Words of a name without its word for a part of the day; None if it has none."""
    tokens = column_names.normalized(name).split("_")
    rest = [word for word in tokens if word not in _PARTS[part].split()]
    return "_".join(rest) if len(rest) == len(tokens) - 1 else None


def _same(first: DayColumns, second: DayColumns) -> bool:
    is_known = first.values.notna() & second.values.notna()
    return bool(
        is_known.any()
        and (first.values[is_known].dt.normalize() == second.values[is_known].dt.normalize()).mean() > _SAME
    )
