"""Each receiver gets a day's digest once: the first claim sends it, and a failed one is released."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from forecaster.ledger.once import digests
from forecaster.ledger.once.digests import DigestKey, DigestRow
from forecaster.ledger.store import Ledger

DAY = date(2026, 11, 25)
KEY = DigestKey("fleet", "forecaster-email/boston", "", "Boston", DAY)
AT = datetime(2026, 11, 25, 4, 30, tzinfo=UTC)
FIRST = DigestRow(7, AT, "sending", False, {"2026-11-26": {"BOS-01": 4, "BOS-02": None}})


def test_only_the_first_claim_of_a_digest_succeeds(ledger: Ledger) -> None:
    with ledger.transaction() as connection:
        assert digests.last(connection, KEY) is None
        assert digests.claim(connection, KEY, None, FIRST)
        assert not digests.claim(connection, KEY, None, FIRST)
        digests.settle(connection, KEY, "sent")
    with ledger.transaction() as connection:
        row = digests.last(connection, KEY)
    assert row is not None
    assert (row.state, row.publication_id, row.at, row.crews) == ("sent", 7, AT, FIRST.crews)
    later = DigestRow(8, AT + timedelta(hours=3), "sending", False, {})
    with ledger.transaction() as connection:
        assert digests.claim(connection, KEY, row, later)
        assert not digests.claim(connection, KEY, row, later)  # the row has changed in the meantime


def test_give_back_restores_the_earlier_row(ledger: Ledger) -> None:
    with ledger.transaction() as connection:
        digests.claim(connection, KEY, None, FIRST)
        digests.give_back(connection, KEY, None)
        assert digests.last(connection, KEY) is None
        digests.claim(connection, KEY, None, FIRST)
        before = digests.last(connection, KEY)
        digests.claim(connection, KEY, before, DigestRow(8, AT + timedelta(hours=3), "sending", False, {}))
        digests.give_back(connection, KEY, before)
        assert digests.last(connection, KEY) == before


def test_forget_deletes_rows_older_than_a_month(ledger: Ledger) -> None:
    old = DigestKey("fleet", "forecaster-email/boston", "", "Boston", DAY - timedelta(days=31))
    kept = DigestKey("fleet", "forecaster-email/boston", "", "Boston", DAY - timedelta(days=30))
    with ledger.transaction() as connection:
        for key in (old, kept):
            digests.claim(connection, key, None, FIRST)
        digests.forget(connection, "fleet", DAY)
        assert digests.last(connection, old) is None
        assert digests.last(connection, kept) is not None
