"""Value page: cost and savings of rosters by week, city and month, and the value of ten more vans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date

from dashboards.ops.formatting import display
from dashboards.ops.formatting.charts import Running, running
from dashboards.ops.views.health import duration
from forecaster.core.language import N_, _, ngettext, pgettext
from forecaster.ledger.value import AS_PLANNED, BUFFER, FORESIGHT, LAST_WEEK, MODEL, MORE_VANS, PUBLISHED, WORKED
from forecaster.staffing.value_account import (
    COMPARED,
    SPANS,
    Amount,
    Computing,
    ValueAccount,
    ValuePart,
    WayTotal,
    where_vans_went,
)

USUAL = SPANS[1]
DRAWN = (LAST_WEEK, BUFFER)  # policies compared with ours in the picture
MOST_CITIES = 5  # named in the answer about vans
VANS_BIND = 0.5  # share of missing drivers that perfect foresight would miss as well
NOTHING_YET = N_(
    "The first night after a rostered day adds the cost of that day's missing and idle drivers; "
    "intervals are shown after four weeks."
)
TITLES = {
    PUBLISHED: N_("Our rosters"),
    LAST_WEEK: N_("Same as last week"),
    BUFFER: N_("Median plus buffer"),
    FORESIGHT: N_("Perfect foresight"),
    MODEL: N_("The model alone"),
    MORE_VANS: N_("Ten more vans"),
}


@dataclass(frozen=True)
class WayRow:
    """A rostering policy, as the table shows it; a dash if unknown."""

    name: str
    cost: str
    saved: str  # by ours compared with it; empty for ours
    reach: str  # range of the savings
    short: str
    idle: str


@dataclass(frozen=True)
class PartRow:
    """A city or a month."""

    name: str
    cost: str
    saved: tuple[str, str]  # compared with last week, and with the buffer
    reach: str  # range of the former


@dataclass(frozen=True)
class PayersAnswer:
    """A question about money, its answer, and a remark, which may be empty."""

    question: str
    answer: str
    reach: str
    remark: str


@dataclass(frozen=True)
class ValuePage:
    weeks: int
    spans: tuple[tuple[int, str], ...]  # weeks, address
    headline: str  # empty: nothing is known yet
    saved: str
    reach: str
    gained: bool
    of_vans: bool  # True if the headline is about the value of more vans
    under: str
    rows: tuple[WayRow, ...]
    picture: Running | None
    picture_text: str
    cities: tuple[PartRow, ...]
    months: tuple[PartRow, ...]
    findings: tuple[PayersAnswer, ...]
    computing: tuple[tuple[str, str], ...]  # term, words
    remarks: tuple[str, ...]
    nothing: str


def chosen_span(parameters: Mapping[str, str]) -> int:
    """Return the weeks requested by an address; the default if missing or invalid."""
    return next((span for span in SPANS if str(span) == parameters.get("weeks")), USUAL)


def value_page(account: ValueAccount) -> ValuePage:
    """Return the content of the page, in the reader's number format."""
    currency, rival = account.currency, account.whole.of(LAST_WEEK)
    fleet = account.more_vans if account.more_vans and account.more_vans.amount > 0 else None
    headline = _headline(account, fleet)
    saved = fleet or (rival.dearer if headline and rival else Amount(0.0, None, None))
    return ValuePage(
        account.weeks,
        tuple((span, f"/value?weeks={span}") for span in SPANS),
        headline,
        display.money(abs(saved.amount), currency),
        _reach(saved, currency),
        saved.amount >= 0,
        fleet is not None,
        _under(account, fleet) if headline else "",
        tuple(_way(total, currency) for total in account.whole.ways if total.way in COMPARED),
        _picture(account),
        _picture_text(account),
        _part_rows(account.cities, currency, lambda label: label or _("Without a city")),
        _part_rows(account.months, currency, lambda label: display.month(date.fromisoformat(label))),
        tuple(_findings(account)),
        tuple(_computing(account.computing, currency)),
        tuple(_remarks(account)),
        _(NOTHING_YET),
    )


def _headline(account: ValueAccount, fleet: Amount | None) -> str:
    """Describe the period, and whether money was saved; empty if nothing is known yet."""
    rival = account.whole.of(LAST_WEEK)
    if account.first is None or account.last is None or rival is None or account.whole.of(PUBLISHED) is None:
        return ""
    values = {"first": display.day(account.first), "last": display.day(account.last)}
    if fleet is not None:
        return _("From {first} to {last} ten more vans would have saved", **values)
    if rival.dearer.amount >= 0:
        return _("From {first} to {last} our rosters saved", **values)
    return _("From {first} to {last} our rosters cost more", **values)


def _under(account: ValueAccount, fleet: Amount | None) -> str:
    money, ours, rival = display.money, account.whole.of(PUBLISHED), account.whole.of(LAST_WEEK)
    assert ours is not None
    assert rival is not None
    sentence = ngettext(
        "Missing and idle drivers of our rosters cost {ours} in {n} day; had each depot rostered as the week before, "
        "{rival}.",
        "Missing and idle drivers of our rosters cost {ours} in {n} days; had each depot rostered as the week before, "
        "{rival}.",
        account.days,
        n=display.number(account.days),
        ours=money(ours.cost.amount, account.currency),
        rival=money(rival.cost.amount, account.currency),
    )
    if (best := account.whole.of(FORESIGHT)) is None:
        return sentence
    least = money(best.cost.amount, account.currency)
    foresight = _("Perfect information would have cost {amount}.", amount=least)
    return " ".join(filter(None, (sentence, foresight, _binding(ours, best, fleet))))


def _binding(ours: WayTotal, best: WayTotal, fleet: Amount | None) -> str:
    """Explain why the rostering policies cost nearly the same, if most missing drivers lack a van;
    else empty."""
    if fleet is None or best.short < ours.short * VANS_BIND:
        return ""
    return _(
        "The rostering policies differ little because vans are scarce: of {short} missing drivers, {least} would "
        "also be missing with perfect foresight.",
        short=display.number(ours.short),
        least=display.number(best.short),
    )


def _way(total: WayTotal, currency: str | None) -> WayRow:
    of_ours = total.way == PUBLISHED
    return WayRow(
        _(TITLES[total.way]),
        display.money(total.cost.amount, currency),
        "" if of_ours else display.signed_money(total.dearer.amount, currency),
        "" if of_ours else _reach(total.dearer, currency),
        display.number(total.short),
        display.number(total.idle),
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
    answers, currency = [], account.currency
    if account.more_vans is not None:
        amount = account.more_vans
        cities = [
            _("{city} {amount}", city=city or _("without a city"), amount=display.signed_money(worth, currency))
            for city, _vans, worth in where_vans_went(account)
            if round(worth) != 0
        ]
        by_city = ""
        if len(account.cities) > 1 and cities:
            by_city = _("By city: {cities}.", cities=display.listed(cities[:MOST_CITIES]))
        answers.append(
            PayersAnswer(
                _("What would ten more vans have been worth?"),
                display.signed_money(amount.amount, currency),
                _reach(amount, currency),
                by_city,
            )
        )
    actual, planned = account.whole.of(WORKED), account.whole.of(AS_PLANNED)
    if account.deviation is not None and actual and planned:
        answers.append(
            PayersAnswer(
                _("What did deviations from the plan cost?"),
                display.signed_money(account.deviation.amount, currency),
                _reach(account.deviation, currency),
                _(
                    "{worked} worked and {planned} planned driver shifts, on {days} whose hours are known. Below zero, "
                    "the plan would have cost more.",
                    worked=display.number(actual.drivers),
                    planned=display.number(planned.drivers),
                    days=display.depot_days(planned.depot_days),
                ),
            )
        )
    if account.overrides is not None:
        below_zero = _("Below zero, the model alone would have been cheaper.")
        answers.append(
            PayersAnswer(
                _("What were planners’ numbers worth?"),
                display.signed_money(account.overrides.amount, currency),
                _reach(account.overrides, currency),
                below_zero,
            )
        )
    return answers


def _computing(computing: Computing | None, currency: str | None) -> list[tuple[str, str]]:
    if computing is None:
        return []
    rows = [
        (
            _("Computed"),
            ngettext(
                "{duration} in {n} run",
                "{duration} in {n} runs",
                computing.runs,
                n=display.number(computing.runs),
                duration=duration(computing.seconds),
            ),
        ),
        (
            _("Of it"),
            _(
                "training {training}, prediction {prediction}",
                training=duration(computing.training_seconds),
                prediction=duration(computing.prediction_seconds),
            ),
        ),
        (_("Forecasts"), _("{n}, one for each depot and day", n=display.number(computing.forecasts))),
    ]
    if computing.cost is not None:
        rows.append((_("Cost"), display.small_money(computing.cost, currency)))
    if computing.cost_per_forecast is not None:
        rows.append((_("Each forecast"), display.small_money(computing.cost_per_forecast, currency)))
    return rows


def _remarks(account: ValueAccount) -> list[str]:
    remarks = []
    if account.backfilled:
        if account.backfilled == account.days:
            remarks.append(_("All forecasts of these days were made afterwards, as of that morning; nobody used them."))
        else:
            remarks.append(
                ngettext(
                    "The forecast of {n} of these days was made afterwards, as of that morning; nobody used it.",
                    "The forecasts of {n} of these days were made afterwards, as of that morning; nobody used them.",
                    account.backfilled,
                    n=display.number(account.backfilled),
                )
            )
    if account.premiums is not None:
        premiums = display.money(account.premiums, account.currency)
        remarks.append(
            _("Changes to published schedules also cost {premiums} in premiums on these days.", premiums=premiums)
        )
    if account.other_currency:
        remarks.append(
            ngettext(
                "{n} day in another currency is left out.",
                "{n} days in another currency are left out.",
                account.other_currency,
                n=display.number(account.other_currency),
            )
        )
    return remarks


def _reach(amount: Amount, currency: str | None) -> str:
    if amount.low is None or amount.high is None:
        return ""
    low, high = display.signed_money(amount.low, currency), display.signed_money(amount.high, currency)
    return pgettext("a range", "{low} and {high}", low=low, high=high)


def _picture(account: ValueAccount) -> Running | None:
    if len(account.saved) < 2:
        return None
    lines = [[saved.get(way, 0.0) for _, saved in account.saved] for way in DRAWN]
    names = [display.short_day(week) for week, _ in account.saved]
    return running(names, lines, lambda value: display.money(value, account.currency))


def _picture_text(account: ValueAccount) -> str:
    def amount(saved: Mapping[str, float], way: str) -> str:
        return display.signed_money(saved.get(way, 0.0), account.currency)

    return display.clauses(
        *(
            _(
                "up to the week of {day} {last_week} compared with last week's and {buffer} compared with the buffer's",
                day=display.short_day(week),
                last_week=amount(saved, LAST_WEEK),
                buffer=amount(saved, BUFFER),
            )
            for week, saved in account.saved
        )
    )
