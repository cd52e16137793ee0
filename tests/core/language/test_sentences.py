"""A sentence that is kept with its template is told in the reader's language, and is English text for all others."""

from __future__ import annotations

import json
import pickle

import pytest

from forecaster.core.language import use_language
from forecaster.core.language.sentences import counted, retold, sentence, stored

DAYS = counted(12, "{n} day", "{n} days")
COVERS = "the 80 % interval covers {coverage}, wanted {low} to {high}"
OBJECTION = sentence(
    "{objection}, which is more than chance over {days}",
    objection=sentence(
        "the 80 % interval covers {coverage}, wanted {low} to {high}", coverage="0.7", low="0.75", high="0.85"
    ),
    days=DAYS,
)
ENGLISH = "the 80 % interval covers 0.7, wanted 0.75 to 0.85, which is more than chance over 12 days"


def test_it_is_english_text_and_told_in_german_from_what_was_stored() -> None:
    assert OBJECTION == ENGLISH
    assert isinstance(OBJECTION, str)
    kept = json.loads(json.dumps(stored(OBJECTION)))
    assert retold(kept, str(OBJECTION)) == ENGLISH
    with use_language("de"):
        assert retold(kept, str(OBJECTION)) == (
            "der 80-%-Bereich deckt 0.7 ab, verlangt war 0.75 bis 0.85, mehr als Zufall; Grundlage: 12 Tage"
        )
    assert retold(stored(pickle.loads(pickle.dumps(OBJECTION))), "") == ENGLISH


def test_one_is_one_in_every_language() -> None:
    one = counted(1, "{n} day", "{n} days")
    assert one == "1 day"
    with use_language("de"):
        assert retold(stored(one), one) == "1 Tag"


DAYS_OF_NOTHING = {"id": "{n} day", "plural": "{n} days", "values": {"n": "x"}}
NOT_WHOLE = [None, [], "text", {"id": "{gone}", "values": {}}, {"id": 3, "values": {}}, {"values": {}}, DAYS_OF_NOTHING]


@pytest.mark.parametrize("kept", NOT_WHOLE)
def test_what_an_earlier_version_wrote_or_something_broke_is_told_as_it_was_written(kept: object) -> None:
    with use_language("de"):
        assert retold(kept, "as it was written") == "as it was written"


def test_plain_text_has_nothing_to_store() -> None:
    assert stored("plain") is None
