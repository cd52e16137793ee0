"""Detection of stamps that keep one offset from UTC all year, and so fall on the wrong days, while
the clocks of the depots change."""

from __future__ import annotations

from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pandas as pd

from forecaster.demand.parsing import utc_as_z

_DAY, _HOUR = 86_400, 3_600  # s
_TAIL = r"[T ][0-9:.]+ ?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)$"
FEW_DAYS = 3  # fewer stamps may match by chance
_FIRST = 1_000  # instants sampled to check for few times of day
FEW_TIMES = 3  # maximum number of times of day of stamps of days
_ETC = -12, 14  # hours of the offsets that have a zone of their own
Column = Any  # a pandas Series


class FixedOffset(NamedTuple):
    """Offset from UTC in s that stamps keep all year."""

    offset: int
    zone: str | None  # zone with this offset all year; None if there is none
    is_written: bool  # in the stamps themselves
    example: int  # last instant, in s since 1970, that falls on another day at the depots

    def wall_time(self) -> pd.Timestamp:
        """The example as shown by a clock with this offset."""
        return pd.Timestamp(self.example + self.offset, unit="s")


class OffsetStamps:
    """Instants of a feed, block after block, while they are written with one offset, at few times
    of day."""

    def __init__(self) -> None:
        self.open = True
        self._written: int | None = None
        self._seconds: dict[str, Any] = {}  # zone of the depots → distinct instants, s since 1970

    def look_at(self, dates: Column, zone: ZoneInfo | None) -> None:
        """Check instants, or distinct texts with a time of day; without a zone, they are only
        checked."""
        if not (self.open and len(dates)):
            return
        offset = _written_offset(dates)
        self.open = offset is not None and self._written in (None, offset)
        if self.open and zone is not None:
            self._written = offset
            before = self._seconds.get(zone.key, np.zeros(0, np.int64))
            self._seconds[zone.key] = np.union1d(before, _instants(dates))

    def found(self) -> tuple[str, FixedOffset] | None:
        """First zone of depots in which the stamps fall on other days, and their offset."""
        for key, seconds in self._seconds.items() if self.open else ():
            if fixed := fixed_offset(seconds, ZoneInfo(key), self._written or 0):
                return key, fixed
        return None


def of_column(dates: Column, zone: ZoneInfo) -> FixedOffset | None:
    """Offset of the distinct stamps of a column, if they fall on other days in this zone."""
    stamps = OffsetStamps()
    stamps.look_at(dates, zone)
    zone_offset = stamps.found()
    return zone_offset[1] if zone_offset else None


def _written_offset(dates: Column) -> int | None:
    """Offset from UTC in s shared by all of these stamps, at few times of day; 0 for UTC, None if
    there are several offsets, or none."""
    if pd.api.types.is_datetime64_any_dtype(dates):
        is_open = dates.dt.tz is not None and len(np.unique(_instants(dates.head(_FIRST)) % _DAY)) <= FEW_TIMES
        return 0 if is_open else None
    tails = utc_as_z(dates).str.slice(10).drop_duplicates()
    offsets = tails.str.extract(_TAIL)[0].unique()
    if not 1 <= len(tails) <= FEW_TIMES or len(offsets) > 1 or pd.isna(offsets[0]):
        return None
    if offsets[0] == "Z":
        return 0
    digits = offsets[0][1:].replace(":", "").ljust(4, "0")
    return int((1 if offsets[0][0] == "+" else -1) * (int(digits[:2]) * _HOUR + int(digits[2:]) * 60))


def _instants(dates: Column) -> Any:
    """Distinct instants, in s since 1970."""
    if pd.api.types.is_datetime64_any_dtype(dates):
        in_utc = dates.dropna().dt.tz_convert("UTC").dt.tz_localize(None)
    else:
        stamps: Column = pd.to_datetime(utc_as_z(dates), format="ISO8601", errors="coerce", utc=True)
        in_utc = stamps.dropna().dt.tz_localize(None)
    return np.unique(in_utc.to_numpy("datetime64[s]").astype("int64"))


def fixed_offset(seconds: Any, zone: ZoneInfo, written_offset: int) -> FixedOffset | None:
    """Offset of all instants (s since 1970) at few times of day, or in UTC at one time, if their
    days differ from those in the zone of the depots; None otherwise.

    `written_offset` is the offset with which the stamps are written, 0 for UTC. An offset that the zone
    never has belongs to a clock elsewhere. In UTC the stamps may be local midnights during half of
    the year; else they are read in standard time.
    """
    times = np.unique(seconds % _DAY)
    if len(seconds) < FEW_DAYS or len(times) > (FEW_TIMES if written_offset else 1):
        return None
    of_zone = offsets(pd.Timestamp(int(seconds[-1]), unit="s", tz="UTC"), zone)
    midnight = [offset for offset in of_zone if (times[0] + offset) % _DAY == 0]
    offset = written_offset or [*midnight, of_zone[0]][0]
    if offset not in of_zone:
        return None
    local = pd.to_datetime(seconds, unit="s", utc=True).tz_convert(zone).tz_localize(None)
    is_other = (seconds + offset) // _DAY != local.to_numpy("datetime64[D]").astype(np.int64)
    # in UTC, a day that differs all year is due to the zone itself
    if not is_other.any() or (not written_offset and is_other.all()):
        return None
    return FixedOffset(offset, _zone(offset, seconds), bool(written_offset), int(seconds[np.flatnonzero(is_other)[-1]]))


def offsets(newest: pd.Timestamp, zone: ZoneInfo) -> list[int]:
    """Offsets of a zone in the year up to an instant, in s, standard time first."""
    year = pd.date_range(newest - pd.Timedelta(days=360), newest, periods=13)
    return sorted(set(_offsets_at(year, zone)))


def _offsets_at(instants: pd.DatetimeIndex, zone: ZoneInfo) -> list[int]:
    """Offset of a zone in s at each instant."""
    differences = instants.tz_convert(zone).tz_localize(None) - instants.tz_localize(None)
    return [round(difference.total_seconds()) for difference in differences]


def name_of(offset: int) -> str:
    """Name of an offset in s, such as UTC+01:00; UTC for 0."""
    hours, rest = divmod(abs(offset) // 60, 60)
    return f"UTC{'+' if offset > 0 else '-'}{hours:02d}:{rest:02d}" if offset else "UTC"


def _zone(offset: int, seconds: Any) -> str | None:
    """A zone that has this offset at all of these instants."""
    hours, rest = divmod(offset, _HOUR)
    if offset == 0:
        return "UTC"
    if not rest and _ETC[0] <= hours <= _ETC[1]:
        return f"Etc/GMT{-hours:+d}"
    year = pd.to_datetime(np.arange(seconds[0], seconds[0] + 366 * _DAY, 28 * _DAY), unit="s", utc=True)
    places = sorted(name for name in available_timezones() if "/" in name)
    return next((name for name in places if {*_offsets_at(year, ZoneInfo(name))} == {offset}), None)
