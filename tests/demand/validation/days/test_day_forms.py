"""Choice among forms that read the same text: the one with the densest days is preferred."""

from __future__ import annotations

import pandas as pd

from forecaster.demand.validation.days.forms import likeliest


def days(*texts: str) -> pd.Series[pd.Timestamp]:
    return pd.Series(pd.to_datetime(list(texts)))


RUN, MONTHS = days("2024-03-05", "2024-03-06", "2024-03-07"), days("2024-05-03", "2024-06-03", "2024-07-03")
YEARS = days("2005-03-24", "2006-03-24", "2007-03-24")


def test_form_with_consecutive_days_comes_first() -> None:
    assert likeliest({"%m/%d/%Y": MONTHS, "%d/%m/%Y": RUN}) == ["%d/%m/%Y", "%m/%d/%Y"]


def test_form_with_the_year_elsewhere_is_listed_only_if_equally_likely() -> None:
    assert likeliest({"%d/%m/%y": YEARS, "%y/%m/%d": RUN}) == ["%y/%m/%d"]
    assert likeliest({"%d/%m/%y": RUN, "%y/%m/%d": RUN}) == ["%d/%m/%y", "%y/%m/%d"]


def test_weekly_days_prefer_the_densest_form() -> None:
    weeks = days("2024-03-04", "2024-03-11", "2024-03-18")
    assert likeliest({"%d/%m/%y": YEARS, "%y/%m/%d": weeks}) == ["%y/%m/%d"]


def test_single_day_keeps_the_usual_order_of_forms() -> None:
    one = days("2024-03-05", "2024-03-05")
    assert likeliest(dict.fromkeys(("%d/%m/%y", "%m/%d/%y", "%y/%m/%d"), one)) == [
        "%d/%m/%y",
        "%m/%d/%y",
        "%y/%m/%d",
    ]
