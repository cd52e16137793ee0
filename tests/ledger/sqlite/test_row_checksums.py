"""A row that a disk has changed is named when it is read, whatever is asked of it; the file tells no lie unnoticed."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from forecaster.errors import LedgerError
from forecaster.ledger import tables
from forecaster.ledger.sqlite import row_checksums
from forecaster.ledger.store import Ledger
from tests.ledger.publications import publication, start, total

VALUES: dict[type[Any], object] = {
    sa.Integer: 1,
    sa.Float: 0.1,
    sa.Boolean: True,
    sa.Date: date(2026, 5, 9),
    tables.Instant: datetime(2026, 5, 9, 3, 15, tzinfo=UTC),
    sa.JSON: [1, "zwölf"],
    sa.Text: "a",
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with a row in each table."""
    path = tmp_path_factory.mktemp("ledger") / "ledger.db"
    with Ledger.open(f"sqlite:///{path}") as ledger, ledger.transaction() as connection:
        for table in tables.metadata.sorted_tables:
            values = {column.name: VALUES[type(column.type)] for column in table.columns}
            connection.execute(table.insert().values(values))
    return path


@pytest.fixture
def file(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copyfile(original, tmp_path / "ledger.db"))


@pytest.mark.parametrize("name", sorted(tables.metadata.tables))
def test_a_row_that_was_changed_is_named_by_every_query_that_reads_it_and_is_not_written_over(
    file: Path, name: str
) -> None:
    table = tables.metadata.tables[name]
    changed = next(column for column in table.columns if not (column.primary_key or column.index))
    url = f"sqlite:///{file}"
    with Ledger.open_reader(url) as ledger, ledger.transaction() as connection:
        assert row_checksums.damage(connection) == []
        assert connection.execute(sa.select(table)).one()
    _write(file, f'update "{name}" set "{changed.name}" = 3')
    sentence = rf"the ledger is damaged: table {name}, row {next(iter(table.primary_key)).name} .* is not what"
    queries = (
        sa.select(table),
        sa.select(sa.func.count()).select_from(table),
        sa.select(sa.literal(1)).where(sa.exists(sa.select(table.c[changed.name]))),
        sa.union_all(sa.select(sa.literal(1)), sa.select(sa.func.count()).select_from(table)),
        table.update().values({changed.name: VALUES[type(changed.type)]}),
    )
    with Ledger.open(url) as ledger:
        for query in queries:
            with pytest.raises(LedgerError, match=sentence), ledger.transaction() as connection:
                connection.execute(query).fetchall()
        with ledger.transaction() as connection:
            (found,) = row_checksums.damage(connection)
            if name in row_checksums.SMALL:
                with pytest.raises(LedgerError, match=sentence):
                    row_checksums.require_sound(connection)
        assert "`forecaster restore` brings a backup back" in found


def test_a_row_that_is_rightly_changed_has_its_checksum_with_it_and_a_row_without_one_is_damaged(file: Path) -> None:
    url = f"sqlite:///{file}"
    with Ledger.open(url) as ledger:
        with ledger.transaction() as connection:
            connection.execute(tables.runs.update().values(message="all well", finished_at=VALUES[tables.Instant]))
        assert ledger.run("a").message == "all well"
        _write(file, "update runs set checksum = null")
        with pytest.raises(LedgerError, match="table runs, row run_id a is not what was written"):
            ledger.run("a")


def test_rows_that_do_not_meet_a_condition_are_not_taken_for_damaged(file: Path) -> None:
    runs = tables.runs
    with Ledger.open(f"sqlite:///{file}") as ledger, ledger.transaction() as connection:
        conditions = (
            (runs.c.kind == "b", runs.c.tier == "b"),
            (runs.c.kind.in_(["b"]),),
            (runs.c.kind != "a", runs.c.exit_code == 2),
            (sa.or_(runs.c.kind == "b", runs.c.tier == "c"), runs.c.pipeline == "a"),
        )
        for where in conditions:
            assert connection.execute(sa.select(runs).where(*where)).all() == []


def test_an_outer_join_that_finds_no_row_finds_none_damaged(file: Path) -> None:
    overrides, withdrawals = tables.overrides, tables.withdrawals
    with Ledger.open(f"sqlite:///{file}") as ledger, ledger.transaction() as connection:
        connection.execute(withdrawals.delete())
        joined = overrides.outerjoin(withdrawals, withdrawals.c.override_id == overrides.c.id)
        row = connection.execute(sa.select(overrides.c.id, withdrawals.c.by).select_from(joined)).one()
        assert tuple(row) == (1, None)


def test_a_ledger_with_a_damaged_row_is_not_migrated_since_the_row_would_be_intact_then(file: Path) -> None:
    _write(file, "update promotions set bundle_digest = 'b'")
    _write(file, f"update {tables.REVISION_TABLE} set version_num = '0014'")
    with pytest.raises(LedgerError, match="table promotions, row id 1 is not what was written"):
        Ledger.open(f"sqlite:///{file}")


def test_no_flipped_byte_of_a_ledger_changes_what_is_read_without_a_sentence(tmp_path: Path) -> None:
    file, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    with Ledger.open(f"sqlite:///{file}") as ledger:
        for night in range(3):
            start(ledger, f"night-{night}", hours=24 * night)
            ledger.publish(publication(f"night-{night}", totals=tuple(total("", step) for step in (1, 2, 3))))
            ledger.promote("harbor", run_id=f"night-{night}", bundle_digest=f"{night}" * 12, by="me", reason="better")
    _write(file, "pragma wal_checkpoint(truncate)")
    content, truth = file.read_bytes(), _everything(file)
    chance, named = random.Random(0), 0
    used = [place for place, byte in enumerate(content) if byte]
    for _ in range(60):
        damaged = bytearray(content)
        damaged[chance.choice(used)] ^= chance.randrange(1, 256)
        copy.write_bytes(damaged)
        try:
            assert _everything(copy) == truth
        except LedgerError:
            named += 1
        for beside in tmp_path.glob("copy.db-*"):
            beside.unlink()
    assert named > 20


def _everything(file: Path) -> list[list[Any]]:
    """What forecasts are made from and shown."""
    with Ledger.open_reader(f"sqlite:///{file}") as ledger, ledger.transaction() as connection:
        row_checksums.require_sound(connection)
        names = (*row_checksums.SMALL, *row_checksums.LARGE)
        return [connection.execute(sa.select(tables.metadata.tables[name])).fetchall() for name in names]


def _write(file: Path, statement: str) -> None:
    """Past the ledger, as a disk does."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(statement)
