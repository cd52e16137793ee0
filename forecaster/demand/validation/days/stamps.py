"""Detection of instants that are days: all are midnight in UTC or in another zone than the depot's,
or midnight at the depots but written in UTC without stating it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pandas as pd

from forecaster.config import CsvSource, Spec
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.demand.parsing import utc_as_z
from forecaster.demand.validation.days import fixed_offset
from forecaster.demand.validation.days.fixed_offset import FixedOffset, OffsetStamps
from forecaster.demand.validation.feed_shape import batch_finding

NEARLY_ALL = 0.95  # share of the instants that must be midnight in one zone
FEW_DAYS = 3  # fewer instants may be midnight by chance
LOOKED_AT = 1_000  # instants sampled to find a zone
_DAY = 86_400
_OFFSET = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ].*(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)"
_DAY_ALONE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_NO_OFFSET = _DAY_ALONE + r"[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]*)?)?"
_UTC = r"(?:Z|[+-]00(?::?00)?)$"
_MIDNIGHT = r"[T ]00:00(?::00(?:\.0*)?)?(?: ?Z|[+-][0-9:]+)$"
_COMMON = (
    *("UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/Chicago", "America/Denver"),
    *("America/Los_Angeles", "America/Sao_Paulo", "Asia/Kolkata", "Asia/Shanghai", "Asia/Tokyo", "Australia/Sydney"),
    *("Europe/Helsinki", "Europe/Moscow"),
)
Column = Any  # a pandas Series


class DayStamps:
    """Instants of a feed, block after block, while they may be the midnights of one zone."""

    def __init__(self, spec: Spec) -> None:
        source = spec.demand.source
        self._form = source.date_format if isinstance(source, CsvSource) else None
        self._is_undeclared = spec.demand.date_zone is None
        self._open, self._walls_open = self._is_undeclared, True
        # zone of the depots → distinct instants, s since 1970
        self._seconds: dict[str, pd.Index[Any]] = {}
        self._walls: dict[str, pd.Index[Any]] = {}  # same for times without a zone, read as UTC
        self._of_one_offset = OffsetStamps()
        self.rows = 0

    def look_at(self, dates: Column, zone: ZoneInfo) -> None:
        """Check the dates of a block, of depots in one zone."""
        if not (len(dates) and self._is_any_open()):
            return
        self.rows += len(dates)
        head = self._read(dates.head(LOOKED_AT))
        self._open = self._open and _may_be_days(_instants(head))
        self._walls_open = self._walls_open and _may_be_days(_wall_times(head))
        self._of_one_offset.look_at(head, None)
        if not self._is_any_open():
            return
        dates = self._read(dates)  # only once: there may be millions
        self._of_one_offset.look_at(dates, zone)
        if self._open:
            self._open = _gather(_instants(dates), zone, self._seconds)
        if self._walls_open:
            self._walls_open = _gather(_wall_times(dates), zone, self._walls)

    def _is_any_open(self) -> bool:
        return self._open or self._walls_open or (self._of_one_offset.open and self._is_undeclared)

    def _read(self, dates: Column) -> Column:
        if pd.api.types.is_datetime64_any_dtype(dates):
            return dates
        times = _times(dates)
        return times if self._form is None or times.empty else _as_declared(times, self._form)

    def findings(self, spec: Spec) -> list[Finding]:
        """Finding if the instants are days of another zone, and fall on other days in the zone of
        their depots.

        If clocks of UTC or of the depots show the same time for all of them, such as a shop's
        closing time, and the zone is not UTC, they may be real instants, and the finding only
        warns.
        """
        for key, seconds in self._walls.items() if self._walls_open else ():
            if finding_of_walls := _of_walls(seconds, ZoneInfo(key), self.rows, spec):
                return [finding_of_walls]
        for zone, seconds in self._seconds.items() if self._open else ():
            stamps = _stamps(seconds)
            local = stamps.tz_convert(zone)
            other = _other_zone(stamps, local)
            if other is None:
                continue
            day = _days(stamps, other)[-1]
            template = N_("found only midnights in {zone}, such as {day}, which is {time} in {local}")
            time = f"{local[-1]:%Y-%m-%d %H:%M}"
            detail = sentence(template, zone=other, day=day.date(), time=time, local=zone)
            hint = sentence(N_("set demand.date_zone: {zone}"), zone=other)
            finding = batch_finding("day_stamps", self.rows, detail, hint, spec)
            if _may_be_instants(stamps, local, other) and finding.severity == "stop":
                finding = Finding(finding.rule, "warn", finding.count, finding.message)
            return [finding]
        zone_offset = self._of_one_offset.found() if self._is_undeclared else None
        return [_of_fixed_offset(*zone_offset, self.rows, spec)] if zone_offset else []


def _of_fixed_offset(key: str, fixed: FixedOffset, rows: int, spec: Spec) -> Finding:
    """Finding about stamps that keep one offset while the clocks of the depots change; in UTC they
    may be real instants, and it only warns."""
    wall, local = fixed.wall_time(), pd.Timestamp(fixed.example, unit="s", tz="UTC").tz_convert(key)
    template = N_(
        "found the offset {offset} at all times of the year, such as {time}, which is {local_time} in {local}"
    )
    values = {"offset": fixed_offset.name_of(fixed.offset), "time": f"{wall:%Y-%m-%d %H:%M}", "local": key}
    detail = sentence(template, **values, local_time=f"{local:%Y-%m-%d %H:%M}")
    hint = sentence(N_("write the day alone, as in {day}"), day=wall.date())
    if fixed.zone:
        hint = sentence(N_("set demand.date_zone: {zone}"), zone=fixed.zone)
    finding = batch_finding("day_stamps", rows, detail, hint, spec)
    is_clear = fixed.is_written or finding.severity != "stop"
    return finding if is_clear else replace(finding, severity="warn")


def _may_be_days(seconds: Any) -> bool:
    return seconds is not None and (not len(seconds) or _two_times_of_day(seconds))


def _gather(seconds: Any, zone: ZoneInfo, times_by_zone: dict[str, pd.Index[Any]]) -> bool:
    """Add times to those of a zone; return whether all may still be days. None stands for
    unsuitable times."""
    if not _may_be_days(seconds):
        return False
    if len(seconds):
        times_by_zone[zone.key] = times_by_zone.get(zone.key, pd.Index([], dtype="int64")).union(pd.Index(seconds))
    return True


def _of_walls(seconds: Any, zone: ZoneInfo, rows: int, spec: Spec) -> Finding | None:
    """Finding if times without a zone are midnights of the depots' zone in UTC, or in an offset of
    the zone in the other half of the year, and fall on the day before; if they are at one time, at
    which counts may be taken as well, it only warns."""
    stamps = _stamps(seconds)
    is_one_time = _at_one_time(stamps)
    # their meaning is declared
    if len(stamps) < FEW_DAYS or (spec.demand.date_zone is not None and is_one_time):
        return None
    offsets = [] if is_one_time else fixed_offset.offsets(stamps[-1], zone)
    for offset in dict.fromkeys([0, *offsets]):
        local = (stamps - pd.Timedelta(seconds=offset)).tz_convert(zone)
        if not _is_midnight(local) or (_wall_days(stamps) == _wall_days(local)).all():
            continue
        last = np.flatnonzero(_wall_days(stamps) != _wall_days(local))[-1]
        template = N_(
            "found times without a zone that are midnights in {local} if they are in {offset}, as {time} is of {day}"
        )
        time, day = f"{stamps[last]:%Y-%m-%d %H:%M}", local[last].date()
        offset_name = fixed_offset.name_of(offset)
        detail = sentence(template, local=zone.key, offset=offset_name, time=time, day=day)
        example = f"{stamps[last]:%Y-%m-%dT%H:%M:%S}{offset_name.removeprefix('UTC') or 'Z'}"
        hint = sentence(N_("write them with their zone, as in {example}"), example=example)
        finding = batch_finding("day_stamps", rows, detail, hint, spec)
        return replace(finding, severity="warn") if is_one_time and finding.severity == "stop" else finding
    return None


def _wall_times(dates: Column) -> Any:
    """Distinct times without a zone, read as UTC, not counting days alone; None if there are
    others."""
    if pd.api.types.is_datetime64_any_dtype(dates):
        if dates.dt.tz is not None:
            return None
        head, seconds = (
            part.to_numpy("datetime64[s]").astype("int64") for part in (dates.dropna().head(LOOKED_AT), dates.dropna())
        )
        if not (head % _DAY).any():
            return head[:0]
        return np.unique(seconds) if _two_times_of_day(head) else None
    text = _times(dates)
    head = text.head(LOOKED_AT)
    if len(head) and head.str.fullmatch(_NO_OFFSET).mean() < NEARLY_ALL:
        return None
    if not _two_times_of_day(_parsed(head)):
        return None
    return np.unique(_parsed(text))


def _as_declared(text: Column, form: str) -> Any:
    """Times in the form that the source declares; none for a form without a time of day."""
    if form in ("unix", "unix_ms"):
        seconds = pd.to_numeric(text.where(text.str.fullmatch(r"[0-9]{1,14}")), errors="coerce")
        return pd.to_datetime(
            seconds.dropna() // (1000 if form == "unix_ms" else 1), unit="s", utc=True, errors="coerce"
        )
    if "%H" not in form and "%I" not in form:
        return pd.Series([], dtype="datetime64[s]")
    return pd.to_datetime(text, format=form, errors="coerce")


def _parsed(text: Column) -> Any:
    stamps = pd.to_datetime(text.where(text.str.fullmatch(_NO_OFFSET)), format="ISO8601", errors="coerce").dropna()
    return stamps.to_numpy("datetime64[s]").astype("int64")


def _times(dates: Column) -> Any:
    """Distinct texts that are more than a day."""
    text = pd.Series(pd.unique(dates.dropna())).astype("str").str.strip().drop_duplicates()
    return text[(text != "") & ~text.str.fullmatch(_DAY_ALONE).astype(bool)]


def zone_of_days(dates: Column, zone: ZoneInfo) -> str | None:
    """Zone in which the instants of a column are days, if they fall on other days in this zone;
    None if they do not, or may be real instants."""
    seconds = _instants(dates)
    if seconds is None or not len(seconds) or not _two_times_of_day(seconds):
        return None
    stamps = _stamps(seconds)
    other = _other_zone(stamps, stamps.tz_convert(zone))
    return other if other and not _may_be_instants(stamps, stamps.tz_convert(zone), other) else None


def zone_of_fixed_offset(dates: Column, zone: ZoneInfo) -> str | None:
    """Zone with the offset in which stamps are written all year, if they fall on other days in this
    zone."""
    fixed = fixed_offset.of_column(dates, zone)
    return fixed.zone if fixed and fixed.is_written else None


def _instants(dates: Column) -> Any:
    """Distinct instants; None if they are not midnights as written, or have no zone."""
    if pd.api.types.is_datetime64_any_dtype(dates):
        if dates.dt.tz is None:
            return None
        if str(dates.dt.tz) != "UTC" and not _is_midnight(pd.DatetimeIndex(dates.dropna().head(LOOKED_AT))):
            return None
        in_utc = dates.dropna().dt.tz_convert("UTC").dt.tz_localize(None).to_numpy("datetime64[s]")
        return np.unique(in_utc.astype("int64"))
    text = utc_as_z(_times(dates))
    head = text.head(LOOKED_AT)
    if text.empty:
        return np.zeros(0, np.int64)
    is_written_so = max(head.str.contains(_UTC).mean(), head.str.contains(_MIDNIGHT).mean()) >= NEARLY_ALL
    if not (is_written_so and head.str.fullmatch(_OFFSET).mean() >= NEARLY_ALL):
        return None
    stamps = pd.to_datetime(text.where(text.str.fullmatch(_OFFSET)), format="ISO8601", errors="coerce", utc=True)
    return np.unique(stamps.dropna().dt.tz_localize(None).to_numpy("datetime64[s]").astype("int64"))


def _two_times_of_day(seconds: Any) -> bool:
    """True if nearly all instants are at two times of day at most, like midnights of a zone with
    summer time."""
    counts = np.sort(np.unique(seconds % _DAY, return_counts=True)[1])
    return bool(counts[-2:].sum() >= NEARLY_ALL * counts.sum())


def _stamps(seconds: Any) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(pd.to_datetime(seconds[-LOOKED_AT:], unit="s", utc=True))


def _other_zone(stamps: pd.DatetimeIndex, local: pd.DatetimeIndex) -> str | None:
    """Zone in which they are midnights, if those are other days than the local ones."""
    other = None if len(stamps) < FEW_DAYS or _is_midnight(local) else _zone_of_midnights(stamps)
    is_other = other is not None and bool((local.tz_localize(None).normalize() != _days(stamps, other)).any())
    return other if is_other else None


def _may_be_instants(stamps: pd.DatetimeIndex, local: pd.DatetimeIndex, other: str) -> bool:
    return other != "UTC" and (_at_one_time(stamps) or _at_one_time(local))


def _zone_of_midnights(stamps: pd.DatetimeIndex) -> str | None:
    # every time is midnight in some distant zone
    zones = _COMMON if _at_one_time(stamps) else _zones()
    return next((zone for zone in zones if _is_midnight(stamps.tz_convert(zone))), None)


def _zones() -> Iterator[str]:
    """Zones, the most likely ones first."""
    yield from _COMMON
    yield from sorted(zone for zone in available_timezones() if "/" in zone and zone not in _COMMON)


def _at_one_time(local: pd.DatetimeIndex) -> bool:
    return bool((local.hour == local[0].hour).mean() >= NEARLY_ALL)


def _is_midnight(local: pd.DatetimeIndex) -> bool:
    return bool((local.tz_localize(None) == _wall_days(local)).mean() >= NEARLY_ALL)


def _days(stamps: pd.DatetimeIndex, zone: str) -> pd.DatetimeIndex:
    return _wall_days(stamps.tz_convert(zone))


def _wall_days(local: pd.DatetimeIndex) -> pd.DatetimeIndex:
    return local.tz_localize(None).normalize()
