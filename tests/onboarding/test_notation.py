from __future__ import annotations

import pandas as pd
import pytest

from forecaster.onboarding import notation


def days_of(form: str, count: int = 60) -> pd.Series[str]:
    return pd.Series(pd.date_range("2024-02-01", periods=count).strftime(form), dtype="str")


@pytest.mark.parametrize(
    "form",
    [
        "%d.%m.%Y",
        "%m/%d/%Y",
        "%d/%m/%Y",
        "%d-%m-%y",
        "%Y%m%d",
        "%Y/%m/%d",
        "%d-%b-%Y",
        "%B %d, %Y",
        "%d.%m.%Y %H:%M",
        "%y/%m/%d",
        "%y.%m.%d %H:%M",
        "%G-W%V-%u",
        "%A %d %B %Y",
        "%A, %d %B %Y",
        "%a %d %b %Y",
        "%A, %B %d, %Y",
        "%Y-%j",
    ],
)
def test_date_form_is_the_one_that_reads_the_days(form: str) -> None:
    assert notation.date_form(days_of(form)) == notation.DateForm(form, 1.0)


@pytest.mark.parametrize("written", ["%A, %d %B %Y", "%d %B %Y"])
def test_date_form_reads_months_in_another_language(written: str) -> None:
    french = days_of(written).str.replace("February", "février").str.replace("March", "mars")
    assert notation.date_form(french) == notation.DateForm(written, 1.0)


def test_iso_8601_days_need_no_form() -> None:
    assert notation.date_form(days_of("%Y-%m-%d")) == notation.DateForm(None, 1.0)


def test_prefers_the_form_with_consecutive_days() -> None:
    twelve = pd.Series([f"{day:02d}/03/2024" for day in range(1, 13)], dtype="str")
    assert notation.date_form(twelve) == notation.DateForm("%d/%m/%Y", 1.0, "%m/%d/%Y")


@pytest.mark.parametrize("form", ["%y-%m-%d", "%d-%m-%y"])
def test_two_digit_years_are_read_by_the_form_with_the_densest_days(form: str) -> None:
    mondays = pd.Series(pd.date_range("2026-01-05", periods=20, freq="7D").strftime(form), dtype="str")
    decades = pd.Series(pd.date_range("2010-01-01", periods=5_500).strftime(form), dtype="str")
    assert notation.date_form(mondays) == notation.DateForm(form, 1.0)
    assert notation.date_form(notation.distinct(decades)) == notation.DateForm(form, 1.0)


def test_prefers_the_usual_form_and_reports_an_equal_rival() -> None:
    days = pd.Series(["24/12/23"], dtype="str")
    assert notation.date_form(days) == notation.DateForm("%d/%m/%y", 1.0, "%y/%m/%d")


def test_names_and_counts_are_not_days() -> None:
    assert notation.date_form(pd.Series(["Berlin", "Hamburg"])) is None
    assert notation.date_form(pd.Series([str(count) for count in range(100, 200)])) is None


@pytest.mark.parametrize(
    ("texts", "marks"),
    [
        (["412", "1200"], (None, ".")),
        (["412.5", "1200.25"], (None, ".")),
        (["412,5", "1200,25"], (None, ",")),
        (["1.412", "980", "2.001"], (".", ",")),
        (["1,412", "980", "2,001"], (",", ".")),
        (["1.412,5", "980,0"], (".", ",")),
        (["1 412", "980"], (" ", ".")),
        (["412,000", "380,000"], (None, ",")),
        (["north", "south"], None),
    ],
)
def test_marks_are_the_ones_that_read_the_numbers(texts: list[str], marks: tuple[str | None, str] | None) -> None:
    assert notation.marks(pd.Series(texts, dtype="str")) == marks


def test_decimals_in_another_column_identify_the_decimal_mark() -> None:
    counts, prices = pd.Series(["1.412", "2.001"], dtype="str"), pd.Series(["9.99", "12.50"], dtype="str")
    assert notation.marks(counts) == (".", ",")
    assert notation.marks(counts, [prices]) == (None, ".")


def test_date_form_reads_utc_timestamps_and_ordinals() -> None:
    assert notation.date_form(days_of("%Y-%m-%d 00:00:00 UTC")) == notation.DateForm(None, 1.0)
    ordinals = days_of("%dth %B %Y").str.replace("01th", "1st")
    assert notation.date_form(ordinals) == notation.DateForm("%d %B %Y", 1.0)


def test_thousands_mark_is_found_if_only_peaks_have_it() -> None:
    counts = pd.Series([*map(str, range(100, 900)), "1,022", "1,107"], dtype="str")
    assert notation.marks(counts) == (",", ".")


@pytest.mark.parametrize(
    ("counts", "marks"),
    [(["$1,234", "$940"], (",", ".")), (["1.234 €", "940 €"], (".", ",")), (["12.50 €", "9.25 €"], (None, "."))],
)
def test_thousands_mark_is_found_next_to_a_currency(counts: list[str], marks: tuple[str | None, str]) -> None:
    assert notation.marks(pd.Series(counts, dtype="str")) == marks
