"""Troubles of a run: all in its message, one for the page, each translatable."""

from __future__ import annotations

from flows.outcome.troubles import NightTroubles
from forecaster.core.forecast import Verdict
from forecaster.core.language import N_, use_language
from forecaster.core.language.sentences import retold, sentence, stored
from forecaster.errors import LakeError

SOURCES = "the sources could not be read"


def test_the_message_has_all_troubles_and_the_page_the_first_relevant_one() -> None:
    troubles = NightTroubles()
    with troubles.of_by_products():
        troubles.add("the lake does not have tonight's scores: disk full", "the lake does not have tonight's scores")
    assert (bool(troubles), troubles.concerns_readers, troubles.for_the_page(None)) == (True, False, None)
    troubles.add(f"{SOURCES}: demand.csv is missing", SOURCES)
    troubles.remark("training skipped: no model reigns yet")
    troubles.add_error(LakeError("demand.csv is missing"))  # already reported
    troubles.add_error(ValueError("odd"))
    assert str(troubles.message).split("; ")[1:] == [
        f"{SOURCES}: demand.csv is missing",
        "ValueError: odd",
        "training skipped: no model reigns yet",
    ]
    note = troubles.for_the_page(Verdict(False, (), {}))
    assert note == f"Tonight {SOURCES}."
    with use_language("de"):
        assert retold(stored(note), "") == "Heute Nacht: die Quellen konnten nicht gelesen werden."


def test_the_page_reports_a_rejected_model_with_its_objections() -> None:
    objection = sentence(N_("no demand on the held-out days ({days}): nothing can be compared"), days="7")
    note = NightTroubles().for_the_page(Verdict(False, (objection,), {}))
    assert note == f"Tonight's model was not admitted: {objection}."
    with use_language("es"):
        assert str(retold(stored(note), "")).startswith("El modelo de esta noche: no admitido: ")
    assert NightTroubles().for_the_page(Verdict(True, (), {})) is None
    assert NightTroubles().message is None
