"""Nearest words: find the known word that an unknown one was meant to be, for "did you mean".

Case, blanks, accents and the Unicode form of a letter make no difference here. Do not use it for
codes of two or three letters: a similar code is another country or another time.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable

from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence

LONGEST = 200  # characters of a word that are compared
# words; with more, none is found by similarity, which takes a tenth of a millisecond each
MOST_COMPARED = 5_000
_SAME = 0.6  # smallest similarity of two spellings of a word


def fold(word: str) -> str:
    """Return the word without insignificant differences: case, surrounding and repeated blanks,
    Unicode form."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold()).split())


def plain(word: str) -> str:
    """Return only the base letters and digits of the folded word: no accents, hyphens, underscores
    or blanks."""
    letters = unicodedata.normalize("NFKD", fold(word))
    return "".join(letter for letter in letters if letter.isalnum())


def nearest_word(word: str, candidates: Iterable[str], cutoff: float = _SAME) -> str | None:
    """Return the nearest of the words, or None: one that folds to the same, else one with the same
    plain letters, else the most similar."""
    choices = list(candidates)
    word = word[:LONGEST]
    for form in (fold, plain):
        word_form = form(word)
        if same := next((choice for choice in choices if word_form and form(choice) == word_form), None):
            return same
    if len(choices) > MOST_COMPARED:
        return None
    by_form = {plain(choice): choice for choice in reversed(choices)}
    close = difflib.get_close_matches(plain(word), list(by_form), n=1, cutoff=cutoff)
    return by_form[close[0]] if close else None


def did_you_mean(word: str | None) -> str:
    """Return the end of a sentence that asks whether this word was meant; empty for None."""
    return sentence(N_("; did you mean '{name}'?"), name=word) if word else ""
