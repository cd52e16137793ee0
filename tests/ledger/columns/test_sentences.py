"""Sentences are read back from the ledger with their templates, and rows of earlier revisions as
plain text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa

from forecaster.core.knowledge import Finding, finding_of_row
from forecaster.core.language import N_, use_language
from forecaster.core.language.sentences import retold, sentence, stored
from forecaster.ledger import tables
from forecaster.ledger.store import Ledger
from tests.ledger.publications import publication, start

WHY = sentence(N_("training skipped: {reason}"), reason=sentence(N_("no model was ever admitted")))
GERMAN = "kein Training: es wurde noch nie ein Modell zugelassen"


def test_stored_sentences_can_be_rendered_in_german(tmp_path: Path) -> None:
    finding = Finding("late", "warn", 3, WHY, (("A", "2024-03-05"),))
    with Ledger.open(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        plain = publication()
        start(ledger, plain.run_id)
        ledger.note(plain.run_id, findings=[finding], message=WHY)
        ledger.note(plain.run_id, findings=[finding])  # repeated: adds nothing
        ledger.publish(replace(plain, note=WHY))
        ledger.promote(plain.pipeline, run_id=plain.run_id, bundle_digest="aa", by="gate", reason=WHY)
        run, head = ledger.run(plain.run_id), ledger.current(plain.pipeline)
        assert head is not None
        texts = [run.message, head.note, ledger.whole(head).note, ledger.promotions(plain.pipeline)[0].reason]
        (row,) = run.findings
        assert finding_of_row(row) == finding
        with ledger.transaction() as connection:
            connection.execute(tables.runs.update().values(message="as it was", message_made_of=sa.null()))
        assert stored(ledger.run(plain.run_id).message) is None
    with use_language("de"):
        assert [retold(stored(text), "") for text in (*texts, row["message"])] == [GERMAN] * 5
