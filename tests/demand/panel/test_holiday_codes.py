"""Suggested country or subdivision for a word that is not a code."""

from __future__ import annotations

import pytest

from forecaster.demand.panel.holiday_codes import country_hint, subdivision_hint


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("de", "DE"),
        ("Germany", "DE"),
        ("germny", "DE"),
        ("Österreich", "AT"),
        ("EN", "GB"),
        ("England", "GB"),
        ("SP", "ES"),
        ("de_DE", "DE"),
        ("DE-BY", "DE"),
        ("U.S.A.", "USA"),
    ],
)
def test_country_is_recognized_by_name_and_common_codes(word: str, code: str) -> None:
    assert country_hint(word) == f"; did you mean '{code}'?"


@pytest.mark.parametrize("word", ["", "XX", "EU", "QQQ", "Atlantis", "1"])
def test_never_suggests_a_country_by_similar_letters_alone(word: str) -> None:
    assert country_hint(word) == ""


@pytest.mark.parametrize(
    ("word", "country", "code"),
    [
        ("by", "DE", "BY"),
        ("DE-BY", "DE", "BY"),
        ("Bayern", "DE", "BY"),
        ("england", "GB", "ENG"),
        ("New York", "US", "NY"),
        ("NYC", "US", "NY"),
    ],
)
def test_subdivision_is_recognized_by_name_and_with_the_country_code(word: str, country: str, code: str) -> None:
    assert subdivision_hint(word, country) == f"; did you mean '{code}'?"


@pytest.mark.parametrize(("word", "country"), [("BA", "DE"), ("UK", "GB"), ("X", "EC"), ("", "DE")])
def test_never_suggests_a_subdivision_by_similar_letters_alone(word: str, country: str) -> None:
    assert subdivision_hint(word, country) == ""
