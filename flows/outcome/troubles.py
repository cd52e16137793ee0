"""Troubles and remarks of a run, in sentences: all of them for its outcome, and one for the page,
worded for readers.

The sentences keep their parts, so that they can be translated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from forecaster.core.forecast import Verdict
from forecaster.core.language import N_
from forecaster.core.language.sentences import Sentence, as_sentence, joined, of_error, sentence
from forecaster.errors import ForecasterError


class NightTroubles:
    """Errors of a run in their order, and remarks that do not affect the forecast."""

    def __init__(self) -> None:
        self._sentences: list[str] = []
        self._by_products: set[str] = set()  # the subset that does not concern depots
        # wording without files, keys or addresses, of a subset
        self._for_readers: dict[str, str] = {}
        self._remarks: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._sentences)

    @property
    def message(self) -> str | None:
        """All sentences in one line; None if there are none."""
        return joined([*self._sentences, *self._remarks])

    @property
    def concerns_readers(self) -> bool:
        """True if more than by-products failed."""
        return len(self._sentences) > len(self._by_products)

    def add(self, text: str, for_readers: str | None = None) -> None:
        """Add a sentence, with its wording for the page."""
        self._sentences.append(text)
        if for_readers is not None:
            self._for_readers[text] = for_readers

    def add_error(self, error: BaseException) -> None:
        """Add the error that ended the run, unless a sentence already contains it."""
        if not isinstance(error, ForecasterError) or not any(str(error) in text for text in self._sentences):
            self._sentences.append(of_error(error))

    def remark(self, text: str) -> None:
        """Add a remark that does not affect the forecast."""
        self._remarks.append(text)

    @contextmanager
    def of_by_products(self) -> Iterator[None]:
        """Mark errors that are added inside as irrelevant to depots."""
        before = len(self._sentences)
        yield
        self._by_products |= set(self._sentences[before:])

    def for_the_page(self, verdict: Verdict | None) -> Sentence | None:
        """Return the first trouble that concerns readers, else the gate's objections to tonight's
        model."""
        for text in self._sentences:
            if text in self._for_readers and text not in self._by_products:
                return sentence(N_("Tonight {what}."), what=as_sentence(self._for_readers[text]))
        if verdict is not None and verdict.objections:
            return sentence(N_("Tonight's model was {verdict}."), verdict=verdict.sentence())
        return None
