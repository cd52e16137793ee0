"""Parts of a view of numbers over nights: facts, a picture, a table; and the same numbers as rows for the API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import display
from dashboards.ops.formatting.charts import Bars
from dashboards.ops.formatting.line_charts import STYLES, LineChart, line_chart
from dashboards.ops.reading.editions import HIDDEN_MESSAGE, Logbook
from dashboards.ops.views.health import duration
from forecaster.core.language import N_, _
from forecaster.ledger.records import Run

NIGHTS = 30
LONG = 180.0  # seconds, from which on an axis is in minutes
BOARDS = (  # address, what it is called
    ("/views/executive", N_("Executive")),
    ("/views/on-call", N_("On call")),
    ("/views/debug", N_("Debug")),
)


@dataclass(frozen=True)
class BoardCell:
    text: str
    quality: str = ""  # "good", "fair" or "bad"; empty: none
    bars: Bars | None = None
    is_number: bool = False
    only_wide: bool = False  # left out on phones


@dataclass(frozen=True)
class BoardPicture:
    """A line chart with its legend (style, name), and its values in words."""

    chart: LineChart
    legend: tuple[tuple[str, str], ...]
    text: str


@dataclass(frozen=True)
class BoardPart:
    """What stands under one heading. `code` is a list of a file's name and when it helps."""

    heading: str
    says: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    picture: BoardPicture | None = None
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[BoardCell, ...], ...] = ()
    code: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Board:
    """A view; with `hidden` nothing of it is for the reader."""

    title: str
    name: str
    address: str
    eyebrow: str = ""
    number: str = ""
    under: str = ""
    tag: tuple[str, str] = ("", "")  # quality, word
    notes: tuple[str, ...] = ()
    parts: tuple[BoardPart, ...] = ()
    hidden: str = ""

    @property
    def siblings(self) -> tuple[tuple[str, str], ...]:
        """Address and name of each view."""
        return siblings()


@dataclass(frozen=True)
class BoardRow:
    """A number of a view. `series` says of what it is, `at` of when: a night's beginning, or a day; null: of now."""

    panel: str
    series: str
    at: datetime | date | None
    value: float | None
    unit: str


@dataclass(frozen=True)
class BoardOut:
    """The numbers of a view. Whoever does not see every city gets none: they are of the whole network."""

    rows: list[BoardRow] = field(default_factory=list)


def siblings() -> tuple[tuple[str, str], ...]:
    """Address and name of each view."""
    return tuple((address, _(name)) for address, name in BOARDS)


def title_of(book: Logbook) -> str:
    return (book.head.title or book.head.pipeline) if book.head else _("Depot forecasts")


def hidden_board(book: Logbook, place: int) -> Board | None:
    """What whoever does not see every city is told; None for those who do."""
    if book.cities is None:
        return None
    address, name = BOARDS[place]
    return Board(title_of(book), _(name), address, hidden=_(HIDDEN_MESSAGE))


def nights_of(book: Logbook) -> list[Run]:
    """The last nights that came to an end, the oldest first."""
    runs = book.ledger.runs(book.pipeline, limit=NIGHTS, ended=True, nights=True) if book.pipeline else ()
    return list(reversed(runs))


def nights_on_clocks(book: Logbook) -> list[Run]:
    """The same with their beginnings on the publication's clocks, else in UTC, as a page names their days."""
    zone = ZoneInfo(book.head.timezone if book.head else "UTC")
    return [replace(run, started_at=run.started_at.astimezone(zone)) for run in nights_of(book)]


def picture(
    names: Sequence[str],
    lines: Sequence[tuple[str, Sequence[float | None]]],
    text: Callable[[float], str],
    *,
    unit: float = 1.0,
    axis: Callable[[float], str] | None = None,
) -> BoardPicture | None:
    """Lines with their names, those of which something is known; None where there are fewer than two points. `axis`
    writes an amount where there is little room, as `text` does by default."""
    known = [(name, line) for name, line in lines if sum(value is not None for value in line) > 1]
    if not known:
        return None
    chart = line_chart(names, [line for _name, line in known], axis or text, unit=unit)
    legend = tuple(zip(STYLES, [name for name, _line in known], strict=False))
    return BoardPicture(chart, legend, display.clauses(*(_in_words(name, line, text) for name, line in known)))


def picture_of_seconds(
    names: Sequence[str], lines: Sequence[tuple[str, Sequence[float | None]]]
) -> BoardPicture | None:
    """The same of lengths of time, on an axis of seconds or minutes."""
    highest = max((value for _name, line in lines for value in line if value is not None), default=0.0)
    if highest < LONG:
        return picture(names, lines, duration, axis=lambda seconds: _("{n} s", n=display.number(seconds)))
    return picture(names, lines, duration, unit=60.0, axis=lambda seconds: _("{n} min", n=display.number(seconds / 60)))


def _in_words(name: str, line: Sequence[float | None], text: Callable[[float], str]) -> str:
    values = [value for value in line if value is not None]
    low, high = min(values), max(values)
    return _(
        "{name}: last {value}, between {low} and {high}",
        name=name,
        value=text(values[-1]),
        low=text(low),
        high=text(high),
    )


def numbers(*texts: str) -> tuple[BoardCell, ...]:
    """Cells that hold numbers."""
    return tuple(BoardCell(words, is_number=True) for words in texts)


def series_rows(
    panel: str, series: str, points: Iterable[tuple[datetime | date | None, float | None]], unit: str
) -> Iterator[BoardRow]:
    """The points of which something is known, as rows of the API."""
    for at, value in points:
        if value is not None:
            yield BoardRow(panel, series, at, float(value), unit)
