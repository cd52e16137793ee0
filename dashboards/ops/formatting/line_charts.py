"""Line chart geometry: up to three lines over runs, weeks or days on one scale, which a template
writes as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from dashboards.ops.formatting.charts import Point, Tick, nice

STYLES = ("median", "came", "came other")  # of the lines, starting with the one in front
MOST_NAMES = 6  # below a picture on a phone
MARKED = 14  # points; with more, only the last has a dot


@dataclass(frozen=True)
class ChartLine:
    """A line, broken at unknown values; lengths are pixels."""

    style: str
    pieces: tuple[str, ...]
    points: tuple[Point, ...]


@dataclass(frozen=True)
class LineChart:
    width: int
    height: int
    left: float
    right: float
    rows: tuple[Tick, ...]  # grid lines, from 0
    names: tuple[Tick, ...]  # below
    lines: tuple[ChartLine, ...]  # the one in front last


def line_chart(
    names: Sequence[str],
    lines: Sequence[Sequence[float | None]],
    text: Callable[[float], str],
    *,
    unit: float = 1.0,
    width: int = 360,
    height: int = 200,
) -> LineChart:
    """Lay out lines on a scale from 0; a value's index in its line is its x position.

    `unit` is the minimum distance of two grid lines, and `text` formats an amount for its grid
    line.
    """
    left, right, top, bottom = 64.0, width - 22.0, 10.0, height - 26.0
    highest = max((value for line in lines for value in line if value is not None), default=0.0)
    ticks = [tick * unit for tick in nice(max(highest / unit, 1.0), 4)]
    step = (right - left) / max(len(names) - 1, 1)
    every = max(-(-len(names) // MOST_NAMES), 1)

    def place(number: int, value: float) -> Point:
        return round(left + number * step, 1), round(bottom - value / ticks[-1] * (bottom - top), 1)

    return LineChart(
        width,
        height,
        left,
        right,
        tuple(Tick(place(0, tick)[1], text(tick)) for tick in ticks),
        tuple(
            Tick(place(number, 0)[0], name)
            for number, name in enumerate(names)
            if (len(names) - 1 - number) % every == 0
        ),
        tuple(_drawn(style, line, place) for style, line in reversed(list(zip(STYLES, lines, strict=False)))),
    )


def _drawn(style: str, line: Sequence[float | None], place: Callable[[int, float], Point]) -> ChartLine:
    pieces = _pieces(line, place)
    points = list(chain(*pieces))
    return ChartLine(
        style,
        tuple(" ".join(f"{x},{y}" for x, y in piece) for piece in pieces if len(piece) > 1),
        tuple(points if len(points) <= MARKED else points[-1:]),
    )


def _pieces(line: Sequence[float | None], place: Callable[[int, float], Point]) -> list[list[Point]]:
    """Split a line into runs of known points."""
    pieces: list[list[Point]] = [[]]
    for number, value in enumerate(line):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append(place(number, value))
    return pieces
