"""Suggestions of the known word nearest to an unknown one."""

from __future__ import annotations

import unicodedata

import pytest

from forecaster.core.language.near_words import LONGEST, did_you_mean, fold, nearest_word

WORDS = ("closure", "promo", "école", "Straße", "school_holiday")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        (" CLOSURE ", "closure"),
        ("closures", "closure"),
        ("clsoure", "closure"),
        ("school  Holiday", "school_holiday"),
        (unicodedata.normalize("NFD", "École"), "école"),
        ("ecole", "école"),
        ("STRASSE", "Straße"),
        ("ｐｒｏｍｏ", "promo"),
        ("festival", None),
        ("", None),
        ("—", None),
    ],
)
def test_the_nearest_word_differs_in_nothing_or_in_a_few_letters(word: str, meant: str | None) -> None:
    assert nearest_word(word, WORDS) == meant


def test_a_word_with_the_same_letters_is_preferred_to_a_similar_one() -> None:
    assert nearest_word("north", ["Nort", "North", "NORTH 2"]) == "North"


def test_case_blanks_and_unicode_form_are_folded_but_not_accents() -> None:
    assert fold("  Été \t 2026 ") == fold(unicodedata.normalize("NFD", "ÉTÉ 2026")) != fold("ete 2026")


def test_a_long_word_is_compared_by_its_beginning() -> None:
    assert nearest_word("x" * 10_000_000, ["x" * LONGEST]) == "x" * LONGEST


def test_a_hint_is_the_end_of_a_sentence() -> None:
    assert did_you_mean("closure") == "; did you mean 'closure'?"
    assert did_you_mean(None) == ""
