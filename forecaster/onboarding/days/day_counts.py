"""Days written as numbers: seconds or milliseconds since 1970, or serial numbers of spreadsheets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from forecaster.config.sources import COUNTED_DAYS
from forecaster.demand import parsing
from forecaster.demand.parsing import Notation
from forecaster.onboarding import column_names, notation
from forecaster.onboarding.tables import FileTable

_YEARS = pd.Timestamp("2000-01-01"), pd.Timestamp("2100-01-01")  # plausible range of such numbers
_FEW_DAYS = 4
_RUN = 0.5  # share of consecutive days, in a column whose name is not that of days
_PARTS = {"unix": 1, "unix_ms": 1000}


def form_of(values: Any) -> str | None:
    """`date_format` by which all of these texts are days of this century; None if there is none."""
    integers = values.str.removesuffix(".0")
    if not len(integers) or not integers.str.fullmatch("[0-9]{5}|[0-9]{9,10}|[0-9]{12,13}").all():
        return None
    for form in COUNTED_DAYS:
        days = parsing.days(integers, ZoneInfo("UTC"), Notation(date_format=form))
        if ((days >= _YEARS[0]) & (days < _YEARS[1])).all():
            return form
    return None


def written_out(table: FileTable) -> FileTable | None:
    """Table with the numbers of a column replaced by days, and its `date_format` in the settings;
    None if no column counts days, by its name or as a run of days, or if the file is not a text
    file."""
    if table.settings["kind"] == "parquet":
        return None
    texts = {name: notation.distinct(table.frame[name]) for name in table.frame}
    forms = {name: form for name, values in texts.items() if (form := form_of(values))}
    names = column_names.best([*forms], "date") or [name for name, form in forms.items() if _is_run(texts[name], form)]
    if not names:
        return None
    name, form = names[0], forms[names[0]]
    frame = table.frame.assign(**{name: _written(table.frame[name], form)})
    return replace(table, frame=frame, settings={**table.settings, "date_format": form})


def _is_run(values: Any, form: str) -> bool:
    days = parsing.days(values, ZoneInfo("UTC"), Notation(date_format=form))
    gaps = np.diff(np.unique(parsing.day_numbers(days.to_numpy())))
    return len(gaps) >= _FEW_DAYS and bool((gaps == 1).mean() > _RUN)


def _written(column: Any, form: str) -> Any:
    """Days, or instants in UTC, in ISO 8601."""
    if form not in _PARTS:
        days = parsing.days(column, ZoneInfo("UTC"), Notation(date_format=form))
        return days.dt.strftime("%Y-%m-%d").astype("str")
    seconds = parsing.numbers(column) // _PARTS[form]
    stamps = pd.to_datetime(seconds, unit="s", utc=True)
    return stamps.dt.strftime("%Y-%m-%dT%H:%M:%SZ").astype("str")
