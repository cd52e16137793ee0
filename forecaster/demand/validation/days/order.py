"""Days read with day and month, or day and year, swapped: far apart, and dense in the other order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from forecaster.config import Spec, WrittenSource
from forecaster.config.sources import COUNTED_DAYS
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.demand.parsing import Notation

_FEW_DAYS = 4  # fewer days may be far apart by chance
_WEEK = 7  # days: fewer may be restated ones of several years, such as each 24th of December
# factor over the other order's stretch of days if all days are read in the wrong order
_FARTHER = 2
# days by which a stretch shrinks if some of its days are swapped; share of its days that must occur
_CLOSER, _DENSE = 20, 0.65


@dataclass(frozen=True)
class OtherOrder:
    """Days that form a dense run once day and month, or day and year, are swapped: (first, last,
    number) before and after."""

    before: tuple[np.datetime64, np.datetime64, int]
    after: tuple[np.datetime64, np.datetime64, int]
    is_whole: bool  # False if there are days after the 12th, which have only one order
    form: str | None = None  # with day and year swapped, if that reads them

    def message(self) -> str:
        if self.form:
            template = N_("found {n} days from {first} to {last}, as a rule a year apart")
            return sentence(template, **_stretch(self.before))
        template = N_("found {n} days from {first} to {last}, of which those up to the 12th stand apart")
        if self.is_whole:
            template = N_("found {n} days from {first} to {last}, all among the first 12 of a month")
        return sentence(template, **_stretch(self.before))

    def hint(self, spec: Spec) -> str:
        """Setting or correction, if the source declares no unambiguous order."""
        values = _stretch(self.after)
        if form := self.form or (_with_other_order(spec) if self.is_whole else None):
            setting = f"demand.source.date_format: '{form}'"
            template = N_("{setting} would read them as {n} days from {first} to {last}")
            return sentence(template, setting=setting, **values)
        template = N_(
            "with day and month swapped up to the 12th of each month, they are {n} days from {first} to {last}, so "
            "a program may have swapped the two: write them as in 2024-03-05"
        )
        if self.is_whole:
            template = N_(
                "with day and month swapped, they are {n} days from {first} to {last}, so a program may have "
                "swapped the two: write them as in 2024-03-05"
            )
        return sentence(template, **values)


def _stretch(run: tuple[np.datetime64, np.datetime64, int]) -> dict[str, Any]:
    first, last, count = run
    return {"n": count, "first": first.item(), "last": last.item()}


def other_order(days_read: Any, days_ahead: Any) -> OtherOrder | None:
    """The other order if days are far apart as read, and close together with day and month swapped;
    None otherwise.

    `days_read` are days since 1970, and `days_ahead` those of rows rejected because they are not
    over yet.
    """
    read = np.unique(np.concatenate([days_read, days_ahead]).astype("int64")).astype("datetime64[D]")
    year, month = read.astype("datetime64[Y]"), read.astype("datetime64[M]")
    day_of_month = (read - month.astype("datetime64[D]")).astype("int64")  # from 0 on
    is_either = day_of_month < 12
    if np.count_nonzero(is_either) < _FEW_DAYS:
        return None
    exchanged = (year.astype("datetime64[M]") + day_of_month).astype("datetime64[D]") + (month - year).astype("int64")
    other = np.unique(np.where(is_either, exchanged, read))
    span, other_span = int((read[-1] - read[0]).astype("int64")) + 1, int((other[-1] - other[0]).astype("int64")) + 1
    if is_either.all():
        # as monthly counts are written
        is_of_months = not len(days_ahead) and not day_of_month.any()
        is_other = 2 * len(other) >= other_span and span >= _FARTHER * other_span and not is_of_months
    else:
        is_other = len(other) >= _DENSE * other_span and span - other_span >= _CLOSER
    if not is_other:
        return None
    return OtherOrder((read[0], read[-1], len(read)), (other[0], other[-1], len(other)), bool(is_either.all()))


def other_year(days_read: Any, days_ahead: Any, spec: Spec) -> OtherOrder | None:
    """The other order if days in a form with a two-digit year are years apart, and close together
    with day and year swapped (24/03/05 is the 5th of March or the 24th); None otherwise. Arguments
    as in `other_order`."""
    form = _exchanged(spec, "%d", "%y")
    read = np.unique(np.concatenate([days_read, days_ahead]).astype("int64")).astype("datetime64[D]")
    if form is None or len(read) < _WEEK:
        return None
    days = read.tolist()
    exchanged = [_with_year_for_day(day) for day in days]
    # a yearly feast, not a run of days
    is_one_date = len({(day.month, day.day) for day in days}) == 1
    if is_one_date or None in exchanged:
        return None
    other = np.unique(np.array(exchanged, "datetime64[D]"))
    span, other_span = (int((run[-1] - run[0]).astype("int64")) + 1 for run in (read, other))
    if 2 * len(other) < other_span or span < _FARTHER * other_span:
        return None
    return OtherOrder((read[0], read[-1], len(read)), (other[0], other[-1], len(other)), True, form)


def _with_year_for_day(day: date) -> date | None:
    """Date with day and two-digit year swapped; None if that is no day."""
    try:
        return date(2000 + day.day, day.month, day.year % 100)
    except ValueError:
        return None


def _with_other_order(spec: Spec) -> str | None:
    """Declared form of days with day and month swapped; None if it lacks one of them."""
    return _exchanged(spec, "%d", "%m")


def _exchanged(spec: Spec, first: str, second: str) -> str | None:
    """Declared form of days with two fields swapped; None if it lacks one of them."""
    source = spec.demand.source
    if not isinstance(source, WrittenSource) or (source.kind == "excel" and source.date_format is None):
        return None
    form = Notation.of(source).date_format or "%Y-%m-%d"
    if form in COUNTED_DAYS or first not in form or second not in form:
        return None
    return form.replace(first, "%\0").replace(second, first).replace("%\0", second)
