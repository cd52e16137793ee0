"""Chart geometry: computes the coordinates, in pixels, that the templates write as SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import chain, groupby
from math import floor, log10
from typing import TypeVar

from dashboards.ops.formatting import display
from forecaster.core.language import _
from forecaster.ledger.publication import RecentDay

Point = tuple[float, float]
LETTER = 10.0  # minimum width of a day with its weekday's letter
POINT = 8.0  # minimum width of a day ahead with its point
DATE = 46.0  # minimum distance of the dates of Mondays
NUMBER = 17.0  # minimum distance of the numbers of marked days
T = TypeVar("T")


@dataclass(frozen=True)
class Ahead:
    """Forecast of a day: the median and the 80 % interval."""

    date: date
    median: float
    low: float
    high: float
    open: bool


@dataclass(frozen=True)
class Tick:
    at: float
    text: str
    weekend: bool = False


@dataclass(frozen=True)
class Chart:
    """A depot's orders over time, drawn for one width."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    border: float  # x between actuals and forecast
    behind: int  # days
    ahead: int  # days
    rows: tuple[Tick, ...]  # grid lines, orders
    weekdays: tuple[Tick, ...]
    weeks: tuple[Tick, ...]  # the dates of Mondays
    closed: tuple[tuple[float, float], ...]  # closed days: left edge, width
    actuals: tuple[str, ...]  # polylines, broken at closed and unknown days
    dots: tuple[Point, ...]
    estimates: tuple[Point, ...]  # of demand, on days when it exceeded the served orders
    bands: tuple[str, ...]
    medians: tuple[str, ...]
    points: tuple[Point, ...]
    marks: tuple[tuple[float, int, str, float], ...]  # x, number, text, x of the number


def chart(
    past: Sequence[RecentDay],
    days_ahead: Sequence[Ahead],
    marks: Sequence[tuple[date, str]],
    *,
    width: float,
    height: float,
    past_days: int,
    stretch: float = 1.0,
) -> Chart:
    """Lay out the last `past_days` days and the days ahead, side by side on one scale that starts
    at 0.

    A day ahead is `stretch` times as wide as a past one. Narrow days have no letter. `marks` are
    numbered from 1 in their order; those outside the picture are omitted, but keep their number.
    """
    first = days_ahead[0].date - timedelta(days=past_days)
    past = [day for day in past if day.date >= first]
    ticks = nice(max([day.demand or 0 for day in past] + [day.high for day in days_ahead], default=0))
    plot = _Plot(44.0, width - 8, 34.0, height - 42, first, past_days, len(days_ahead), stretch, ticks[-1])
    # Closed and unknown days break a line: a stroke across them would show orders that nobody
    # counted.
    actuals = _runs(_counted(past, plot))
    days = _runs((day.date, day) for day in days_ahead if day.open)
    medians = _runs((day.date, plot.point(day.date, day.median)) for day in days_ahead if day.open)
    return Chart(
        width,
        height,
        plot.left,
        plot.right,
        plot.top,
        plot.bottom,
        border=round(plot.border, 1),
        behind=past_days,
        ahead=len(days_ahead),
        rows=tuple(Tick(round(plot.y(tick), 1), display.number(tick)) for tick in ticks),
        weekdays=_weekdays(plot),
        weeks=_mondays(plot, width),
        closed=(*_closed(past, plot), *_closed(days_ahead, plot)),
        actuals=_lines(actuals),
        dots=_round(chain(*actuals)),
        estimates=_round(_estimated(past, plot)),
        bands=tuple(_band(run, plot) for run in days),
        medians=_lines(medians),
        points=_round(chain(*medians)) if plot.step * stretch >= POINT else (),
        marks=_beside(_marks(plot, marks, days_ahead[-1].date), plot.right),
    )


@dataclass(frozen=True)
class _Plot:
    """Scales of a chart's axes: days to x, orders to y."""

    left: float
    right: float
    top: float
    bottom: float
    first: date
    past_days: int
    ahead_days: int
    stretch: float
    highest: float  # orders at the top

    @property
    def step(self) -> float:
        """Width of a past day."""
        return (self.right - self.left) / (self.past_days + self.ahead_days * self.stretch)

    @property
    def border(self) -> float:
        return self.left + self.past_days * self.step

    @property
    def dates(self) -> list[date]:
        return [self.first + timedelta(days=day) for day in range(self.past_days + self.ahead_days)]

    def width(self, day: date) -> float:
        return self.step if (day - self.first).days < self.past_days else self.step * self.stretch

    def x(self, day: date) -> float:
        """Return the middle of a day."""
        return self.border + ((day - self.first).days - self.past_days + 0.5) * self.width(day)

    def y(self, value: float) -> float:
        return self.bottom - value / self.highest * (self.bottom - self.top)

    def point(self, day: date, value: float) -> Point:
        return self.x(day), self.y(value)

    def column(self, day: date) -> tuple[float, float]:
        """Return the left edge and the width of a day."""
        return round(self.x(day) - self.width(day) / 2, 1), round(self.width(day), 2)


def _closed(days: Sequence[RecentDay] | Sequence[Ahead], plot: _Plot) -> list[tuple[float, float]]:
    return [plot.column(day.date) for day in days if not day.open]


def _counted(past: Sequence[RecentDay], plot: _Plot) -> Iterator[tuple[date, Point]]:
    """Yield open days with known orders, and their points."""
    for day in past:
        if day.open and day.came is not None:
            yield day.date, plot.point(day.date, day.came)


def _estimated(past: Sequence[RecentDay], plot: _Plot) -> Iterator[Point]:
    """Yield the demand on days when it exceeded the served orders."""
    for day in past:
        if day.open and day.served is not None and day.demand is not None:
            yield plot.point(day.date, day.demand)


def _weekdays(plot: _Plot) -> tuple[Tick, ...]:
    """Return the letters of the days that are wide enough."""
    return tuple(
        Tick(round(plot.x(day), 1), display.weekday_letters(day), day.weekday() >= 5)
        for day in plot.dates
        if plot.width(day) >= LETTER
    )


def _mondays(plot: _Plot, width: float) -> tuple[Tick, ...]:
    places = [(day, min(plot.x(day), width - 20)) for day in plot.dates if day.weekday() == 0]
    return tuple(Tick(round(at, 1), display.short_day(day)) for day, at in _apart(places, DATE))


def _band(run: Sequence[Ahead], plot: _Plot) -> str:
    """Return the outline of the intervals of consecutive days; a single day gets a minimum width."""
    edge = 0.0 if len(run) > 1 else plot.step * plot.stretch * 0.3
    upper = [plot.point(day.date, day.high) for day in run]
    lower = [plot.point(day.date, day.low) for day in reversed(run)]
    upper = [(upper[0][0] - edge, upper[0][1]), *upper[1:-1], (upper[-1][0] + edge, upper[-1][1])]
    lower = [(lower[0][0] + edge, lower[0][1]), *lower[1:-1], (lower[-1][0] - edge, lower[-1][1])]
    return _path([*upper, *lower])


def _lines(runs: Iterable[Sequence[Point]]) -> tuple[str, ...]:
    return tuple(_path(run) for run in runs if len(run) > 1)


def _marks(plot: _Plot, marks: Sequence[tuple[date, str]], last: date) -> list[tuple[float, int, str]]:
    """Return the marks within the picture: x, number, text."""
    numbered = enumerate(marks, 1)
    return [(round(plot.x(day), 1), number, text) for number, (day, text) in numbered if plot.first <= day <= last]


def _apart(places: Sequence[tuple[T, float]], room: float) -> list[tuple[T, float]]:
    """Select places, from left to right, that are at least `room` apart."""
    selection: list[tuple[T, float]] = []
    for value, at in places:
        if not selection or at - selection[-1][1] >= room:
            selection.append((value, at))
    return selection


def _beside(marks: Sequence[tuple[float, int, str]], right: float) -> tuple[tuple[float, int, str, float], ...]:
    """Shift the numbers of marks that would overlap, within the right edge."""
    places: list[float] = []
    for x, *_number in marks:
        places.append(max(x, places[-1] + NUMBER) if places else x)
    end = right
    for place in reversed(range(len(places))):
        places[place] = min(places[place], max(end, marks[place][0]) if place == len(places) - 1 else end)
        end = places[place] - NUMBER
    return tuple((x, number, text, round(at, 1)) for (x, number, text), at in zip(marks, places, strict=True))


@dataclass(frozen=True)
class Trend:
    """Rates over the weeks, the page's own forecasts in front."""

    width: int
    height: int
    left: float
    right: float
    rows: tuple[Tick, ...]  # grid lines, percent
    weeks: tuple[Tick, ...]
    ours: str
    rival: str
    other: str  # empty if the second rival is unknown
    points: tuple[Point, ...]


def trend(
    names: Sequence[str],
    ours: Sequence[float | None],
    rival: Sequence[float | None],
    other: Sequence[float | None] = (),
    *,
    width: int = 360,
    height: int = 200,
) -> Trend:
    """Lay out shares on a scale from 0, with a name below each week; fewer names if they would
    touch."""
    left, right, top, bottom = 44.0, width - 22.0, 10.0, height - 26.0
    shares_known = [share for share in (*ours, *rival, *other) if share is not None]
    ticks = nice(100 * max([*shares_known, 0.01]), 4)
    step = (right - left) / max(len(names) - 1, 1)
    every = -(-len(names) * 46 // int(right - left))

    def points(shares: Sequence[float | None]) -> list[Point]:
        return [
            (left + i * step, bottom - 100 * share / ticks[-1] * (bottom - top))
            for i, share in enumerate(shares)
            if share is not None
        ]

    return Trend(
        width,
        height,
        left,
        right,
        tuple(
            Tick(round(bottom - tick / ticks[-1] * (bottom - top), 1), _("{n} %", n=display.number(tick)))
            for tick in ticks
        ),
        tuple(
            Tick(round(left + i * step, 1), name) for i, name in enumerate(names) if (len(names) - 1 - i) % every == 0
        ),
        _path(points(ours)),
        _path(points(rival)),
        _path(points(other)),
        _round(points(ours)),
    )


@dataclass(frozen=True)
class Running:
    """Cumulative sums over the weeks, one line each."""

    width: int
    height: int
    left: float
    right: float
    zero: float  # y of zero difference
    rows: tuple[Tick, ...]  # grid lines, amounts
    weeks: tuple[Tick, ...]
    lines: tuple[str, ...]
    ends: tuple[Point, ...]


def running(names: Sequence[str], lines: Sequence[Sequence[float]], text: Callable[[float], str]) -> Running:
    """Lay out lines over the weeks on one scale that includes 0; each starts at 0 before the first
    week.

    `text` formats an amount for its grid line.
    """
    width, height = 360, 220
    left, right, top, bottom = 64.0, width - 22.0, 12.0, height - 26.0
    values = [0.0, *(value for line in lines for value in line)]
    low, high = min(values), max(values)
    apart = nice(max(high - low, 1.0), 4)[1]
    first, last = floor(low / apart), max(-(-high // apart), floor(low / apart) + 1)
    step = (right - left) / max(len(names), 1)
    every = max(-(-len(names) * 46 // int(right - left)), 1)

    def y(value: float) -> float:
        return round(bottom - (value / apart - first) / (last - first) * (bottom - top), 1)

    points = [[(left + i * step, y(value)) for i, value in enumerate((0.0, *line))] for line in lines]
    return Running(
        width,
        height,
        left,
        right,
        y(0),
        tuple(Tick(y(place * apart), text(place * apart)) for place in range(int(first), int(last) + 1)),
        tuple(
            Tick(round(left + (i + 1) * step, 1), name)
            for i, name in enumerate(names)
            if (len(names) - 1 - i) % every == 0
        ),
        tuple(_path(line) for line in points),
        _round(line[-1] for line in points),
    )


def nice(highest: float, most: int = 5) -> tuple[int, ...]:
    """Return round numbers from 0 to at least `highest`, whole and evenly spaced: 163 gives 0, 50,
    100, 150, 200."""
    rough = max(highest / most, 1)
    ten = 10 ** floor(log10(rough))
    apart = next(step * ten for step in (1, 2, 5, 10) if step * ten >= rough)
    above = max(-(-highest // apart), 1)
    return tuple(int(i * apart) for i in range(int(above) + 1))


def _runs(days: Iterable[tuple[date, T]]) -> list[list[T]]:
    """Group the values of consecutive days."""
    numbered = list(enumerate(days))
    grouped = groupby(numbered, key=lambda item: item[1][0].toordinal() - item[0])
    return [[value for _, (_, value) in run] for _, run in grouped]


def _path(points: Iterable[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _round(points: Iterable[Point]) -> tuple[Point, ...]:
    return tuple((round(x, 1), round(y, 1)) for x, y in points)
