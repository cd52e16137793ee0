"""Changed rows of a publication and damaged pages of SQLite are reported with the remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlalchemy as sa

from forecaster.errors import UnusableLedger
from forecaster.ledger import connect, soundness, tables
from forecaster.ledger.store import Ledger
from forecaster.ledger.week_plan import WeekPlan
from tests.ledger.publications import publication, start, total

CHANGES = [
    tables.published.update().values(drivers=5),
    tables.published.update().values(quantiles=[80, 101, 120]),
    tables.published_totals.update().values(quantiles=[1, 2, 3]),
    tables.published_depots.update().where(tables.published_depots.c.depot_id == "D1").values(position=7),
    tables.published.delete().where(tables.published.c.depot_id == "D1"),
    tables.published_plans.delete(),
    tables.publications.update().values(tier="champion"),
    tables.publications.update().values(levels=[0.1, 0.4, 0.9]),
]
PLAN = WeekPlan("D1", (), (), (), 12.5, 0.0, 0.0)


def test_new_publication_matches_its_digest(ledger: Ledger) -> None:
    number = ledger.publish(publication())
    with ledger.transaction() as connection:
        soundness.require_unchanged(connection, number)
        assert soundness.faults(connection) == []


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_changed_row_is_reported_with_its_publication(ledger: Ledger, change: sa.Update | sa.Delete) -> None:
    number = ledger.publish(publication(totals=tuple(total(step=step) for step in (1, 2, 3)), plans=(PLAN,)))
    with ledger.transaction() as connection:
        connection.execute(change)
    with ledger.transaction() as connection:
        with pytest.raises(UnusableLedger, match=f"rows of publication {number} are not those that were published"):
            soundness.require_unchanged(connection, number)
        [fault] = soundness.faults(connection)
    assert re.search(r"; found the SHA-256 [0-9a-f]{16}…, wanted [0-9a-f]{16}…; the next", fault)
    assert fault.endswith("`forecaster predict FILE` replaces it, or `forecaster restore` brings a backup back")


def test_page_skips_the_check_of_large_publications(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    number = ledger.publish(publication())
    monkeypatch.setattr(soundness, "MOST_DEPOTS", 1)
    with ledger.transaction() as connection:
        connection.execute(tables.published.update().values(drivers=5))
        soundness.require_unchanged(connection, number)
        assert len(soundness.faults(connection)) == 1


def test_the_digest_does_not_depend_on_the_database(ledger: Ledger, tmp_path: Path) -> None:
    number = ledger.publish(publication(depots=12))
    with ledger.transaction() as connection:
        digest = soundness.rows_digest(connection, number)
        rows = {table: connection.execute(sa.select(table)).mappings().all() for table in tables.metadata.sorted_tables}
    engine = connect.writer(f"sqlite:///{tmp_path}/copy.db")
    with engine.begin() as copy:
        for table, content in rows.items():
            if content:
                copy.execute(table.insert(), [dict(row) for row in content])
        assert soundness.rows_digest(copy, number) == digest
    engine.dispose()


def test_the_digest_does_not_depend_on_the_order_of_the_rows(ledger: Ledger) -> None:
    number = ledger.publish(publication(depots=12))
    with ledger.transaction() as connection:
        digest = soundness.rows_digest(connection, number)
        for table in (tables.published_depots, tables.published):
            rows = connection.execute(sa.select(table)).mappings().all()
            connection.execute(table.delete())
            connection.execute(table.insert(), [dict(row) for row in reversed(rows)])
        assert soundness.rows_digest(connection, number) == digest


def test_a_publication_without_a_digest_is_reported(ledger: Ledger) -> None:
    numbers = [ledger.publish(publication()), ledger.publish(publication(orders=150.0))]
    with ledger.transaction() as connection:
        connection.execute(tables.publications.update().values(rows_digest=None))
        faults = soundness.faults(connection)
        for number, fault in zip(numbers, faults, strict=True):
            assert f"rows of publication {number} are not those that were published; found no digest, want" in fault
            with pytest.raises(UnusableLedger, match="found no digest, wanted one"):
                soundness.require_unchanged(connection, number)
            soundness.write_digest(connection, number)
        assert soundness.faults(connection) == []
        assert soundness.seal_counts(connection) == soundness.SealCounts(2, 0, None)


def test_damaged_pages_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{file}") as ledger:
        start(ledger, "night-1")
        ledger.publish(publication(depots=300))
    content = file.read_bytes()
    at = len(content) // 4096 * 3 // 4 * 4096  # a page of the published days
    file.write_bytes(content[:at] + bytes(byte ^ 0x5A for byte in content[at : at + 4096]) + content[at + 4096 :])
    with (
        pytest.raises(UnusableLedger, match=r"the ledger .*is damaged: "),
        Ledger.open_reader(f"sqlite:///{file}") as ledger,
        ledger.transaction() as connection,
    ):
        soundness.require_sound(connection)
