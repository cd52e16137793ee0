"""Forecast accuracy page: WAPE, bias, coverage by week and part, against the seasonal naive and the legacy system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any
from urllib.parse import urlencode

from dashboards.ops.formatting import display
from dashboards.ops.formatting.charts import Trend, trend
from dashboards.ops.formatting.far_weeks import GLANCE, WEEK
from dashboards.ops.reading.header import href
from forecaster.core.language import N_, _, ngettext
from forecaster.ledger.accuracy import (
    ALL,
    CITY,
    DEPOT,
    FORECAST,
    HORIZON,
    LEGACY,
    NAIVE,
    TIER,
    WEEKDAY,
    Tally,
    combined,
)
from forecaster.ledger.records import Run

SPANS = (4, 13, 26)  # weeks
WORST = 10
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
PARTS = {  # heading of a breakdown, and of its first column
    HORIZON: (N_("By days ahead"), N_("Days ahead")),
    WEEKDAY: (N_("By weekday"), N_("Weekday")),
    CITY: (N_("By city"), N_("City")),
    TIER: (N_("By forecast source"), N_("Forecast source")),
}
A_MONDAY = date(2024, 1, 1)

FALLBACK = "fallback"
TIERS = {
    "fresh": N_("A model on its first night"),
    "champion": N_("The model in use"),
    "prior": N_("A general model, of other networks"),
    FALLBACK: N_("No model: the same weekday"),
}
COMPARED = {
    "candidate": N_("that night’s model"),
    "champion": N_("the model in use before"),
    "seasonal_naive": N_("same weekday"),
}


@dataclass(frozen=True)
class AccuracyQuery:
    """Query of the accuracy page: number of weeks, and the part whose weeks are listed."""

    span: int = SPANS[0]
    part: str = ALL
    label: str = ""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> AccuracyQuery:
        """Parse the query of an address; missing and invalid values get defaults."""
        span = next((weeks for weeks in SPANS if str(weeks) == parameters.get("weeks")), SPANS[0])
        part = parameters.get("part", ALL)
        return cls(span, part, parameters.get("label", "")) if part in PARTS else cls(span)

    @property
    def address(self) -> str:
        of = {} if self.part == ALL else {"part": self.part, "label": self.label}
        return f"/accuracy?{urlencode({'weeks': self.span, **of})}" + ("#weeks" if of else "")


@dataclass(frozen=True)
class PartRates:
    """Rates of one part; a dash if unknown."""

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
    column: str  # heading of its first column
    rows: tuple[PartRates, ...]


@dataclass(frozen=True)
class HeldOutRates:
    """Rates of a model on the held-out days of the last evaluated run."""

    name: str
    wape: str
    bias: str
    coverage: str


@dataclass(frozen=True)
class Accuracy:
    span: int
    spans: tuple[tuple[int, str], ...]  # weeks, address
    whole: PartRates | None  # None: no actuals yet
    of_models: str  # error of the models without the fallback; empty unless the fallback forecast some depot-days
    of: str  # the part whose weeks are listed; empty: everything
    weeks: tuple[PartRates, ...]  # newest first
    picture: Trend | None
    picture_text: str  # text alternative of the picture
    breakdowns: tuple[Breakdown, ...]
    worst: tuple[PartRates, ...]
    legacy: bool
    legacy_days: str  # number of depot-days with a legacy forecast, if not all; else empty
    held_out: tuple[HeldOutRates, ...]
    compared: str  # depot-days
    judged: str  # the run of `held_out`
    afterwards: str  # note about weeks whose forecasts were backfilled; empty if there are none


def accuracy(
    tallies: Sequence[Tally], runs: Sequence[Run], query: AccuracyQuery, first_night: date | None = None
) -> Accuracy:
    """Return the accuracy of the latest weeks with actuals, at most `query.span`; that of depots
    over four weeks.

    Forecasts of days before `first_night` were backfilled. The weeks are listed for the requested
    part, or for everything if it does not exist. If the reader sees no totals of all depots, the
    sum of their visible cities takes their place.
    """
    tallies = _with_whole(tallies)
    mondays = sorted({tally.week for tally in tallies if tally.part == ALL})[-query.span :]
    recent = [tally for tally in tallies if tally.part != DEPOT and tally.week in set(mondays)]
    totals = _of_label(recent, ALL, "")
    part = _of_label(recent, query.part, query.label)
    if not part:
        query, part = AccuracyQuery(query.span), totals
    weeks = [_part_rates(display.short_day(week), _of_week(part, week)) for week in mondays]
    held_out, night = _judged(runs)
    return Accuracy(
        query.span,
        tuple((span, replace(query, span=span).address) for span in SPANS),
        _part_rates("", totals) if mondays else None,
        _of_models(recent),
        _title(query),
        tuple(reversed(weeks)),
        _picture(part, mondays),
        display.listed([_week_in_words(week) for week in weeks]),
        _breakdowns(recent, query.span),
        _worst(tallies),
        any(tally.model == LEGACY for tally in tallies),
        _days_of_legacy(totals),
        held_out,
        _compared(recent),
        night,
        _afterwards(mondays, first_night),
    )


def _with_whole(tallies: Sequence[Tally]) -> Sequence[Tally]:
    """Sum the tallies of cities for a reader who is not given those of all depots."""
    if any(tally.part == ALL for tally in tallies):
        return tallies
    return [*tallies, *(replace(tally, part=ALL, label="") for tally in tallies if tally.part == CITY)]


def _of_label(tallies: Sequence[Tally], part: str, label: str) -> list[Tally]:
    return [tally for tally in tallies if (tally.part, tally.label) == (part, label)]


def _of_week(tallies: Sequence[Tally], week: date) -> list[Tally]:
    return [tally for tally in tallies if tally.week == week]


def _picture(tallies: Sequence[Tally], mondays: Sequence[date]) -> Trend | None:
    if len(mondays) < 2:
        return None
    rates = [[_rate(tallies, model, week) for week in mondays] for model in (FORECAST, NAIVE, LEGACY)]
    return trend([display.short_day(week) for week in mondays], *rates)


def _breakdowns(tallies: Sequence[Tally], span: int) -> tuple[Breakdown, ...]:
    """Return the breakdowns with more than one part."""
    every = [Breakdown(_(heading), _(column), _parts(tallies, part, span)) for part, (heading, column) in PARTS.items()]
    return tuple(breakdown for breakdown in every if len(breakdown.rows) > 1)


def _worst(tallies: Sequence[Tally]) -> tuple[PartRates, ...]:
    """Return the depots with the largest errors."""
    depots = sorted(_of_part(tallies, DEPOT, FORECAST), key=lambda tally: -(tally.wape or 0.0))[:WORST]
    return tuple(
        _part_rates(depot.label, _of_label(tallies, DEPOT, depot.label), href(depot.label)) for depot in depots
    )


def _judged(runs: Sequence[Run]) -> tuple[tuple[HeldOutRates, ...], str]:
    """Return the models' rates in the last run that compared some, and the ID of that run."""
    for run in runs:
        if run.verdict and (compared := run.verdict.get("compared")):
            return tuple(_held_out(name, compared) for name in COMPARED if name in compared), run.run_id
    return (), ""


def _afterwards(mondays: Sequence[date], first_night: date | None) -> str:
    if first_night is None or not mondays or mondays[0] >= first_night:
        return ""
    return _(
        "Forecasts of days before {day} were made afterwards, as of each morning; nobody used them.",
        day=display.short_day(first_night),
    )


def worth(tallies: Sequence[Tally], weeks: int = SPANS[0]) -> str:
    """Sentence that compares the models' error over the last weeks with their rivals'; empty before
    there are actuals. Forecasts of the fallback do not count."""
    by_models = _without_fallback(tallies)
    summary = accuracy(by_models, (), AccuracyQuery(weeks))
    fallback_alone = _of_part(tallies, ALL, FORECAST) and not _of_part(by_models, ALL, FORECAST)
    if summary.whole is None or fallback_alone:
        return ""
    span = ngettext("the last week", "the last {n} weeks", len(summary.weeks), n=len(summary.weeks))
    values = {"weeks": span, "error": summary.whole.wape, "naive": summary.whole.naive}
    if not summary.legacy:
        return _(
            "Over {weeks}, forecasts missed {error} of the orders; repeating the same weekday missed {naive}.", **values
        )
    return _(
        "Over {weeks}, forecasts missed {error} of the orders; repeating the same weekday missed {naive}, the "
        "legacy system {legacy}{on_days}.",
        legacy=summary.whole.legacy,
        on_days=summary.legacy_days,
        **values,
    )


def _compared(tallies: Sequence[Tally]) -> str:
    """Return the number of compared depot-days, in words."""
    days = sum(tally.days for tally in tallies if (tally.part, tally.model) == (ALL, FORECAST))
    return display.depot_days(days)


def _without_fallback(tallies: Sequence[Tally]) -> list[Tally]:
    """Exclude the fallback from the tallies of all depots, in weeks with known tiers."""
    mixed = {tally.week for tally in tallies if (tally.part, tally.label) == (TIER, FALLBACK)}
    rest = [tally for tally in tallies if tally.part != ALL or tally.week not in mixed]
    models = [tally for tally in tallies if tally.part == TIER and tally.label != FALLBACK and tally.week in mixed]
    return [*rest, *(replace(tally, part=ALL, label="") for tally in models)]


def _of_models(tallies: Sequence[Tally]) -> str:
    """Error of the models alone, if the fallback forecast some depot-days; else empty."""
    tiers = [tally for tally in tallies if tally.part == TIER and tally.model == FORECAST]
    fallback = combined([tally for tally in tiers if tally.label == FALLBACK])
    if fallback is None:
        return ""
    models = combined([tally for tally in tiers if tally.label != FALLBACK])
    days = display.depot_days(fallback.days)
    if models is None:
        return _(
            "Of these, {depot_days} repeat the same weekday because no model could forecast; no model forecast any.",
            depot_days=days,
        )
    return _(
        "Of these, {depot_days} repeat the same weekday because no model could forecast; models alone missed {error}.",
        depot_days=days,
        error=_percent(models.wape),
    )


def _days_of_legacy(totals: Sequence[Tally]) -> str:
    ours, legacy = (sum(tally.days for tally in totals if tally.model == model) for model in (FORECAST, LEGACY))
    if not 0 < legacy < ours:
        return ""
    return _(
        " (on the {n} of {all} depot-days that it forecast)",
        n=display.number(legacy),
        all=display.number(ours),
    )


def _by_far_weeks(tallies: Sequence[Tally], labels: Sequence[str], span: int) -> tuple[PartRates, ...]:
    """Return the rates by days ahead: two weeks day by day, then by week."""
    by_week: dict[int, list[str]] = {}
    for label in labels:
        by_week.setdefault(max(int(label) - GLANCE + WEEK - 1, 0) // WEEK, []).append(label)
    near = [tally for tally in tallies if tally.part != HORIZON or tally.label in by_week.get(0, ())]
    later = tuple(
        _part_rates(
            _ahead(int(of_week[0]), int(of_week[-1])),
            [tally for tally in tallies if tally.part == HORIZON and tally.label in of_week],
        )
        for week, of_week in sorted(by_week.items())
        if week
    )
    return (*_parts(near, HORIZON, span), *later)


def _ahead(first: int, last: int) -> str:
    days = display.in_days(last)
    return days if first == last else _("{first} to {last}", first=display.number(first), last=days)


def _parts(tallies: Sequence[Tally], part: str, span: int) -> tuple[PartRates, ...]:
    labels = sorted({tally.label for tally in tallies if tally.part == part})
    if part == HORIZON and int(max(labels, default="0")) > GLANCE:
        return _by_far_weeks(tallies, labels, span)
    if part == WEEKDAY:
        labels = [day for day in WEEKDAYS if day in labels]
    return tuple(
        _part_rates(
            _name(part, label),
            [tally for tally in tallies if tally.part == part and tally.label == label],
            AccuracyQuery(span, part, label).address,
        )
        for label in labels
    )


def _name(part: str, label: str) -> str:
    if part == HORIZON:
        return display.in_days(int(label))
    if part == TIER:
        return _(TIERS[label]) if label in TIERS else label
    if part == WEEKDAY and label in WEEKDAYS:
        return display.weekday(A_MONDAY + timedelta(days=WEEKDAYS.index(label)))
    return label or _("Without a city")


def _title(query: AccuracyQuery) -> str:
    name = "" if query.part == ALL else _name(query.part, query.label)
    return _("{days} ahead", days=name) if query.part == HORIZON else name


def _part_rates(name: str, tallies: Sequence[Tally], address: str | None = None) -> PartRates:
    ours, naive, legacy = (_total(tallies, model) for model in (FORECAST, NAIVE, LEGACY))
    wape, rival = _wape(ours), _wape(naive)
    return PartRates(
        name,
        address,
        _percent(wape),
        _percent(rival),
        _percent(_wape(legacy)),
        _signed_percent(ours.bias if ours else None),
        _percent(ours.coverage if ours else None, 0),
        display.number(ours.days) if ours else "0",
        wape is not None and rival is not None and wape <= rival,
    )


def _of_part(tallies: Sequence[Tally], part: str, model: str) -> list[Tally]:
    return [tally for tally in tallies if tally.part == part and tally.model == model]


def _week_in_words(week: PartRates) -> str:
    values = {"day": week.name, "error": week.wape, "naive": week.naive}
    if week.legacy == "–":
        return _("week of {day}: {error}, same weekday {naive}", **values)
    return _("week of {day}: {error}, same weekday {naive}, legacy system {legacy}", legacy=week.legacy, **values)


def _rate(tallies: Sequence[Tally], model: str, week: date) -> float | None:
    return _wape(_total(_of_week(tallies, week), model))


def _total(tallies: Sequence[Tally], model: str) -> Tally | None:
    return combined([tally for tally in tallies if tally.model == model])


def _wape(total: Tally | None) -> float | None:
    return None if total is None else total.wape


def _percent(share: float | None, places: int = 1) -> str:
    return "–" if share is None else display.percent(share, places)


def _signed_percent(share: float | None) -> str:
    return "–" if share is None else display.signed_percent(share)


def _held_out(name: str, compared: Mapping[str, Any]) -> HeldOutRates:
    metrics = compared[name]
    return HeldOutRates(
        _(COMPARED[name]),
        _percent(metrics.get("wape")),
        _signed_percent(metrics.get("bias")),
        _percent(metrics.get("coverage"), 0),
    )
