"""The section `legacy` of the pipeline file: forecasts of another system, for comparison with ours."""

from __future__ import annotations

from forecaster.config.sources import TableColumns, WholeSource, WholeTable


class LegacyColumns(TableColumns):
    depot_id: str = "depot_id"
    """Column with the depot."""
    date: str = "date"
    """Column with the local calendar day of the forecast."""
    forecast: str = "forecast"
    """Column with the forecast number of orders."""
    made_on: str | None = None
    """Column with the day on which the forecast was made: ours is compared with the newest one
    before its morning. Without it, all of our forecasts of a day are compared with one number."""


class Legacy(WholeTable):
    source: WholeSource
    """One row for each depot and day and, with `made_on`, for each day on which a forecast was
    made."""
    columns: LegacyColumns = LegacyColumns()
    """Names of the source's columns."""
