"""Sentences in the reader's language, and in the English of the code if no catalogue has them."""

from __future__ import annotations

from contextvars import copy_context

import pytest

from forecaster.core.language import LANGUAGES, N_, _, direction, language, ngettext, pgettext, use_language


@pytest.mark.parametrize("code", ["en", "xx"])
def test_without_a_catalogue_sentences_are_as_in_the_code(code: str) -> None:
    with use_language(code):
        assert _("no such sentence in {place}", place="Ulm") == "no such sentence in Ulm"
        assert _("100 % {sure") == "100 % {sure"  # nothing to fill in
        numbers = [ngettext("{n} zebu", "{n} zebus", n, n=n) for n in (0, 1, 2, 1.5, 0.5)]
        assert numbers == ["0 zebus", "1 zebu", "2 zebus", "1.5 zebus", "0.5 zebus"]
        assert pgettext("of a list", "no such word") == "no such word"
        assert N_("later") == "later"


def test_a_language_applies_inside_the_block_and_in_copied_contexts() -> None:
    assert language() == "en"
    with use_language("ar"):
        assert (language(), direction()) == ("ar", "rtl")
        with use_language("de"):
            inner = copy_context()
        assert language() == "ar"
    assert (language(), direction()) == ("en", "ltr")
    assert inner.run(language) == "de"


def test_languages_have_their_native_names() -> None:
    assert LANGUAGES["de"] == "Deutsch"
