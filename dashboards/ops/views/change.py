"""Attribution of a forecast's change since the day before, as a sentence and a small stacked bar."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from dashboards.ops.formatting import display
from forecaster.core.language import N_, _
from forecaster.ledger.publication import PublishedChange, PublishedDay

PART_NAMES = {
    "calendar": N_("covariates of the days ahead"),
    "restated": N_("corrected counts"),
    "actuals": N_("actual orders since"),
    "model": N_("another model"),
    "calibration": N_("its calibration"),
    "override": N_("planners"),
}
CAUSES = {
    "calendar": N_("new information about that day"),
    "restated": N_("counts that were corrected"),
    "actuals": N_("the actual orders since then"),
    "model": N_("a newly trained model"),
    "calibration": N_("a newly trained model"),
    "override": N_("a planner’s number"),
}
NONE_BEFORE = N_("No forecast of this day was published the day before.")
NONE_BEFORE_OF_ALL = N_("No forecast of these days was published the day before.")
WIDTH, HEIGHT = 84, 12


@dataclass(frozen=True)
class Piece:
    """A part of the bar; lengths in pixels, from its left end."""

    x: float
    width: float
    name: str  # of the part; determines its color


@dataclass(frozen=True)
class Why:
    """The explanation of a change; `moved` is signed, as in "+12", and empty without a previous
    forecast."""

    day: str
    moved: str
    sentence: str
    middle: float  # position of 0 on the bar
    pieces: tuple[Piece, ...]


def why(days: Sequence[PublishedDay]) -> tuple[Why, ...]:
    """Explain the changes of several days, their bars on one scale: increases right of 0, decreases
    left of it."""
    changes = [day.change.parts for day in days if day.change]
    less = max((_sum(parts, -1) for parts in changes), default=0)
    more = max((_sum(parts, 1) for parts in changes), default=0)
    return tuple(_change(day, less, WIDTH / ((less + more) or 1)) for day in days)


def _change(day: PublishedDay, less: int, scale: float) -> Why:
    change = day.change
    if change is None:
        return Why(display.day(day.target_date), "", _(NONE_BEFORE), 0, ())
    moves = [
        _("{part} {orders}", part=_(PART_NAMES[name]) if name in PART_NAMES else name, orders=display.signed(orders))
        for name, orders in change.parts
        if orders
    ]
    before, since = display.orders(change.before), display.day(change.since)
    if moves:
        now = display.orders(change.before + change.total)
        sentence = _(
            "{before} on {day}, {now} now: {moves}.", before=before, day=since, now=now, moves=display.listed(moves)
        )
    else:
        sentence = _("{before} on {day}, and the same now.", before=before, day=since)
    middle = round(less * scale, 2)
    return Why(
        display.day(day.target_date),
        display.signed(change.total),
        sentence,
        middle,
        _pieces(change.parts, less * scale, scale),
    )


def in_few_words(change: PublishedChange | None, today: date) -> str:
    """Explain a change in one line: "12 more than said yesterday, mostly because of orders that
    came since". Empty without a change, or without a previous forecast."""
    if change is None or not change.total:
        return ""
    sign = 1 if change.total > 0 else -1
    name = max(change.parts, key=lambda part: sign * part[1])[0]
    values = {
        "n": display.orders(abs(change.total)),
        "cause": _(CAUSES[name]) if name in CAUSES else name,
        "day": display.day(change.since),
    }
    if change.since == today - timedelta(days=1):
        if sign > 0:
            return _("{n} more than yesterday’s forecast, mostly because of {cause}", **values)
        return _("{n} fewer than yesterday’s forecast, mostly because of {cause}", **values)
    if sign > 0:
        return _("{n} more than the forecast of {day}, mostly because of {cause}", **values)
    return _("{n} fewer than the forecast of {day}, mostly because of {cause}", **values)


def _sum(parts: Iterable[tuple[str, int]], sign: int) -> int:
    return sum(abs(orders) for _, orders in parts if orders * sign > 0)


def _pieces(parts: Iterable[tuple[str, int]], middle: float, scale: float) -> tuple[Piece, ...]:
    left = right = middle
    pieces = []
    for name, orders in parts:
        width = abs(orders) * scale
        if orders < 0:
            left -= width
        if orders:
            pieces.append(Piece(round(left if orders < 0 else right, 2), round(width, 2), name))
        if orders > 0:
            right += width
    return tuple(pieces)
