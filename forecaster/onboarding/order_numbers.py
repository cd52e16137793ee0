"""Which column numbers the orders of a file with a row an order, so that exports that overlap count
each once."""

from __future__ import annotations

from forecaster.onboarding import column_names, columns
from forecaster.onboarding.description.table import Description
from forecaster.onboarding.tables import FileTable


def of(table: FileTable, readings: Description) -> str | None:
    """A column that numbers orders; None where there is none. An order with several lines has none,
    since its number stands in each of them."""
    if readings.layout not in ("long", "single") or readings.aggregate == "none":
        return None
    used = {readings.depot_column, *readings.day.names, readings.demand_column}
    likely = [name for name in columns.order_numbers(table) if name not in used]
    return min(likely, key=lambda name: not column_names.is_id(name), default=None)
