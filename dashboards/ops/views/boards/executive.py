"""Executive view: the orders to expect, how wrong forecasts were, what rosters saved, and how promises stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta

import sqlalchemy as sa

from dashboards.ops.formatting import display
from dashboards.ops.reading.editions import Logbook
from dashboards.ops.views.boards.board import (
    BOARDS,
    Board,
    BoardCell,
    BoardOut,
    BoardPart,
    BoardRow,
    hidden_board,
    numbers,
    picture,
    series_rows,
    title_of,
)
from dashboards.ops.views.money.value import TITLES
from dashboards.ops.views.reliability.promises import NOT_KNOWN, PromiseLine, standing_lines, standings_of
from forecaster.core.language import _, ngettext
from forecaster.ledger import accuracy, tables, value
from forecaster.ledger.accuracy import FORECAST, LEGACY, MODELS, NAIVE, Tally
from forecaster.monitoring.readings import network_medians

WEEKS = 26
SHOWN_WAYS = (value.PUBLISHED, value.LAST_WEEK, value.FORESIGHT)


def executive(book: Logbook) -> Board:
    """The page; nothing of it for whoever does not see every city."""
    if (hidden := hidden_board(book, 0)) is not None:
        return hidden
    address, name = BOARDS[0]
    orders, tallies, costs = _orders(book), _tallies(book), _costs(book)
    lines = standing_lines(book)
    return Board(
        title_of(book),
        _(name),
        address,
        eyebrow=_orders_of(orders),
        number=display.orders(sum(median for _day, median in orders)) if orders else "–",
        under=_error_sentence(tallies),
        notes=tuple(filter(None, (_money_sentence(costs), _kept(lines)))),
        parts=tuple(part for part in (_ahead(orders), _errors(tallies), *_money(costs), _promises(lines)) if part),
    )


def executive_out(book: Logbook) -> BoardOut:
    """The same numbers."""
    if book.cities is not None:
        return BoardOut()
    rows = [BoardRow("orders", "network", day, median, "orders") for day, median in _orders(book)]
    for standing in standings_of(book):
        label = standing.label
        rows += series_rows("budget_left", label, [(None, standing.budget_left)], "share")
        rows += series_rows("burn_rate", label, [(None, standing.burn_rate)], "1")
    by_week = _by_week(_tallies(book))
    for model in MODELS:
        points = [(week, of_week[model].wape if model in of_week else None) for week, of_week in by_week.items()]
        rows += series_rows("error", model, points, "share")
    for way, of_way in _costs(book)[1].items():
        rows += series_rows("roster_cost", way, of_way.items(), "money")
    return BoardOut(rows)


def _orders(book: Logbook) -> tuple[tuple[date, float], ...]:
    """The network's median on each day that is published; nothing where no total was."""
    if book.head is None:
        return ()
    with book.ledger.transaction() as connection:
        return network_medians(connection, book.head.publication_id, book.head.levels)


def _tallies(book: Logbook) -> tuple[Tally, ...]:
    """What came of the forecasts of all depots together, week by week."""
    table = tables.hindsight
    columns = [column for column in table.c if column.name != "pipeline"]
    query = sa.select(*columns).where(table.c.pipeline == (book.pipeline or ""), table.c.part == accuracy.ALL)
    with book.ledger.transaction() as connection:
        rows = connection.execute(query.order_by(table.c.week)).mappings().all()
    return tuple(Tally(**row) for row in rows)


def _by_week(tallies: Sequence[Tally]) -> dict[date, dict[str, Tally]]:
    weeks: dict[date, dict[str, Tally]] = {}
    for tally in tallies:
        weeks.setdefault(tally.week, {})[tally.model] = tally
    return weeks


def _costs(book: Logbook) -> tuple[str | None, dict[str, dict[date, float]]]:
    """The currency, and way to roster → Monday → cost."""
    table = tables.value_days.c
    newest = sa.select(table.day, table.currency).where(table.pipeline == (book.pipeline or ""))
    costs: dict[str, dict[date, float]] = {}
    with book.ledger.transaction() as connection:
        last = connection.execute(newest.order_by(table.day.desc()).limit(1)).one_or_none()
        if last is None:
            return None, {}
        since = accuracy.monday(last.day) - timedelta(weeks=WEEKS - 1)
        for cost in value.week_costs(connection, book.pipeline or "", last.currency, since=since):
            if cost.way in SHOWN_WAYS:
                costs.setdefault(cost.way, {})[cost.week] = cost.cost
    return last.currency, {way: costs[way] for way in SHOWN_WAYS if way in costs}


def _orders_of(orders: Sequence[tuple[date, float]]) -> str:
    if not orders:
        return _("No total of the network is published")
    return _("Orders expected from {first} to {last}", first=display.day(orders[0][0]), last=display.day(orders[-1][0]))


def _kept(lines: Sequence[PromiseLine]) -> str:
    known = [line for line in lines if line.budget != NOT_KNOWN]
    if not known:
        return ""
    kept = sum(line.quality == "good" for line in known)
    return ngettext(
        "{kept} of {n} promise that can be measured is kept.",
        "{kept} of {n} promises that can be measured are kept.",
        len(known),
        kept=display.number(kept),
        n=display.number(len(known)),
    )


def _promises(lines: Sequence[PromiseLine]) -> BoardPart | None:
    if not lines:
        return None
    return BoardPart(
        _("What is promised"),
        columns=(_("Promise"), _("State"), _("Left"), _("Burns")),
        rows=tuple(
            (
                BoardCell(line.title),
                BoardCell(line.state, "" if line.budget == NOT_KNOWN else line.quality),
                *numbers(line.budget, line.burns),
            )
            for line in lines
        ),
    )


def _money_sentence(costs: tuple[str | None, Mapping[str, Mapping[date, float]]]) -> str:
    """Saving of the newest four weeks compared with last week's rosters; empty where that is not known."""
    currency, by_way = costs
    ours, rival = by_way.get(value.PUBLISHED, {}), by_way.get(value.LAST_WEEK, {})
    weeks = sorted(ours.keys() & rival.keys())[-4:]
    if not weeks:
        return ""
    saved = sum(rival[week] - ours[week] for week in weeks)
    values = {
        "weeks": ngettext("the last week", "the last {n} weeks", len(weeks), n=len(weeks)),
        "amount": display.money(abs(saved), currency),
    }
    if saved < 0:
        return _("In {weeks} our rosters cost {amount} more than those of the week before.", **values)
    return _("In {weeks} our rosters saved {amount} compared with those of the week before.", **values)


def _error_sentence(tallies: Sequence[Tally]) -> str:
    """One sentence on the newest four weeks; empty where nothing is known of them."""
    weeks = list(_by_week(tallies).values())[-4:]
    totals = {model: accuracy.combined([week[model] for week in weeks if model in week]) for model in MODELS}
    rates = {model: total.wape for model, total in totals.items() if total is not None and total.wape is not None}
    if FORECAST not in rates or NAIVE not in rates:
        return ""
    span = ngettext("the last week", "the last {n} weeks", len(weeks), n=len(weeks))
    words: Mapping[str, str] = {
        "weeks": span,
        "error": display.percent(rates[FORECAST]),
        "naive": display.percent(rates[NAIVE]),
    }
    return _("In {weeks} forecasts missed {error} of the orders; the same weekday repeated {naive}.", **words)


def _errors(tallies: Sequence[Tally]) -> BoardPart:
    by_week = _by_week(tallies)

    def rates(model: str) -> list[float | None]:
        return [100 * (of_week[model].wape or 0.0) if model in of_week else None for of_week in by_week.values()]

    lines = ((_("forecasts"), FORECAST), (_("same weekday"), NAIVE), (_("legacy system"), LEGACY))
    drawn = picture(
        [display.short_day(week) for week in by_week],
        [(name, rates(model)) for name, model in lines],
        lambda percent: _("{n} %", n=display.number(percent)),
    )
    says = "" if drawn else _("Drawn from the second week on.")
    return BoardPart(_("Error of each week"), says=says, picture=drawn)


def _ahead(orders: Sequence[tuple[date, float]]) -> BoardPart | None:
    if not orders:
        return None
    return BoardPart(
        _("Orders ahead"),
        columns=(_("Day"), _("Orders")),
        rows=tuple((BoardCell(display.day(day)), *numbers(display.orders(median))) for day, median in orders),
    )


def _money(costs: tuple[str | None, Mapping[str, Mapping[date, float]]]) -> Iterator[BoardPart]:
    currency, by_way = costs
    if not by_way:
        return
    weeks = sorted({week for of_way in by_way.values() for week in of_way})
    drawn = picture(
        [display.short_day(week) for week in weeks],
        [(_(TITLES[way]), [of_way.get(week) for week in weeks]) for way, of_way in by_way.items()],
        lambda amount: display.money(amount, currency),
    )
    last = weeks[-4:]
    yield BoardPart(
        _("What each way to roster cost"),
        says=_("Wages are not in it: only what missing and idle drivers cost, as declared for this network."),
        picture=drawn,
        columns=(_("Roster"), ngettext("{n} week", "{n} weeks", len(last), n=len(last))),
        rows=tuple(
            (
                BoardCell(_(TITLES[way])),
                *numbers(display.money(sum(of_way.get(week, 0.0) for week in last), currency)),
            )
            for way, of_way in by_way.items()
        ),
    )
