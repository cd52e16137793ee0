"""Value page: what rosters cost and saved in money, week by week, by city and month, and how each number was got."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date

from dashboards.ops.formatting import display
from dashboards.ops.formatting.charts import Running, running
from dashboards.ops.views.health import duration
from forecaster.ledger.value import BUFFER, FORESIGHT, LAST_WEEK, MODEL, MORE_VANS, PUBLISHED
from forecaster.staffing.value_account import (
    COMPARED,
    HOW,
    RANGE,
    SPANS,
    Amount,
    Computing,
    ValueAccount,
    ValuePart,
    WayTotal,
    where_vans_went,
)

USUAL = SPANS[1]
DRAWN = (LAST_WEEK, BUFFER)  # beside which the savings of ours are drawn
MOST_CITIES = 5  # where vans went
NOTHING_YET = (
    "The first night after a rostered day is over tells what that day's missing and idle drivers cost; each further "
    "night adds a day, and ranges are told from four weeks on."
)
TITLES = {
    PUBLISHED: "Our rosters",
    LAST_WEEK: "Same as last week",
    BUFFER: "Median plus buffer",
    FORESIGHT: "Perfect foresight",
    MODEL: "The model alone",
    MORE_VANS: "Ten more vans",
}


@dataclass(frozen=True)
class WayRow:
    """A way to roster, as the table shows it; a dash where nothing can be said."""

    name: str
    cost: str
    saved: str  # by ours beside it; empty for ours
    reach: str  # the range of what was saved
    short: str
    idle: str
    how: str


@dataclass(frozen=True)
class PartRow:
    """A city or a month."""

    name: str
    cost: str
    saved: tuple[str, str]  # beside last week, and the buffer
    reach: str  # the range of the former


@dataclass(frozen=True)
class PayersAnswer:
    """A question of whoever pays, its answer, and how that was got."""

    question: str
    answer: str
    reach: str
    how: str


@dataclass(frozen=True)
class ValuePage:
    weeks: int
    spans: tuple[tuple[int, str], ...]  # weeks, address
    headline: str  # empty: nothing is known yet
    saved: str
    reach: str
    gained: bool
    under: str
    rows: tuple[WayRow, ...]
    picture: Running | None
    picture_text: str
    cities: tuple[PartRow, ...]
    months: tuple[PartRow, ...]
    findings: tuple[PayersAnswer, ...]
    computing: tuple[tuple[str, str], ...]  # term, words
    remarks: tuple[str, ...]
    range_sentence: str
    nothing: str


def chosen_span(parameters: Mapping[str, str]) -> int:
    """The weeks that an address asks for; the usual where it does not, or asks for others."""
    return next((span for span in SPANS if str(span) == parameters.get("weeks")), USUAL)


def value_page(account: ValueAccount) -> ValuePage:
    """Everything the page shows, in the reader's numbers."""
    currency, ours, rival = account.currency, account.whole.of(PUBLISHED), account.whole.of(LAST_WEEK)
    known = ours is not None and rival is not None and account.first is not None and account.last is not None
    saved = rival.dearer if known and rival else Amount(0.0, None, None)
    return ValuePage(
        account.weeks,
        tuple((span, f"/value?weeks={span}") for span in SPANS),
        f"From {display.day(account.first)} to {display.day(account.last)}"
        if known and account.first and account.last
        else "",
        display.money(abs(saved.amount), currency),
        _reach(saved, currency),
        saved.amount >= 0,
        _under(ours, rival, account) if known and ours and rival else "",
        tuple(_way(total, currency) for total in account.whole.ways if total.way in COMPARED),
        _picture(account),
        _picture_text(account),
        _part_rows(account.cities, currency, lambda label: label or "Without a city"),
        _part_rows(account.months, currency, lambda label: f"{date.fromisoformat(label):%B %Y}"),
        tuple(_findings(account)),
        tuple(_computing(account.computing, currency)),
        tuple(_remarks(account)),
        RANGE,
        NOTHING_YET,
    )


def _under(ours: WayTotal, rival: WayTotal, account: ValueAccount) -> str:
    money = display.money
    sentence = (
        f"Missing and idle drivers of our rosters cost {money(ours.cost.amount, account.currency)} in "
        f"{display.count(account.days, 'day')}; had each depot rostered as the week before, "
        f"{money(rival.cost.amount, account.currency)}."
    )
    if (best := account.whole.of(FORESIGHT)) is not None:
        sentence += f" Whoever knew the orders would have paid {money(best.cost.amount, account.currency)}."
    return sentence


def _way(total: WayTotal, currency: str | None) -> WayRow:
    of_ours = total.way == PUBLISHED
    return WayRow(
        TITLES[total.way],
        display.money(total.cost.amount, currency),
        "" if of_ours else display.signed_money(total.dearer.amount, currency),
        "" if of_ours else _reach(total.dearer, currency),
        display.number(total.short),
        display.number(total.idle),
        HOW[total.way],
    )


def _part_rows(parts: tuple[ValuePart, ...], currency: str | None, name: Callable[[str], str]) -> tuple[PartRow, ...]:
    rows = []
    for part in parts:
        ours, last_week, buffer = (part.of(way) for way in (PUBLISHED, LAST_WEEK, BUFFER))
        if ours and last_week and buffer:
            saved = (
                display.signed_money(last_week.dearer.amount, currency),
                display.signed_money(buffer.dearer.amount, currency),
            )
            rows.append(
                PartRow(
                    name(part.label),
                    display.money(ours.cost.amount, currency),
                    saved,
                    _reach(last_week.dearer, currency),
                )
            )
    return tuple(rows)


def _findings(account: ValueAccount) -> list[PayersAnswer]:
    found, currency = [], account.currency
    if account.more_vans is not None:
        amount = account.more_vans
        cities = [
            f"{city or 'without a city'} {display.signed_money(worth, currency)}"
            for city, _, worth in where_vans_went(account)
            if round(worth) != 0
        ]
        where = f" By city: {', '.join(cities[:MOST_CITIES])}." if len(account.cities) > 1 and cities else ""
        found.append(
            PayersAnswer(
                "What would ten more vans have been worth?",
                display.signed_money(amount.amount, currency),
                _reach(amount, currency),
                f"Each day was rostered again with ten vans more, which may stand anywhere.{where}",
            )
        )
    if account.overrides is not None:
        count = f" on {display.count(account.overridden, 'depot-day')}" if account.overridden else ""
        found.append(
            PayersAnswer(
                "What were planners’ numbers worth?",
                display.signed_money(account.overrides.amount, currency),
                _reach(account.overrides, currency),
                f"What the model’s own rosters cost, less what those cost that went out with planners’ numbers{count}. "
                "Below zero the model alone would have been cheaper.",
            )
        )
    return found


def _computing(computing: Computing | None, currency: str | None) -> list[tuple[str, str]]:
    if computing is None:
        return []
    rows = [
        ("Computed", f"{duration(computing.seconds)} in {display.count(computing.runs, 'run')}"),
        (
            "Of it",
            f"training {duration(computing.training_seconds)}, prediction {duration(computing.prediction_seconds)}",
        ),
        ("Forecasts", f"{display.number(computing.forecasts)}, one for each depot and day"),
    ]
    if computing.cost is not None:
        rows.append(("Cost", display.small_money(computing.cost, currency)))
    if computing.cost_per_forecast is not None:
        rows.append(("Each forecast", display.small_money(computing.cost_per_forecast, currency)))
    return rows


def _remarks(account: ValueAccount) -> list[str]:
    remarks = []
    if account.backfilled:
        of_days = "Every day" if account.backfilled == account.days else f"{display.count(account.backfilled, 'day')}"
        remarks.append(
            f"{of_days} of these rest{'s' if account.backfilled in (1, account.days) else ''} on a forecast that was "
            "made afterwards, as of that morning: nobody worked by it."
        )
    if account.other_currency:
        remarks.append(f"{display.count(account.other_currency, 'day')} in another currency are left out.")
    return remarks


def _reach(amount: Amount, currency: str | None) -> str:
    if amount.low is None or amount.high is None:
        return ""
    return f"{display.signed_money(amount.low, currency)} and {display.signed_money(amount.high, currency)}"


def _picture(account: ValueAccount) -> Running | None:
    if len(account.saved) < 2:
        return None
    lines = [[saved.get(way, 0.0) for _, saved in account.saved] for way in DRAWN]
    names = [display.short_day(week) for week, _ in account.saved]
    return running(names, lines, lambda value: display.money(value, account.currency))


def _picture_text(account: ValueAccount) -> str:
    def amount(saved: Mapping[str, float], way: str) -> str:
        return display.signed_money(saved.get(way, 0.0), account.currency)

    return "; ".join(
        f"up to the week of {display.short_day(week)} {amount(saved, LAST_WEEK)} beside last week's and "
        f"{amount(saved, BUFFER)} beside the buffer's"
        for week, saved in account.saved
    )
