"""A crew stays accepted until it is withdrawn, and the newest acceptance of a depot's day counts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from forecaster.errors import OverrideError
from forecaster.ledger import tables
from forecaster.ledger.store import Ledger
from forecaster.planning.accepted_crews import accept, read_accepted, withdraw

DAY = date(2025, 6, 18)
CELL = ("BOS-01", DAY)
NOW = datetime(2025, 6, 17, 16, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sa.Connection]:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger, ledger.transaction() as connection:
        yield connection


def test_newest_accepted_crew_counts_and_duplicates_are_not_stored(connection: sa.Connection) -> None:
    assert accept(connection, "fleet", CELL, drivers=3, by="Ana", at=NOW)
    assert not accept(connection, "fleet", CELL, drivers=3, by="Bea", at=NOW + MINUTE)
    assert accept(connection, "other", CELL, drivers=9, by="Ana", at=NOW)
    assert read_accepted(connection, "fleet", DAY) == {CELL: 3}
    assert accept(connection, "fleet", CELL, drivers=4, by="Bea", at=NOW + 2 * MINUTE)
    assert read_accepted(connection, "fleet", DAY) == {CELL: 4}
    assert read_accepted(connection, "fleet", DAY + timedelta(days=1)) == {}


def test_withdrawn_crew_stays_in_the_ledger_and_can_be_accepted_again(connection: sa.Connection) -> None:
    for drivers in (3, 4):
        accept(connection, "fleet", CELL, drivers=drivers, by="Ana", at=NOW + drivers * MINUTE)
    withdraw(connection, "fleet", CELL, NOW + 5 * MINUTE)
    assert read_accepted(connection, "fleet", DAY) == {}
    with pytest.raises(OverrideError, match="BOS-01 on 2025-06-18: found no accepted crew, wanted one"):
        withdraw(connection, "fleet", CELL, NOW + 6 * MINUTE)
    assert accept(connection, "fleet", CELL, drivers=4, by="Ana", at=NOW + 7 * MINUTE)
    assert read_accepted(connection, "fleet", DAY) == {CELL: 4}
    rows = connection.execute(sa.select(tables.accepted_crews).order_by(tables.accepted_crews.c.at)).all()
    assert [(row.drivers, row.by, row.withdrawn_at) for row in rows] == [
        (3, "Ana", NOW + 5 * MINUTE),
        (4, "Ana", NOW + 5 * MINUTE),
        (4, "Ana", None),
    ]
