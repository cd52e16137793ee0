"""The lake: append-only Delta tables, their schemas, and time limits for an object store."""

from forecaster.lake.store import KEPT_HOURS, NOT_THERE, Lake
from forecaster.lake.tables import TABLES, YEAR

__all__ = ["KEPT_HOURS", "NOT_THERE", "TABLES", "YEAR", "Lake"]
