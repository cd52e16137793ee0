"""Nearest words: which known word was meant by one that is not known, for "did you mean".

Case, blanks, accents and the form that Unicode gives a letter make no difference here. Codes of two
or three letters are not for it: one next to another is another country or another time.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable

from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence

LONGEST = 200  # characters of a word that is compared
# words; of more none is found by similarity, which takes a tenth of a millisecond each
MOST_COMPARED = 5_000
_SAME = 0.6  # of the letters, which two spellings of a word have at least in common


def fold(word: str) -> str:
    """The word without what never distinguishes it: case, surrounding and repeated blanks, Unicode
    form."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold()).split())


def plain(word: str) -> str:
    """The folded word in its base letters and digits alone: no accents, hyphens, underscores or
    blanks."""
    letters = unicodedata.normalize("NFKD", fold(word))
    return "".join(letter for letter in letters if letter.isalnum())


def nearest_word(word: str, words: Iterable[str], cutoff: float = _SAME) -> str | None:
    """The one of the words that may have been meant, None where none is near: one that folds to the
    same, else one of the same plain letters, else the most similar."""
    choices = list(words)
    word = word[:LONGEST]
    for form in (fold, plain):
        meant = form(word)
        if same := next((choice for choice in choices if meant and form(choice) == meant), None):
            return same
    if len(choices) > MOST_COMPARED:
        return None
    by_form = {plain(choice): choice for choice in reversed(choices)}
    close = difflib.get_close_matches(plain(word), list(by_form), n=1, cutoff=cutoff)
    return by_form[close[0]] if close else None


def did_you_mean(word: str | None) -> str:
    """The end of a sentence that asks whether this word was meant; empty for none."""
    return sentence(N_("; did you mean '{name}'?"), name=word) if word else ""
