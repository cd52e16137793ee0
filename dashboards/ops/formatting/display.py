"""Display formatting of numbers, days and instants, the way the pages write them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from math import floor, log10
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import locale

MOST_PLACES = 9  # of small amounts


def orders(value: float) -> str:
    """A number of orders, whole, with thousands apart: 2431.4 is "2,431"."""
    return number(value, 0)


def number(value: float, places: int = 0) -> str:
    """A number with thousands apart, in the way of the reader: "2,431.4" or "2.431,4"."""
    style = locale.current()
    text = f"{value:,.{places}f}" if places else f"{round(value):,}"
    return text.translate({ord(","): style.group, ord("."): style.decimal})


def short(value: float) -> str:
    """A number of orders where there is little room: from 100,000 on in thousands, "445k"."""
    return f"{number(value / 1000)}k" if round(value) >= 100_000 else orders(value)


def percent(share: float, places: int = 1) -> str:
    """A share: 0.0912 is "9.1 %", in one line."""
    return f"{number(100 * share, places)}\N{NO-BREAK SPACE}%"


def in_one_line(sentence: str) -> str:
    """A sentence of others, in which no % stands alone on a line."""
    return sentence.replace(" %", "\N{NO-BREAK SPACE}%")


def signed(value: float) -> str:
    """A change in orders: "+12", "−7", "0"."""
    whole = round(value)
    return number(whole) if whole == 0 else f"{'+' if whole > 0 else '−'}{number(abs(whole))}"


def money(value: float, currency: str | None, places: int = 0) -> str:
    """An amount in a currency, by the reader's language: "€1,234", "1.234 €"; a plain number without a currency."""
    text = number(abs(value), places)
    if currency is not None:
        text = locale.money_pattern(locale.current().tag, currency).format(text)
    return f"−{text}" if round(value, places) < 0 else text


def small_money(value: float, currency: str | None) -> str:
    """An amount with two digits that say something, at least cents: "€0.03", "€0.00042"."""
    places = 2 if value == 0 else max(2, 1 - floor(log10(abs(value))))
    return money(value, currency, min(places, MOST_PLACES))


def signed_money(value: float, currency: str | None) -> str:
    """An amount with its sign: "+€12", "−€7"."""
    return money(value, currency) if round(value) <= 0 else f"+{money(value, currency)}"


def signed_percent(share: float) -> str:
    """A share with its sign: "+1.2 %", "−0.4 %"."""
    sign = "" if round(abs(share), 3) == 0 else "+" if share > 0 else "−"
    return sign + percent(abs(share))


def span(low: float, high: float) -> str:
    """From one number to another: "97–163"."""
    return f"{orders(low)}–{orders(high)}"


def day(value: date) -> str:
    """A day with its weekday: "Wed 18 Jun"."""
    return f"{value:%a} {value.day} {value:%b}"


def short_day(value: date) -> str:
    return f"{value.day} {value:%b}"


def days(values: Sequence[date]) -> str:
    """A run of days: "Wed 18 Jun – Tue 24 Jun"."""
    return day(values[0]) if len(values) == 1 else f"{day(values[0])} – {day(values[-1])}"


def near(value: date, today: date) -> str:
    """ "today" or "tomorrow" where it is so, else nothing."""
    return {today: "today", today + timedelta(days=1): "tomorrow"}.get(value, "")


def instant(value: datetime, zone: ZoneInfo) -> str:
    """An instant on the clocks of a zone: "Wed 18 Jun, 03:24 EDT"."""
    local = value.astimezone(zone)
    name = f"{local:%Z}"
    return f"{day(local.date())}, {local:%H:%M} {name if name.isalpha() else 'UTC' + name}"


def count(number: int, noun: str) -> str:
    """ "1 depot", "64 depots"."""
    return f"{orders(number)} {noun}" if number == 1 else f"{orders(number)} {noun}s"
