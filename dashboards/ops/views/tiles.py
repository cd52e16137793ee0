"""Front page of several pipelines: a tile for each that the reader may see, those that need
attention first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from dashboards.ops.formatting import display
from dashboards.ops.reading.editions import NothingPublished, Outline
from dashboards.ops.reading.header import Front, Range, front, median_and_range, text_of_tier
from dashboards.ops.reading.last_night import fruitless
from dashboards.ops.reading.overview import Look
from dashboards.ops.views.attention import city_of, reasons
from dashboards.ops.views.network import together
from forecaster.core.language import N_, _, ngettext
from forecaster.ledger.records import Head

MOST_CITIES = 3  # named on a tile
STATES = {"late": N_("late"), "failed": N_("failed"), "away": N_("no ledger"), "empty": N_("nothing yet")}
NOTHING = NothingPublished(N_("nothing has been published yet; the first night does it"))


@dataclass(frozen=True)
class DepotCount:
    """Counts over the depots visible to a reader: their number, how many are open on the day in
    front, how many need attention, and the sum of their medians, in orders."""

    depots: int
    open: int
    attention: int
    median: float


@dataclass(frozen=True)
class CityNumber:
    name: str
    orders: str


@dataclass(frozen=True)
class PipelineTile:
    """A pipeline as the front page shows it. `state` is a tier, or `late`, `failed`, `empty` or
    `away`."""

    name: str
    href: str
    title: str
    place: str
    state: str
    sentence: str
    when: str = ""  # the day in front in words; empty without numbers
    target_date: date | None = None
    total: Range | None = None
    # of all depots; empty if the reader sees only some cities, or before it is counted
    orders: str = ""
    number: int = 0  # the same, for plural forms
    range: str = ""
    cities: tuple[CityNumber, ...] = ()  # each separately, if the reader sees only some
    more_cities: int = 0
    depots: DepotCount | None = None  # None: not counted yet
    towns: tuple[str, ...] = ()  # all cities visible to the reader

    @property
    def state_text(self) -> str:
        """The state in two words."""
        return _(STATES[self.state]) if self.state in STATES else text_of_tier(self.state)

    @property
    def attention(self) -> str:
        """Sentence about the depots that need attention."""
        if self.depots is None:
            return _("What needs attention is being counted.")
        number, depots = display.number(self.depots.attention), display.number(self.depots.depots)
        if not self.depots.attention:
            return ngettext(
                "No depot of {n} needs attention.", "No depot of {n} needs attention.", self.depots.depots, n=depots
            )
        return ngettext(
            "{n} of {depots} needs attention.",
            "{n} of {depots} need attention.",
            self.depots.attention,
            n=number,
            depots=display.depots(self.depots.depots),
        )

    @property
    def is_copy(self) -> bool:
        """True if the numbers are a copy, since the ledger is unavailable."""
        return self.state == "away" and bool(self.when)

    @property
    def well(self) -> bool:
        return self.state in ("fresh", "champion")


@dataclass(frozen=True)
class PipelineRow:
    """A pipeline in the API: its day in front in orders of all depots, and its state. Null means
    not published, not counted yet, or hidden from a reader of some cities."""

    name: str
    address: str
    title: str
    state: str
    sentence: str
    target_date: date | None
    low: float | None
    median: float | None
    high: float | None
    depots: int | None
    attention: int | None


@dataclass(frozen=True)
class PipelinesOut:
    rows: list[PipelineRow]


def header_of(look: Look, now: datetime) -> Front | None:
    """Return the header of a pipeline's publication; None without one."""
    return front(look.head, now, fruitless(look.last, look.head)) if look.head else None


def not_over(look: Look, now: datetime) -> Look:
    """Return the look, without a copy whose days are all past."""
    header = header_of(look, now) if look.absence is not None else None
    return Look(error=look.error) if header is not None and header.target_dates[-1] < header.today else look


def count_depots(head: Head, header: Front, outline: Outline, cities: frozenset[str] | None) -> DepotCount:
    """Count as the pipeline's own page does, for a reader of these cities (None: all)."""
    depots = [depot for depot in outline.depots if cities is None or city_of(depot) in cities]
    depot_ids = {depot.depot_id for depot in depots}
    before = {place: median for place, median in outline.before.items() if place[0] in depot_ids}
    days = [depot.days[header.meant] for depot in depots]
    return DepotCount(
        len(depots),
        sum(day.open for day in days),
        sum(bool(reasons(depot, head, header, before)) for depot in depots),
        sum(median_and_range(day, head.levels).median for day in days),
    )


def tile(
    name: str, look: Look, header: Front | None, cities: frozenset[str] | None, depots: DepotCount | None, reason: str
) -> PipelineTile:
    """Return the tile of a pipeline; `reason` explains to this reader why nothing can be shown, if
    so."""
    href = f"/p/{name}/"
    head = look.head
    if head is None or header is None:
        return PipelineTile(name, href, name, "", "empty" if look.error is None else "away", reason)
    totals = together(look.totals, head.levels)
    visible = _visible(totals, cities)
    apart = visible if cities is not None and len(visible) > 1 else []
    total = _total(totals, visible, header.meant, every=cities is None)
    median = _median(total, None if apart else depots)
    return PipelineTile(
        name,
        href,
        header.title,
        _place(visible, head.timezone),
        *_state(look, header, reason),
        when=header.meant_text,
        target_date=header.target_dates[header.meant],
        total=total,
        orders="" if median is None else display.orders(median),
        number=round(median or 0),
        range=_range(total),
        cities=tuple(
            CityNumber(city, display.orders(totals[city][header.meant].median)) for city in apart[:MOST_CITIES]
        ),
        more_cities=max(len(apart) - MOST_CITIES, 0),
        depots=depots,
        towns=tuple(visible),
    )


def _visible(names: Iterable[str], cities: frozenset[str] | None) -> list[str]:
    """Return the cities of these that a reader sees (None: all)."""
    return sorted(name for name in names if name and (cities is None or name in cities))


def _total(totals: Mapping[str, Sequence[Range]], cities: Sequence[str], day: int, *, every: bool) -> Range | None:
    """Return the day's total over all cities visible to the reader; None if it was not published."""
    ranges = totals.get("") if every else totals[cities[0]] if len(cities) == 1 else None
    return ranges[day] if ranges else None


def _range(total: Range | None) -> str:
    return display.span(total.low, total.high) if total else ""


def _median(total: Range | None, depots: DepotCount | None) -> float | None:
    if total is not None:
        return total.median
    return None if depots is None else depots.median


def in_order(tiles: Sequence[PipelineTile]) -> list[PipelineTile]:
    """Sort tiles: those in trouble first, then by title."""
    return sorted(tiles, key=lambda tile: (tile.well, tile.title.casefold(), tile.name))


def rows_out(tiles: Sequence[PipelineTile]) -> PipelinesOut:
    return PipelinesOut([_row(tile) for tile in tiles])


def _row(tile: PipelineTile) -> PipelineRow:
    total, depots = tile.total, tile.depots
    return PipelineRow(
        tile.name,
        tile.href,
        tile.title,
        tile.state,
        tile.sentence,
        tile.target_date,
        total.low if total else None,
        _median(total, depots if tile.orders else None),
        total.high if total else None,
        depots.depots if depots else None,
        depots.attention if depots else None,
    )


def _state(look: Look, header: Front, reason: str) -> tuple[str, str]:
    if look.error is not None:
        return "away", reason
    alarm = header.alarm
    if alarm is None:
        return header.tier, header.meaning
    return "late" if header.stale else "failed", f"{alarm.title} {alarm.sentence}"


def _place(cities: Sequence[str], timezone: str) -> str:
    """Return the cities, or else the place of the time zone: "Boston, New York and 3 more"."""
    if not cities:
        return timezone.rpartition("/")[2].replace("_", " ")
    if len(cities) <= MOST_CITIES:
        if len(cities) == 1:
            return cities[0]
        return _("{cities} and {last}", cities=display.listed(cities[:-1]), last=cities[-1])
    more = display.number(len(cities) - MOST_CITIES)
    return _("{cities} and {n} more", cities=display.listed(cities[:MOST_CITIES]), n=more)
