"""The section `legacy` of the pipeline file: forecasts of another system, for comparison with ours."""

from __future__ import annotations

from typing import Self

from pydantic import field_validator, model_validator

from forecaster.config.base import Section
from forecaster.config.sources import Source, check_distinct, whole_rows


class LegacyColumns(Section):
    depot_id: str = "depot_id"
    """Column with the depot."""
    date: str = "date"
    """Column with the local calendar day of the forecast."""
    forecast: str = "forecast"
    """Column with the forecast number of orders."""
    made_on: str | None = None
    """Column with the day on which the forecast was made: ours is compared with the newest one
    before its morning. Without it, all of our forecasts of a day are compared with one number."""


class Legacy(Section):
    source: Source
    """One row for each depot and day and, with `made_on`, for each day on which a forecast was
    made."""
    columns: LegacyColumns = LegacyColumns()
    """Names of the source's columns."""

    @field_validator("source")
    @classmethod
    def _whole(cls, source: Source) -> Source:
        return whole_rows(source)

    @model_validator(mode="after")
    def _columns_differ(self) -> Self:
        columns = self.columns
        names = (columns.depot_id, columns.date, columns.forecast, columns.made_on)
        check_distinct([name for name in names if name])
        return self
