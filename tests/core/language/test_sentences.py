"""A sentence stored with its template is shown in the reader's language, and is English text
otherwise."""

from __future__ import annotations

import json
import pickle
from datetime import date

import pytest

from forecaster.core.language import N_, use_language
from forecaster.core.language.sentences import (
    amount,
    as_argument,
    counted,
    from_argument,
    joined,
    of_error,
    packed,
    retold,
    sentence,
    stored,
    unpacked,
    without_start,
)
from forecaster.errors import LedgerError

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


def test_a_stored_sentence_is_english_text_and_shown_in_german() -> None:
    assert OBJECTION == ENGLISH
    assert isinstance(OBJECTION, str)
    kept = json.loads(json.dumps(stored(OBJECTION)))
    assert retold(kept, str(OBJECTION)) == ENGLISH
    with use_language("de"):
        assert retold(kept, str(OBJECTION)) == (
            "der 80-%-Bereich deckt 0.7 ab, verlangt war 0.75 bis 0.85, mehr als Zufall; Grundlage: 12 Tage"
        )
    assert stored(pickle.loads(pickle.dumps(OBJECTION))) == stored(OBJECTION)


def test_a_count_of_one_is_singular_in_every_language() -> None:
    one = counted(1, "{n} day", "{n} days")
    assert one == "1 day"
    with use_language("de"):
        assert retold(stored(one), one) == "1 Tag"


DAYS_OF_NOTHING = {"id": "{n} day", "plural": "{n} days", "values": {"n": "x"}}
NOT_WHOLE = [None, [], "text", {"id": "{gone}", "values": {}}, {"id": 3, "values": {}}, {"values": {}}, DAYS_OF_NOTHING]


@pytest.mark.parametrize("kept", NOT_WHOLE)
def test_text_with_invalid_parts_is_shown_as_written(kept: object) -> None:
    with use_language("de"):
        assert retold(kept, "as it was written") == "as it was written"


def test_plain_text_has_nothing_to_store() -> None:
    assert stored("plain") is None


def test_joined_sentences_keep_their_parts_and_the_first_can_be_removed() -> None:
    first, second = sentence(N_("promoted")), sentence(N_("no model was ever admitted"))
    row = joined([first, "", second])
    assert row == "promoted; no model was ever admitted"
    with use_language("de"):
        assert retold(stored(row), "") == "eingesetzt; es wurde noch nie ein Modell zugelassen"
        assert retold(stored(without_start(str(row), "promoted;")), "x") == "x"  # plain text has no parts
        rest = without_start(joined([first, second], " ") or "", first)
        assert (rest, retold(stored(rest), "")) == (second, "es wurde noch nie ein Modell zugelassen")
    assert joined([]) is None
    assert without_start("other", "promoted") == "other"


def test_numbers_and_days_are_formatted_for_the_reader() -> None:
    text = sentence(N_("{amount} per day over {n} days"), amount=amount(-1234.5, "+,.2f"), n=1000)
    assert text == "-1,234.50 per day over 1,000 days"
    day = sentence(N_("{depot} ({day})"), depot="A", day=date(2024, 3, 5))
    assert day == "A (2024-03-05)"
    with use_language("de"):
        told = retold(stored(text), "", number=lambda value, form: f"<{value:g} {form}>")
        assert told == "<-1234.5 +,.2f> am Tag, Grundlage: <1000 ,> Tage"
        assert retold(stored(day), "", day=lambda value: f"{value:%d.%m.%Y}") == "A (05.03.2024)"


def test_a_sentence_is_passed_as_json_and_typed_text_is_unchanged() -> None:
    argument = as_argument(OBJECTION)
    assert (from_argument(argument), stored(from_argument(argument))) == (OBJECTION, stored(OBJECTION))
    for typed in ("A note.", "{not json", "12", '["a"]', '{"text": 3}', '{"other": "a"}', ""):
        assert from_argument(typed) == typed == as_argument(typed)
    values = {"note": OBJECTION, "depots": 3, "trouble": None}
    kept = unpacked(json.loads(json.dumps(packed(values))))
    assert kept == values
    assert stored(kept["note"]) == stored(OBJECTION)
    assert packed({"note": "plain"}) == {"note": "plain"}


def test_our_error_gives_its_sentence_and_another_error_its_class() -> None:
    assert stored(of_error(LedgerError(OBJECTION))) == stored(OBJECTION)
    assert (of_error(LedgerError("plain")), of_error(OSError("no"))) == ("plain", "OSError: no")
