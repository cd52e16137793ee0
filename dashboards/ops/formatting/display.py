"""Display formatting of numbers, days and instants on the pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from math import floor, log10
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import locale
from forecaster.core.language import ENGLISH, RIGHT_TO_LEFT, _, ngettext

MOST_PLACES = 9  # decimals of small amounts


def orders(value: float) -> str:
    """Format a number of orders, whole, with thousands separators: 2431.4 is "2,431"."""
    return number(value, 0)


def number(value: float, places: int = 0) -> str:
    """Format a number with separators in the reader's locale: "2,431.4" or "2.431,4"."""
    style = locale.current()
    text = f"{value:,.{places}f}" if places else f"{round(value):,}"
    return text.translate({ord(","): style.group, ord("."): style.decimal})


def decimal(value: float) -> str:
    """Format a number with its own decimals, two at most: 40.0 is "40", 37.5 is "37.5" or "37,5"."""
    return number(value, next((places for places in (0, 1) if round(value, places) == round(value, 2)), 2))


def short(value: float) -> str:
    """Format a number of orders for small spaces: from 100,000 in thousands, "445k"."""
    return _("{n}k", n=number(value / 1000)) if round(value) >= 100_000 else orders(value)


def percent(share: float, places: int = 1) -> str:
    """Format a share, without a line break: 0.0912 is "9.1 %"."""
    return f"{number(100 * share, places)}\N{NO-BREAK SPACE}%"


def in_one_line(sentence: str) -> str:
    """Keep each % on the line of its number, in a sentence from elsewhere."""
    return sentence.replace(" %", "\N{NO-BREAK SPACE}%")


def signed(value: float) -> str:
    """Format a change in orders: "+12", "−7", "0"."""
    change = round(value)
    return number(change) if change == 0 else with_sign(change, number(abs(change)))


def with_sign(value: float, text: str) -> str:
    """Prefix a text with the sign of a value, also in right-to-left scripts."""
    mark = "\N{LEFT-TO-RIGHT MARK}" if locale.current().language in RIGHT_TO_LEFT else ""
    return f"{mark}{'+' if value > 0 else '−'}{text}"


def money(value: float, currency: str | None, places: int = 0) -> str:
    """Format an amount in a currency in the reader's language: "€1,234", "1.234 €"; without a
    currency a plain number."""
    text = number(abs(value), places)
    if currency is not None:
        text = locale.money_pattern(locale.current().tag, currency).format(text)
    return with_sign(-1, text) if round(value, places) < 0 else text


def small_money(value: float, currency: str | None) -> str:
    """Format an amount with two significant digits, at least cents: "€0.03", "€0.00042"."""
    places = 2 if value == 0 else max(2, 1 - floor(log10(abs(value))))
    return money(value, currency, min(places, MOST_PLACES))


def signed_money(value: float, currency: str | None) -> str:
    """Format an amount with its sign: "+€12", "−€7"."""
    return money(value, currency) if round(value) <= 0 else with_sign(1, money(value, currency))


def signed_percent(share: float) -> str:
    """Format a share with its sign: "+1.2 %", "−0.4 %"."""
    text = percent(abs(share))
    return text if round(abs(share), 3) == 0 else with_sign(share, text)


def span(low: float, high: float) -> str:
    """Format a range: "97–163"."""
    return f"{orders(low)}–{orders(high)}"


def day(value: date) -> str:
    """Format a day with its weekday: "Wed 18 Jun", "Mi., 18. Juni"."""
    return _date(value, "MMMEd", f"{value:%a} {value.day} {value:%b}")


def short_day(value: date) -> str:
    """Format a day without its weekday: "18 Jun", "18. Juni"."""
    return _date(value, "MMMd", f"{value.day} {value:%b}")


def dated(value: date) -> str:
    """Format a day with its year: "18 Jun 2025", "18. Juni 2025"."""
    return _date(value, "yMMMd", f"{value.day} {value:%b %Y}")


def month(value: date) -> str:
    """Format a month with its year: "June 2025", "junio de 2025"."""
    return _date(value, "yMMMM", f"{value:%B %Y}")


def weekday(value: date) -> str:
    """Format a weekday: "Wed", "Mi"; Arabic has no abbreviations and drops the article."""
    return _date(value, "cccccc" if locale.current().language == "ar" else "ccc", f"{value:%a}")


def weekday_letters(value: date, letters: int = 1) -> str:
    """Format a weekday in one letter or two, for small spaces: "W", "We"; Arabic writes it in full
    above one letter."""
    return _date(value, "ccccc" if letters == 1 else "cccccc", f"{value:%a}"[:letters])


def days(values: Sequence[date]) -> str:
    """Format a range of days: "Wed 18 Jun – Tue 24 Jun"."""
    return day(values[0]) if len(values) == 1 else f"{day(values[0])} – {day(values[-1])}"


def near(value: date, today: date) -> str:
    """Return "today" or "tomorrow" if it applies, else an empty text."""
    if value == today:
        return _("today")
    return _("tomorrow") if value == today + timedelta(days=1) else ""


def instant(value: datetime, zone: ZoneInfo) -> str:
    """Format an instant in a time zone: "Wed 18 Jun, 03:24 EDT"."""
    local = value.astimezone(zone)
    name = f"{local:%Z}"
    clock = f"{local:%H:%M} {name if name.isalpha() else 'UTC' + name}"
    return _("{day}, {time}", day=day(local.date()), time=clock)


def listed(parts: Sequence[str]) -> str:
    """Join parts with the comma of the reader's script: "a, b, c"."""
    return _(", ").join(parts)


def clauses(*parts: str) -> str:
    """Join the nonempty clauses: "a; b"."""
    return _("; ").join(part for part in parts if part)


def depots(number_of: int) -> str:
    """Format a count: "1 depot", "64 depots"."""
    return ngettext("{n} depot", "{n} depots", number_of, n=number(number_of))


def depot_days(number_of: int) -> str:
    return ngettext("{n} depot-day", "{n} depot-days", number_of, n=number(number_of))


def drivers(number_of: int) -> str:
    return ngettext("{n} driver", "{n} drivers", number_of, n=number(number_of))


def in_days(number_of: int) -> str:
    """Format a duration: "1 day", "12 days"."""
    return ngettext("{n} day", "{n} days", number_of, n=number(number_of))


def in_orders(value: float) -> str:
    """Format a count: "1 order", "300 orders"."""
    return ngettext("{n} order", "{n} orders", round(value), n=number(value))


def _date(value: date, skeleton: str, english: str) -> str:
    style = locale.current()
    return english if style.language == ENGLISH else locale.date_text(value, skeleton, style.dates)
