"""Readings of a table in long form, with the decisions behind them and the open questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import pandas as pd

from forecaster.demand import parsing
from forecaster.onboarding.description.days import DayColumns
from forecaster.onboarding.description.questions import NO_COLUMN, ONE_A_COLUMN, ROW_COUNT, Question, TableAnswers

_PARTS = 0.1  # share of the depot-days with several rows

Layout = Literal["long", "depots", "days", "single"]


@dataclass(frozen=True)
class Description:
    """Readings of a table in long form, and the decisions behind them. Columns have their names in
    the file."""

    layout: Layout
    depot_column: str | None
    day: DayColumns
    demand_column: str | None
    why_demand: str
    marks: tuple[str | None, str]
    ignored: tuple[str, ...]  # of a wide table
    rows: Any  # depot, day, demand (NaN where empty), moment (text of the date cell)
    where: Mapping[str, Any] = field(default_factory=dict)
    part: str | None = None  # column that distinguishes the rows of a depot and day
    recorded_at: str | None = None  # column of snapshots
    fill_down: bool = False  # for the depot, which is only on the first row of its block
    notes: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()

    @property
    def date_column(self) -> str | None:
        """Column with the day, the first one of three; None if columns are days."""
        return self.day.names[0] if self.day.names else None

    @property
    def date_form(self) -> str | None:
        return self.day.form

    @property
    def rival_form(self) -> str | None:
        return self.day.rival_form

    @cached_property
    def aggregate(self) -> Literal["none", "sum", "count"]:
        """Aggregation of the rows of a depot and day."""
        if self.demand_column is None and self.layout in ("long", "single"):
            return "count"
        if self.recorded_at is not None:
            return "none"
        counted_rows = self.rows[self.rows["demand"].notna()]
        depot_day = pd.DataFrame({name: pd.factorize(counted_rows[name])[0] for name in ("depot", "day")})
        several = depot_day.duplicated(keep=False).to_numpy()
        parts = counted_rows[several].groupby(["depot", "day"], observed=True)
        differing = (
            int(((parts["demand"].nunique() > 1) | (parts["moment"].nunique() > 1)).sum()) if several.any() else 0
        )
        return "sum" if differing > _PARTS * len(depot_day.drop_duplicates()) else "none"

    @property
    def answers(self) -> TableAnswers:
        """Decisions as answers on the command line, with the likeliest choice for each question."""
        site, count_names = self.depot_column, (self.demand_column or ROW_COUNT,)
        if self.layout == "depots":
            site, count_names = ONE_A_COLUMN, tuple(self.rows["depot"].unique())
        elif self.layout == "single":
            site = self.rows["depot"].iloc[0] or NO_COLUMN
        kind = "events" if count_names == (ROW_COUNT,) else "readings"
        count = count_names if self.layout != "days" else None
        answers = TableAnswers(kind, site, self.day.names or None, count, dict(self.where))
        for question in self.questions:
            answers = answers.answered(question.part, question.choices[0].answer)
        return answers


def rows_of(depots: Any, days_of_rows: Any, counts_of_rows: Any, moments: Any) -> Any:
    """Table of depot, day, demand and moment, with one row per count."""
    rows = pd.DataFrame({"demand": counts_of_rows})
    is_series = isinstance(moments, pd.Series)
    return rows.assign(
        depot=depots if isinstance(depots, str) else parsing.words(depots),
        day=days_of_rows,
        moment=moments.astype("str") if is_series else moments,
    )[["depot", "day", "demand", "moment"]]
