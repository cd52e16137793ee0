"""CSV as the page sends it, written by `forecaster.staffing.csv_sheet` so that spreadsheets execute
none of it."""

from __future__ import annotations

from forecaster.staffing.csv_sheet import FORMULA, CsvSheet, cell, harmless, sheet

__all__ = ["FORMULA", "MEDIA_TYPE", "CsvSheet", "cell", "harmless", "sheet"]

MEDIA_TYPE = "text/csv; charset=utf-8; header=present"
