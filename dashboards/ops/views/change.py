"""Attribution of a forecast's change since the day before, as one sentence and one small stacked bar."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from dashboards.ops.formatting import display
from forecaster.ledger.publication import PublishedChange, PublishedDay

PART_NAMES = {
    "calendar": "what is known of the days ahead",
    "restated": "corrected counts",
    "actuals": "orders that came since",
    "model": "another model",
    "calibration": "its calibration",
    "override": "planners",
}
CAUSES = {
    "calendar": "what is now known of that day",
    "restated": "counts that were corrected",
    "actuals": "the orders that came since",
    "model": "a newly trained model",
    "calibration": "a newly trained model",
    "override": "a planner’s number",
}
NONE_BEFORE = "No forecast of this day was published the day before."
WIDTH, HEIGHT = 84, 12


@dataclass(frozen=True)
class Piece:
    """A part of the bar, in pixels from its left end."""

    x: float
    width: float
    name: str  # of the part, which its colour follows


@dataclass(frozen=True)
class Why:
    """`moved` is signed, as in "+12"; empty where there is nothing to compare with."""

    day: str
    moved: str
    sentence: str
    middle: float  # where the bar has its 0
    pieces: tuple[Piece, ...]


def why(days: Sequence[PublishedDay]) -> tuple[Why, ...]:
    """The changes of some days, their bars on one scale: what made a day more lies right of 0, what made it less left
    of it."""
    changes = [day.change.parts for day in days if day.change]
    less = max((_sum(parts, -1) for parts in changes), default=0)
    more = max((_sum(parts, 1) for parts in changes), default=0)
    return tuple(_change(day, less, WIDTH / ((less + more) or 1)) for day in days)


def _change(day: PublishedDay, less: int, scale: float) -> Why:
    change = day.change
    if change is None:
        return Why(display.day(day.target_date), "", NONE_BEFORE, 0, ())
    moves = [f"{PART_NAMES.get(name, name)} {signed(orders)}" for name, orders in change.parts if orders]
    before = f"{display.orders(change.before)} on {display.day(change.since)}"
    if moves:
        sentence = f"{before}, {display.orders(change.before + change.total)} now: {', '.join(moves)}."
    else:
        sentence = f"{before}, and the same now."
    middle = round(less * scale, 2)
    return Why(
        display.day(day.target_date), signed(change.total), sentence, middle, _pieces(change.parts, less * scale, scale)
    )


def in_few_words(change: PublishedChange | None, today: date) -> str:
    """Why a number is another one than before, in one line: "12 more than said yesterday, mostly because of orders that
    came since". Empty where it is the same, or nothing was said before."""
    if change is None or not change.total:
        return ""
    sign = 1 if change.total > 0 else -1
    name, _ = max(change.parts, key=lambda part: sign * part[1])
    since = "yesterday" if change.since == today - timedelta(days=1) else f"on {display.day(change.since)}"
    moved = f"{abs(change.total):,} {'more' if sign > 0 else 'fewer'} than said {since}"
    return f"{moved}, mostly because of {CAUSES.get(name, name)}"


def signed(orders: int) -> str:
    """With its sign: "+12", "−3", "0"."""
    return f"+{orders:,}" if orders > 0 else f"−{-orders:,}" if orders else "0"


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
