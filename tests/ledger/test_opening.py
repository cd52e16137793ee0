"""A ledger is created, opened, or rejected with a reason."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory

from forecaster.errors import LedgerError, NoLedger
from forecaster.ledger import connect, soundness, tables
from forecaster.ledger.migrations.revision import REVISION, REVISION_TABLE
from forecaster.ledger.store import Ledger
from tests.ledger.publications import publication, start, total


def test_a_new_ledger_has_the_tables_and_the_revision_of_the_code(url: str) -> None:
    engine = connect.writer(url)
    with engine.begin() as connection:
        command.check(connect.config(connection))  # raises if the schema differs from the tables
        assert ScriptDirectory.from_config(connect.config(connection)).get_heads() == [REVISION]
        assert {REVISION_TABLE, *tables.metadata.tables} <= set(sa.inspect(connection).get_table_names())
    engine.dispose()


@pytest.mark.parametrize("opening", [Ledger.open, Ledger.open_reader])
def test_opening_migrates_a_ledger_of_the_first_revision(url: str, opening: type[Ledger]) -> None:
    Ledger.open(url).close()
    engine = connect.writer(url)
    with engine.begin() as connection:
        for table in (tables.accepted_crews, tables.schedule_days, tables.person_days):
            table.drop(connection)
        connection.exec_driver_sql("alter table links drop column person")
        connection.exec_driver_sql("alter table publications drop column rows_seal")
        connection.exec_driver_sql("alter table published_depots drop column weeks")
        _with_totals_of_cities(connection)
        connection.exec_driver_sql(f"update {REVISION_TABLE} set version_num = '0001'")
    engine.dispose()
    opening(url).close()  # type: ignore[operator]
    engine = connect.writer(url)
    with engine.begin() as connection:
        command.check(connect.config(connection))  # raises if the schema differs from the tables
        columns = sa.inspect(connection).get_pk_constraint("accepted_crews")["constrained_columns"]
        assert columns == [column.name for column in tables.accepted_crews.primary_key]
    engine.dispose()


def test_a_reader_cannot_write(ledger: Ledger, url: str) -> None:
    ledger.publish(publication())
    with Ledger.open_reader(url) as reader, pytest.raises(LedgerError, match=r"read-?only"):
        reader.finish_run("night-1", "failed", 1)


def test_reader_reports_a_missing_ledger_without_creating_it(tmp_path: Path) -> None:
    with pytest.raises(NoLedger, match=r"there is no ledger at .* yet"):
        Ledger.open_reader(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert list(tmp_path.iterdir()) == []


def test_empty_database_counts_as_a_missing_ledger(url: str, tmp_path: Path) -> None:
    if url.startswith("sqlite"):
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "ledger.db").touch()
    with pytest.raises(NoLedger, match=r"there is no ledger at .* yet"):
        Ledger.open_reader(url)


@pytest.mark.parametrize("opening", [Ledger.open, Ledger.open_reader])
def test_rejects_a_ledger_of_an_unknown_revision(url: str, opening: type[Ledger]) -> None:
    Ledger.open(url).close()
    engine = connect.writer(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("update forecaster_revision set version_num = '9999'")
    engine.dispose()
    with pytest.raises(
        LedgerError, match=f"has revision 9999, this program knows {REVISION}; use the version that made it"
    ):
        opening(url)  # type: ignore[call-arg]


def test_rejects_files_that_are_not_ledgers(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("orders\n" * 200)
    with pytest.raises(LedgerError, match="file is not a database"):
        Ledger.open(f"sqlite:///{tmp_path / 'text.db'}")
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as foreign:
        foreign.execute("create table runs (id int)")
    with pytest.raises(LedgerError, match="is not a ledger"):
        Ledger.open_reader(f"sqlite:///{tmp_path / 'foreign.db'}")
    with pytest.raises(LedgerError, match="is not a ledger"):
        Ledger.open(f"sqlite:///{tmp_path / 'foreign.db'}")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("sqlite://", "would be gone with the process"),
        ("var/ledger.db", "URL is not one"),
        ("oracle9://x", "URL is not one"),
        ("sqlite:////proc/ledger/ledger.db", "cannot be made"),
    ],
)
def test_rejects_invalid_ledger_urls(wrong: str, sentence: str) -> None:
    with pytest.raises(LedgerError, match=sentence):
        Ledger.open(wrong)


def test_removed_file_is_reported_as_gone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    Ledger.open(url).close()
    with Ledger.open_reader(url) as reader:
        assert reader.champion("harbor") is None
        aside = tmp_path / "aside"
        aside.mkdir()
        for file in tmp_path.glob("ledger.db*"):
            file.rename(aside / file.name)
        with pytest.raises(LedgerError, match="its file is gone; `forecaster restore` brings a backup back"):
            reader.champion("harbor")


def _with_totals_of_cities(connection: sa.Connection) -> None:
    """Replace the table of totals by that of the first revision."""
    tables.published_totals.drop(connection)
    sa.Table(
        "published_totals",
        sa.MetaData(naming_convention=tables.metadata.naming_convention),
        sa.Column("publication_id", sa.Integer, primary_key=True),
        sa.Column("city", sa.Text, primary_key=True),
        sa.Column("target_date", sa.Date, primary_key=True),
        sa.Column("quantiles", tables.Json, nullable=False),
    ).create(connection)


def test_migrated_publications_without_levels_are_readable_and_sound(url: str) -> None:
    total_of = {"": (180.0, 200.0, 220.0), "Bonn": (80.0, 100.0, 120.0)}
    with Ledger.open(url) as ledger:
        start(ledger, "night-1")
        number = ledger.publish(publication(totals=tuple(total(name, 1, q) for name, q in total_of.items())))
    engine = connect.writer(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("alter table publications drop column rows_seal")
        connection.exec_driver_sql("alter table published_depots drop column weeks")
        _with_totals_of_cities(connection)
        for name, quantiles in total_of.items():
            connection.exec_driver_sql(
                f"insert into published_totals values ({number}, '{name}', '2025-06-18', '{list(quantiles)}')"
            )
        connection.exec_driver_sql(f"update {REVISION_TABLE} set version_num = '0006'")
    engine.dispose()
    with Ledger.open(url) as ledger:
        assert {(row.name, row.level, row.days): row.quantiles for row in ledger.totals(number)} == {
            (name, "city", 1): quantiles for name, quantiles in total_of.items()
        }
        assert not any(depot.weeks for depot in ledger.depots(number))
        with ledger.transaction() as connection:
            soundness.require_unchanged(connection, number)
