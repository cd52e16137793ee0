"""Days announced by other sources than the readings, such as events: the midnight of another zone
is the day as written."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from forecaster.demand.parsing import Notation, days, utc_as_z, words
from forecaster.demand.validation.days.stamps import zone_of_days

_WITH_OFFSET = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+ ?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)"
_END_OF_DAY = r".{10}[T ](?:00:00(?::00(?:\.0*)?)?|23:59(?::59(?:\.[0-9]*)?)?|24:00(?::00)?) ?(?:Z|[+-][0-9:]+)"
Column = Any  # a pandas Series


def announced_days(column: Column, zone: ZoneInfo, notation: Notation) -> tuple[Column, Column]:
    """Days of a column, NaT if there is none, and a mark where they differ from the days of the
    instants in the zone.

    If all instants as written are midnight, or the end of a day, their days are the written ones;
    if they are midnights of one other zone, those of that zone.
    """
    local = days(column, zone, notation)
    texts = _texts(column)
    is_instant = local.notna() & texts.str.fullmatch(_WITH_OFFSET).astype(bool)
    if not is_instant.any():
        return local, pd.Series(False, column.index)
    announced = local
    if texts[is_instant].str.fullmatch(_END_OF_DAY).all():
        announced = local.mask(is_instant, days(texts.str.slice(0, 10).where(is_instant, ""), zone))
    elif other := zone_of_days(column, zone):
        announced = days(column, ZoneInfo(other), notation)
    return announced, announced.notna() & (announced != local)


def _texts(column: Column) -> Column:
    """Instants as written; typed ones in UTC."""
    if pd.api.types.is_datetime64_any_dtype(column):
        form = "%Y-%m-%dT%H:%M:%S" + ("Z" if column.dt.tz is not None else "")
        return column.dt.strftime(form).fillna("").astype("str")
    return utc_as_z(words(column))
