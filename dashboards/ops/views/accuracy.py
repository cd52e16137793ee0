"""How far earlier forecasts were from what came, over the last weeks and part by part, beside their rivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from dashboards.ops.formatting import display
from dashboards.ops.formatting.charts import Trend, trend
from dashboards.ops.reading.header import href
from forecaster.ledger.accuracy import ALL, CITY, DEPOT, FORECAST, HORIZON, LEGACY, NAIVE, WEEKDAY, Tally, combined
from forecaster.ledger.store import Run

SPANS = (4, 13, 26)  # weeks
WORST = 10
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
PARTS = ((HORIZON, "By days ahead"), (WEEKDAY, "By weekday"), (CITY, "By city"))

COMPARED = {"candidate": "that night’s model", "champion": "the champion", "seasonal_naive": NAIVE}


@dataclass(frozen=True)
class AccuracyQuery:
    """What the page is asked for: how many weeks, and the part of which they are told one by one."""

    span: int = SPANS[0]
    part: str = ALL
    label: str = ""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> AccuracyQuery:
        """What an address says; the usual for what it does not, or says wrongly."""
        span = next((each for each in SPANS if str(each) == parameters.get("weeks")), SPANS[0])
        part = parameters.get("part", ALL)
        return cls(span, part, parameters.get("label", "")) if part in dict(PARTS) else cls(span)

    @property
    def address(self) -> str:
        of = {} if self.part == ALL else {"part": self.part, "label": self.label}
        return f"/accuracy?{urlencode({'weeks': self.span, **of})}" + ("#weeks" if of else "")


@dataclass(frozen=True)
class PartRates:
    """Rates of one part; a dash where nothing can be said."""

    name: str
    href: str | None  # of a depot's page, or of a part's weeks
    wape: str
    naive: str
    legacy: str
    bias: str
    coverage: str
    days: str
    better: bool  # than the seasonal naive


@dataclass(frozen=True)
class Breakdown:
    heading: str
    rows: tuple[PartRates, ...]


@dataclass(frozen=True)
class HeldOutRates:
    """A model on the held-out days of the last judged night."""

    name: str
    wape: str
    bias: str
    coverage: str


@dataclass(frozen=True)
class Accuracy:
    span: int
    spans: tuple[tuple[int, str], ...]  # weeks, address
    whole: PartRates | None  # None: nothing came true yet
    of: str  # the part that the weeks tell of; empty: everything
    weeks: tuple[PartRates, ...]  # newest first
    picture: Trend | None
    picture_text: str  # the picture in words
    breakdowns: tuple[Breakdown, ...]
    worst: tuple[PartRates, ...]
    legacy: bool
    legacy_days: str  # on how many depot-days the legacy system said something, where not on all; else empty
    held_out: tuple[HeldOutRates, ...]
    judged: str  # the night of `held`


def accuracy(tallies: Sequence[Tally], runs: Sequence[Run], asked: AccuracyQuery) -> Accuracy:
    """The last weeks that something is known of, `asked.span` at most; depots over four weeks.

    The weeks one by one are those of the part that was asked for, and of everything where there is no such part. Where
    nothing is told of all depots together, their cities together are: those that the reader sees.
    """
    if not any(each.part == ALL for each in tallies):
        tallies = [*tallies, *(replace(each, part=ALL, label="") for each in tallies if each.part == CITY)]
    mondays = sorted({each.week for each in tallies if each.part == ALL})[-asked.span :]
    recent = [each for each in tallies if each.part != DEPOT and each.week in set(mondays)]
    if not any((each.part, each.label) == (asked.part, asked.label) for each in recent):
        asked = AccuracyQuery(asked.span)
    own = [each for each in recent if (each.part, each.label) == (asked.part, asked.label)]
    weeks = [_part_rates(display.short_day(week), [each for each in own if each.week == week]) for week in mondays]
    worst = [each.label for each in sorted(_of_part(tallies, DEPOT, FORECAST), key=lambda each: -(each.wape or 0.0))][
        :WORST
    ]
    depots = [
        _part_rates(depot, [t for t in tallies if t.part == DEPOT and t.label == depot], href(depot)) for depot in worst
    ]
    judged = next((run for run in runs if run.verdict and run.verdict.get("compared")), None)
    rates = [[_rate(own, model, week) for week in mondays] for model in (FORECAST, NAIVE, LEGACY)]
    return Accuracy(
        asked.span,
        tuple((each, replace(asked, span=each).address) for each in SPANS),
        _part_rates("All", [each for each in recent if each.part == ALL]) if mondays else None,
        _title(asked),
        tuple(reversed(weeks)),
        trend([display.short_day(week) for week in mondays], *rates) if len(mondays) > 1 else None,
        ", ".join(_week_in_words(each) for each in weeks),
        tuple(
            part
            for part in (Breakdown(heading, _parts(recent, name, asked.span)) for name, heading in PARTS)
            if len(part.rows) > 1
        ),
        tuple(depots),
        any(each.model == LEGACY for each in tallies),
        _days_of_legacy([each for each in recent if each.part == ALL]),
        tuple(_held_out(name, judged.verdict["compared"]) for name in COMPARED if name in judged.verdict["compared"])
        if judged is not None and judged.verdict is not None
        else (),
        judged.run_id if judged is not None else "",
    )


def worth(tallies: Sequence[Tally], weeks: int = SPANS[0]) -> str:
    """What forecasts missed of the orders of the last weeks beside their rivals, as one sentence; empty before any came
    true."""
    told = accuracy(tallies, (), AccuracyQuery(weeks))
    if told.whole is None:
        return ""
    rivals = f"the seasonal naive {told.whole.naive}"
    rivals += f", the legacy system {told.whole.legacy}{told.legacy_days}" if told.legacy else ""
    span = display.count(len(told.weeks), "week")
    return f"In the last {span} forecasts missed {told.whole.wape} of the orders; {rivals}."


def _days_of_legacy(whole: Sequence[Tally]) -> str:
    ours, legacy = (sum(each.days for each in whole if each.model == model) for model in (FORECAST, LEGACY))
    if not 0 < legacy < ours:
        return ""
    return f" (on the {display.number(legacy)} of {display.number(ours)} depot-days of which it said something)"


def _parts(tallies: Sequence[Tally], part: str, span: int) -> tuple[PartRates, ...]:
    labels = sorted({each.label for each in tallies if each.part == part})
    if part == WEEKDAY:
        labels = [day for day in WEEKDAYS if day in labels]
    return tuple(
        _part_rates(
            _name(part, label),
            [each for each in tallies if each.part == part and each.label == label],
            AccuracyQuery(span, part, label).address,
        )
        for label in labels
    )


def _name(part: str, label: str) -> str:
    if part == HORIZON:
        return display.count(int(label), "day")
    return label or "Without a city"


def _title(asked: AccuracyQuery) -> str:
    name = "" if asked.part == ALL else _name(asked.part, asked.label)
    return f"{name} ahead" if asked.part == HORIZON else name


def _part_rates(name: str, tallies: Sequence[Tally], address: str | None = None) -> PartRates:
    ours, naive, legacy = (combined([t for t in tallies if t.model == model]) for model in (FORECAST, NAIVE, LEGACY))
    wape, rival = (None if each is None else each.wape for each in (ours, naive))
    return PartRates(
        name,
        address,
        _percent(wape),
        _percent(rival),
        _percent(legacy.wape if legacy else None),
        "–" if ours is None or ours.bias is None else display.signed_percent(ours.bias),
        _percent(ours.coverage if ours else None, 0),
        display.number(ours.days) if ours else "0",
        wape is not None and rival is not None and wape <= rival,
    )


def _of_part(tallies: Sequence[Tally], part: str, model: str) -> list[Tally]:
    return [each for each in tallies if each.part == part and each.model == model]


def _week_in_words(week: PartRates) -> str:
    legacy = "" if week.legacy == "–" else f", legacy system {week.legacy}"
    return f"week of {week.name}: {week.wape}, seasonal naive {week.naive}{legacy}"


def _rate(tallies: Sequence[Tally], model: str, week: object) -> float | None:
    found = combined([each for each in tallies if each.model == model and each.week == week])
    return None if found is None else found.wape


def _percent(share: float | None, places: int = 1) -> str:
    return "–" if share is None else display.percent(share, places)


def _held_out(name: str, compared: Mapping[str, Any]) -> HeldOutRates:
    metrics = compared[name]
    bias = metrics.get("bias")
    return HeldOutRates(
        COMPARED[name],
        _percent(metrics.get("wape")),
        "–" if bias is None else display.signed_percent(bias),
        _percent(metrics.get("coverage"), 0),
    )
