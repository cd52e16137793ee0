"""Column of order numbers in a file with one row per order, so that overlapping exports count each
order once."""

from __future__ import annotations

from forecaster.onboarding import column_names, columns
from forecaster.onboarding.description.readings import Description
from forecaster.onboarding.tables import FileTable

_SOME, _LARGE = 20, 20  # repeated instants, and their median count: small counts coincide by chance
_NEARLY_ALL = 0.95


def of(table: FileTable, readings: Description) -> str | None:
    """Column that numbers orders; None if there is none. Order lines have none, since the order's
    number repeats in each of them."""
    if readings.layout not in ("long", "single") or readings.aggregate == "none":
        return None
    if readings.aggregate == "sum" and readings.part is None and _repeats_instants(readings):
        return readings.date_column
    used = {readings.depot_column, *readings.day.names, readings.demand_column}
    likely = [name for name in columns.order_numbers(table) if name not in used]
    return min(likely, key=lambda name: not column_names.is_id(name), default=None)


def _repeats_instants(readings: Description) -> bool:
    """True if some instants have several rows, nearly all with the same count."""
    rows = readings.rows[readings.rows["demand"] > 0]
    instants = rows.groupby(["depot", "moment"], observed=True)["demand"].agg(["size", "nunique"])
    several = instants[instants["size"] > 1]
    if len(several) < _SOME or rows["moment"].nunique() == rows["day"].nunique():
        return False
    return bool((several["nunique"] == 1).mean() > _NEARLY_ALL and rows["demand"].median() >= _LARGE)
