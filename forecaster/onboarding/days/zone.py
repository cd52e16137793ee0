"""Days of instants with an offset: days of the pipeline's zone, or of a zone in which they are
midnights or keep one offset all year."""

from __future__ import annotations

from dataclasses import replace
from zoneinfo import ZoneInfo

from forecaster.demand import parsing
from forecaster.demand.validation.days import stamps as day_stamps
from forecaster.onboarding.description.readings import Description

WITH_OFFSET = r"[T ][0-9:.]+ ?(?:Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)$"


def on_days_of(readings: Description, zone: ZoneInfo) -> tuple[Description, str | None]:
    """Readings on days of this zone, or of another one in which all instants are midnights or keep
    one time of day; also return that other zone."""
    moments = readings.rows["moment"]
    if readings.layout == "days" or readings.date_form or not moments.str.contains(WITH_OFFSET).any():
        return readings, None
    other = day_stamps.zone_of_days(moments, zone) or day_stamps.zone_of_fixed_offset(moments, zone)
    days = parsing.days(moments, ZoneInfo(other) if other else zone)
    return replace(readings, rows=readings.rows.assign(day=days)), other
