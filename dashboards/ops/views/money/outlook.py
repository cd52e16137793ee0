"""Outlook for the value page: orders ahead, recent error, and the number of service objectives met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from dashboards.ops.formatting import display
from dashboards.ops.reading.editions import Logbook
from dashboards.ops.views.reliability.promises import NOT_KNOWN, standing_lines
from forecaster.core.language import _, ngettext
from forecaster.ledger import accuracy
from forecaster.ledger.accuracy import ALL, FORECAST, MODELS, NAIVE, Tally
from forecaster.monitoring.readings import network_medians

WEEKS = 4


def outlook(book: Logbook) -> tuple[str, ...]:
    """Return a sentence for each known fact; none for a reader who does not see every city."""
    if book.cities is not None:
        return ()
    sentences = (_orders(book), _error([tally for tally in book.tallies() if tally.part == ALL]), _kept(book))
    return tuple(filter(None, sentences))


def _orders(book: Logbook) -> str:
    if book.head is None:
        return ""
    with book.ledger.transaction() as connection:
        medians = network_medians(connection, book.head.publication_id, book.head.levels)
    if not medians:
        return ""
    return _(
        "Orders expected from {first} to {last}: {orders}.",
        first=display.day(medians[0][0]),
        last=display.day(medians[-1][0]),
        orders=display.orders(sum(median for _day, median in medians)),
    )


def _error(tallies: Sequence[Tally]) -> str:
    by_week: dict[date, dict[str, Tally]] = {}
    for tally in tallies:
        by_week.setdefault(tally.week, {})[tally.model] = tally
    weeks = [by_week[week] for week in sorted(by_week)][-WEEKS:]
    rates: Mapping[str, float] = dict(_rates(weeks))
    if FORECAST not in rates or NAIVE not in rates:
        return ""
    return _(
        "Over {weeks}, forecasts missed {error} of the orders; repeating the same weekday missed {naive}.",
        weeks=ngettext("the last week", "the last {n} weeks", len(weeks), n=len(weeks)),
        error=display.percent(rates[FORECAST]),
        naive=display.percent(rates[NAIVE]),
    )


def _rates(weeks: Sequence[Mapping[str, Tally]]) -> Iterator[tuple[str, float]]:
    for model in MODELS:
        total = accuracy.combined([week[model] for week in weeks if model in week])
        if total is not None and total.wape is not None:
            yield model, total.wape


def _kept(book: Logbook) -> str:
    objectives = [line for line in standing_lines(book) if line.budget != NOT_KNOWN]
    if not objectives:
        return ""
    met_count = sum(line.quality == "good" for line in objectives)
    return ngettext(
        "{kept} of {n} measurable objective is met.",
        "{kept} of {n} measurable objectives are met.",
        len(objectives),
        kept=display.number(met_count),
        n=display.number(len(objectives)),
    )
