"""Type coercion: parse a column's values as words, numbers, yes or no, calendar days or instants.

Sources deliver text or typed values. Empty values become "", NaN or NaT; unreadable values become
infinite (numbers) or NaT (days, instants), for the caller to reject. Every distinct value is parsed
once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.config import AnySource, WrittenSource
from forecaster.config.sources import COUNTED_DAYS
from forecaster.demand.long_dates import plain_dates
from forecaster.demand.number_marks import MARKS_SHARE, without_marks

Kind = Literal["double", "string"]
Column = Any  # a pandas Series
LONGEST = 200  # characters of a depot id
_DIGITS = 400  # characters of a number; a longer one overflows a double or is no count
_LAST_SECOND = 4_102_444_800  # since 1970: the end of 2099
MANY_DAYS = 20_000  # days from the first to the last one; above that, no lookup table is built
_ENDS = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31, in days since 1970
_ZONED = _ENDS[0] + 2, _ENDS[1] - 2  # days that are within the calendar in every zone
_BUDDHIST = 198_327, 246_172  # 2513-01-01 and 2643-12-31: years of the Buddhist era, 543 ahead
_PARTS_OF_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


@dataclass(frozen=True)
class Notation:
    """Notation of numbers and days in a source's text."""

    thousands: str | None = None
    decimal: str = "."
    date_format: str | None = None  # strftime format or one of COUNTED_DAYS; None: ISO 8601
    of_sheet: bool = False  # days may also be ISO 8601 or Excel's serial numbers

    @classmethod
    def of(cls, source: AnySource) -> Notation:
        """Notation that the source declares; only text sources have one."""
        if not isinstance(source, WrittenSource):
            return cls()
        return cls(source.thousands, source.decimal, source.date_format, of_sheet=source.kind == "excel")

    @property
    def day(self) -> str:
        """Example of a day in this notation, for messages."""
        return COUNTED_DAYS.get(self.date_format or "") or datetime(2024, 3, 5, tzinfo=UTC).strftime(self.written_form)

    @property
    def written_form(self) -> str:
        """strftime format of days in this notation; for counted days ISO 8601, which is accepted
        too."""
        return "%Y-%m-%d" if self.date_format is None or self.date_format in COUNTED_DAYS else self.date_format


PLAIN = Notation()


def kind_of(column: Column, notation: Notation = PLAIN) -> Kind:
    """Kind of a column; text is numeric if more than half of its distinct values are numbers."""
    if pd.api.types.is_numeric_dtype(column):
        return "double"
    values = column.dropna()
    if len(values) and not isinstance(values.iloc[0], str):
        return "double" if np.isfinite(numbers(values)).all() else "string"
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "string"
    distinct = pd.Series(words(values).unique(), dtype="str").replace("", None).dropna()
    return "string" if len(distinct) and np.isinf(numbers(distinct, notation)).mean() >= 0.5 else "double"


def are_text(values: Column) -> Column:
    """Mark words without unreadable bytes, which sources write as escapes, as in K\\xf6ln."""
    return ~values.str.contains(r"\\x[89a-f][0-9a-f]")


def in_one_line(ids: Column) -> Column:
    """Mark ids that are one line of text of at most LONGEST characters and not a relative path:
    safe in tables and URLs."""
    broken = ids.str.contains(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
    return (ids.str.len() <= LONGEST) & ~broken & are_text(ids) & ~ids.isin([".", ".."])


def words(column: Column) -> Column:
    """Stripped text, empty if nothing is given; whole numbers have no decimal point."""
    is_float = pd.api.types.is_float_dtype(column)
    if isinstance(column.dtype, pd.DatetimeTZDtype) and _beyond(column.dt.tz_convert(None), _ZONED).any():
        column = column.dt.tz_convert("UTC")  # UTC can represent every instant

    def parse(values: Column) -> Column:
        if is_float:
            return values.map(lambda value: str(int(value)) if float(value).is_integer() else str(value)).astype("str")
        return _text(values)

    return each_value(column, parse, "").astype("str")


def _text(values: Column) -> Column:
    """Stripped text, without the formula ="…" by which exports keep leading zeros."""
    text = values.astype("str").str.strip()
    return text.str.replace(r'^="([^"]*)"$', r"\1", regex=True) if text.str.startswith("=").any() else text


class Ids:
    """Reader of id columns, one after another."""

    def __init__(self) -> None:
        self._values: Any = None
        self._back, self._distinct = np.zeros(0, np.int32), pd.Index([], dtype="str")

    def __call__(self, column: Column) -> Column:
        """Return `words` as a categorical whose categories are the distinct words.

        A column with the same distinct words in the same order as the previous column shares its
        categories, so that callers check them once.
        """
        codes, values = _factors(column)
        if self._values is None or not _identical(values, self._values):
            texts = words(pd.Series(values, name=None)) if len(values) else pd.Series([], dtype="str")
            back, distinct = pd.factorize(pd.concat([texts, pd.Series([""], dtype="str")], ignore_index=True))
            self._values, self._back, self._distinct = values, back.astype(np.int32), pd.Index(distinct, dtype="str")
        ids = pd.Categorical.from_codes(self._back[codes], self._distinct, validate=False)
        return pd.Series(ids, index=column.index)


def _factors(column: Column) -> tuple[Any, Any]:
    """Code of each row's value, -1 if missing, and the distinct values.

    Nearly all categories are usually in use; a few unused ones do no harm.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes, categories = column.cat.codes.to_numpy(), column.cat.categories
        used = np.zeros(len(categories) + 1, np.bool_)
        used[codes] = True
        if used[:-1].sum() > len(categories) / 2:
            return codes, categories
    return pd.factorize(column)


def _identical(first: Any, second: Any) -> bool:
    """Check that both hold the same words; non-text values can be equal and yet written
    differently, such as 1 and True."""
    if not (isinstance(first.dtype, pd.StringDtype) and isinstance(second.dtype, pd.StringDtype)):
        return False
    return first is second or bool(first.equals(second))


def numbers(column: Column, notation: Notation = PLAIN) -> Column:
    """Doubles: NaN if nothing is given, infinite if the value is not a number.

    In text, `thousands` of the notation may separate groups of digits, and `decimal` precedes the
    decimals. 12-, (12) and '-12 are negative, too. A mark such as $ or kg may stand next to the
    numbers if the whole column has the same one.
    """
    if pd.api.types.is_numeric_dtype(column):
        doubles = column.astype("float64")
        return doubles.abs().where(np.isinf(doubles), doubles)
    thousands, decimal = notation.thousands, notation.decimal
    mark, point = re.escape(thousands or ""), re.escape(decimal)
    # not \d, which matches digits of every script; the conversion to numbers does not accept those
    integer = rf"([0-9]+|[0-9]{{1,3}}({mark}[0-9]{{2,3}})*{mark}[0-9]{{3}})" if thousands else r"[0-9]+"
    form = rf"[+-]?({integer}{point}?[0-9]*|{point}[0-9]+)([eE][+-]?[0-9]+)?"

    def parse(values: Column) -> Column:
        text = _text(values)
        odd = ~text.str.fullmatch(form).astype(bool)
        if odd.any():
            # with fewer odd values, no mark is the column's, and only they are examined
            odd |= bool(odd.mean() >= MARKS_SHARE)
            text = text.where(~odd, without_marks(text[odd], alone=bool(odd.all())))
        plain = text.where(text.str.fullmatch(form).astype(bool) & (text.str.len() <= _DIGITS), "inf")
        if thousands:
            plain = plain.str.replace(thousands, "", regex=False)
        if decimal != ".":
            plain = plain.str.replace(decimal, ".", regex=False)
        return pd.to_numeric(plain).astype("float64").where(text != "", np.nan)

    return each_value(column, parse, np.nan).astype("float64")


def days(column: Column, zone: ZoneInfo, notation: Notation = PLAIN) -> Column:
    """Calendar days, NaT if nothing or no date is given; a timestamp falls on its local day, even
    one of 23 or 25 hours.

    Text is ISO 8601 or in the notation's format. A timestamp with an offset is converted to the
    zone first; one without is already local. Years of the Buddhist era are not dates.
    """
    if pd.api.types.is_datetime64_any_dtype(column):
        local = wall_clock(column, zone) if column.dt.tz is not None else column
        stamps = local.to_numpy()
        numbers = day_numbers(stamps)
        # no table and no text can hold other years
        bad = np.isnat(stamps) | (numbers < _ENDS[0]) | (numbers > _ENDS[1]) | _is_buddhist(numbers)
        seconds = (numbers * 86_400).view("datetime64[s]")
        seconds[bad] = np.datetime64("NaT")
        return pd.Series(seconds, index=column.index)

    is_float = pd.api.types.is_float_dtype(column)

    def parse(values: Column) -> Column:
        text = within_the_day(values)
        text = text.str.removesuffix(".0") if is_float else text
        form = notation.date_format
        parsed = _iso_days(text, zone) if form is None else _days_in_form(text, zone, form)
        if notation.of_sheet and parsed.isna().any():
            parsed = parsed.fillna(_iso_days(text, zone)).fillna(_sheet_days(text))
        return parsed

    parsed = each_value(column, parse, pd.NaT).astype("datetime64[s]")
    far = _beyond(parsed, _ENDS) | (parsed.notna().to_numpy() & _is_buddhist(day_numbers(parsed.to_numpy())))
    return parsed.where(~far) if far.any() else parsed


def _is_buddhist(numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    return (numbers >= _BUDDHIST[0]) & (numbers <= _BUDDHIST[1])


def within_the_day(values: Column) -> Column:
    """Stripped text; 24:00, the end of a day, becomes its last minute."""
    text = values.astype("str").str.strip()
    is_end = text.str.contains(r"[T ]24:00", regex=True).astype(bool)
    if not is_end.any():
        return text
    last = text[is_end].str.replace(r"([T ])24:00(:00(?:\.0+)?)?$", r"\g<1>23:59\2", regex=True)
    return text.where(~is_end, last)


def utc_as_z(text: Column) -> Column:
    """Write a trailing UTC or GMT of timestamps as in ISO 8601."""
    return (
        text.str.replace(r"(?<=[0-9]) ?(?:UTC|GMT)$", "Z", regex=True)
        if text.str.endswith(("UTC", "GMT")).any()
        else text
    )


def _days_in_form(text: Column, zone: ZoneInfo, form: str) -> Column:
    if form in COUNTED_DAYS:
        serial_days = _sheet_days(text) if form == "excel" else _unix_days(text, zone, form)
        return serial_days.fillna(_iso_days(text, zone)) if serial_days.isna().any() else serial_days
    is_aware = bool(re.search("%[zZ]", form))
    text = plain_dates(text, form) if "%b" in form.lower() else text
    local = pd.to_datetime(text.where(text != "", None), format=form, errors="coerce", utc=is_aware)
    return (wall_clock(local, zone) if is_aware else local).dt.normalize().astype("datetime64[s]")


def _iso_days(text: Column, zone: ZoneInfo) -> Column:
    is_date = text.str.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").astype(bool)
    parsed = _stamps(text, is_date, "%Y-%m-%d").astype("datetime64[s]")
    rest = ~is_date & (text != "")
    if rest.any():
        local = wall_clock(_iso_instants(text[rest], zone), zone)
        parsed.loc[rest] = local.dt.normalize().astype("datetime64[s]")
    return parsed


def _stamps(text: Column, read: Column, form: str, *, utc: bool = False) -> Column:
    """Marked texts as timestamps; NaT for invalid and unmarked ones."""
    if not read.any():
        return pd.Series(pd.NaT, text.index, dtype="datetime64[us, UTC]" if utc else "datetime64[us]")
    return pd.to_datetime(text.where(read, None), format=form, errors="coerce", utc=utc)


def _sheet_days(text: Column) -> Column:
    """Days from a spreadsheet's serial numbers (days since 1899-12-30), from 1927 to 2173; a
    fraction is the time of day."""
    serial = text.str.extract(r"^([1-9][0-9]{4})(?:\.[0-9]+)?$")[0].astype("float64")
    return pd.to_datetime(serial, unit="D", origin="1899-12-30").astype("datetime64[s]")


def _unix_days(text: Column, zone: ZoneInfo, form: str) -> Column:
    """Local days from seconds or milliseconds since 1970."""
    parts = 1000 if form == "unix_ms" else 1
    number = text.str.extract(r"^([0-9]{1,14})(?:\.[0-9]*)?$")[0].astype("float64") // parts
    stamps = pd.to_datetime(number.where(number < _LAST_SECOND), unit="s", utc=True)
    return wall_clock(stamps, zone).dt.normalize().astype("datetime64[s]")


def instants(column: Column, zone: ZoneInfo) -> Column:
    """Instants in UTC, NaT if unreadable; timestamps without an offset are local."""
    if pd.api.types.is_datetime64_any_dtype(column):
        aware = column if column.dt.tz is not None else localize(column, zone)
        in_utc = aware.dt.tz_convert("UTC").dt.tz_localize(None)
        bad = _beyond(in_utc, _ENDS)
        return in_utc.where(~bad).astype("datetime64[us]").dt.tz_localize("UTC")

    parsed = each_value(column, lambda values: _iso_instants(within_the_day(values), zone), pd.NaT)
    return parsed.astype("datetime64[us, UTC]")


def _iso_instants(text: Column, zone: ZoneInfo) -> Column:
    text = utc_as_z(text)
    has_offset = text.str.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ].*(Z|[+-][0-9]{2}(:?[0-9]{2})?)").astype(bool)
    is_plain = text.str.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.]+)?").astype(bool)
    aware = _stamps(text, has_offset, "ISO8601", utc=True).astype("datetime64[us, UTC]")
    if not is_plain.any():
        return aware
    naive = _stamps(text, is_plain, "ISO8601").astype("datetime64[us]")
    return aware.fillna(localize(naive, zone).dt.tz_convert("UTC"))


def localize(local: Column, zone: ZoneInfo) -> Column:
    """Attach the zone: in the repeated hour of autumn the first one is meant; the missing hour of
    spring shifts forward.

    At the ends of the calendar, where a zone would lead to a year before 1 or after 9999, the wall
    clock shows UTC.
    """
    # nanoseconds have a narrower range, which no zone may leave either
    local = local.dt.as_unit("us") if local.dt.unit == "ns" else local
    far = _beyond(local, _ZONED)
    near = local.where(~far) if far.any() else local
    aware = near.dt.tz_localize(zone, ambiguous=np.ones(len(local), bool), nonexistent="shift_forward")
    return aware.mask(far, local.dt.tz_localize("UTC").dt.tz_convert(zone)) if far.any() else aware


def wall_clock(instants: Column, zone: ZoneInfo) -> Column:
    """Local time in the zone of aware instants; UTC at the ends of the calendar."""
    instants = instants.dt.as_unit("us") if instants.dt.unit == "ns" else instants
    in_utc = instants.dt.tz_convert("UTC").dt.tz_localize(None)
    far = _beyond(in_utc, _ZONED)
    near = instants.where(~far) if far.any() else instants
    local = near.dt.tz_convert(zone).dt.tz_localize(None)
    return local.mask(far, in_utc) if far.any() else local


def _beyond(local: Column, ends: tuple[int, int]) -> NDArray[np.bool_]:
    """Mark days outside the two ends, in days since 1970."""
    stamps = local.to_numpy()
    numbers = day_numbers(stamps)
    return np.asarray(~np.isnat(stamps) & ((numbers < ends[0]) | (numbers > ends[1])), np.bool_)


def each_value(column: Column, parse: Callable[[Column], Column], missing: Any) -> Column:
    """Parse every distinct value once."""
    codes, values = pd.factorize(column)
    parsed = parse(pd.Series(values).reset_index(drop=True))
    return parsed.reindex(codes, fill_value=missing).set_axis(column.index)


def day_numbers(instants: NDArray[np.datetime64]) -> NDArray[np.int64]:
    """Days since 1970; meaningless for NaT. Several times faster than NumPy's own conversion."""
    parts = _PARTS_OF_DAY.get(np.datetime_data(instants.dtype)[0])
    if parts is None:
        return instants.astype("datetime64[D]").astype(np.int64)
    numbers: NDArray[np.int64] = instants.view(np.int64) // parts
    return numbers


def each_day(column: Column, instant: Callable[[Column], Column]) -> NDArray[np.datetime64]:
    """Instant in UTC of each calendar day, NaT if there is none; each day is converted once."""
    day = column.to_numpy()
    has_day, numbers = ~np.isnat(day), day_numbers(day)
    first = int(numbers.min(where=has_day, initial=np.iinfo(np.int64).max))
    last = int(numbers.max(where=has_day, initial=np.iinfo(np.int64).min))
    if last - first > MANY_DAYS or not has_day.any():
        converted = each_value(column, instant, pd.NaT).astype("datetime64[us, UTC]")
        return np.asarray(converted, "datetime64[us]")
    day_instants = instant(pd.Series(np.arange(first, last + 1).astype("datetime64[D]").astype("datetime64[s]")))
    table = np.append(np.asarray(day_instants, "datetime64[us]"), np.datetime64("NaT", "us"))
    answer: NDArray[np.datetime64] = table[numbers - first if has_day.all() else np.where(has_day, numbers - first, -1)]
    return answer


def yes(column: Column) -> Column:
    """1 or 0 for yes or no, NaN where nothing is given, infinite for anything else."""
    flags = {"1": 1.0, "0": 0.0, "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "": np.nan, "1.0": 1.0, "0.0": 0.0}
    return each_value(
        words(column), lambda text: text.str.lower().map(lambda word: flags.get(word, np.inf)), np.nan
    ).astype("float64")


def times_of_day(column: Column) -> Column:
    """Hours since midnight of times of day such as 14:30, or of instants; NaN if nothing is given,
    infinite for anything else."""
    return each_value(words(column), _hours, np.nan).astype("float64")


def _hours(text: Column) -> Column:
    parts = text.str.extract(r"(?:^|[ T])([01]?[0-9]|2[0-4]):([0-5][0-9])(?::[0-5][0-9](?:\.[0-9]+)?)?$")
    hours = parts[0].astype("float64") + parts[1].astype("float64") / 60
    return hours.where(text == "", hours.fillna(np.inf))
