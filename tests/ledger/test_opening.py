"""A ledger is made, opened, or refused with a reason."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy.pool import NullPool

from forecaster.errors import LedgerError, NoLedger
from forecaster.ledger import connect, tables
from forecaster.ledger.store import Ledger
from forecaster.ledger.tables import REVISION, REVISION_TABLE
from tests.ledger.publications import publication


def test_all_revisions_one_after_the_other_make_exactly_what_a_new_ledger_is_made_of(url: str) -> None:
    file = Path(sa.make_url(url).database or "")
    file.parent.mkdir(exist_ok=True)
    with sa.create_engine(url, poolclass=NullPool).begin() as connection:
        command.upgrade(connect.config(connection), "0001")
    engine = connect.writer(url)
    with engine.begin() as connection:
        command.check(connect.config(connection))  # raises when they differ from the tables in code
        assert ScriptDirectory.from_config(connect.config(connection)).get_heads() == [REVISION]
        migrated = schema(connection)
        if not url.startswith("sqlite"):
            connection.exec_driver_sql("drop schema public cascade")
            connection.exec_driver_sql("create schema public")
    engine.dispose()
    if url.startswith("sqlite"):
        file.unlink()
    engine = connect.writer(url)
    with engine.begin() as connection:
        command.check(connect.config(connection))
        assert schema(connection) == migrated
        assert {REVISION_TABLE, *tables.metadata.tables} <= migrated.keys()
    engine.dispose()


def schema(connection: sa.Connection) -> dict[str, object]:
    """All that the database knows of each table but the order of its columns, and its revision."""
    inspector, described = sa.inspect(connection), dict[str, object]()
    for table in inspector.get_table_names():
        columns = [{**column, "type": repr(column["type"])} for column in inspector.get_columns(table)]
        described[table] = (
            sorted(columns, key=lambda column: str(column["name"])),
            inspector.get_pk_constraint(table),
            sorted(inspector.get_foreign_keys(table), key=str),
            sorted(
                (index["name"], index["column_names"], index["unique"], _conditions(index["dialect_options"]))
                for index in inspector.get_indexes(table)
            ),
            inspector.get_unique_constraints(table),
            inspector.get_check_constraints(table),
        )
    if connection.dialect.name == "sqlite":
        for name, kind, text in connection.exec_driver_sql("select name, type, sql from sqlite_master").all():
            words = sorted((text or "").replace(",", " ").replace("(", " ").replace(")", " ").lower().split())
            described[name] = (described.get(name), kind, words)
    described["revision"] = connection.exec_driver_sql(f"select * from {REVISION_TABLE}").all()
    return described


def _conditions(options: Mapping[str, Any]) -> list[str]:
    return [f"{name}: {condition}" for name, condition in options.items()]


def test_a_reader_cannot_write(ledger: Ledger, url: str) -> None:
    ledger.publish(publication())
    with Ledger.open_reader(url) as reader, pytest.raises(LedgerError, match=r"read-?only"):
        reader.finish_run("night-1", "failed", 1)


def test_a_missing_ledger_is_told_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(NoLedger, match=r"there is no ledger at .* yet"):
        Ledger.open_reader(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_database_is_a_missing_ledger(url: str, tmp_path: Path) -> None:
    if url.startswith("sqlite"):
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "ledger.db").touch()
    with pytest.raises(NoLedger, match=r"there is no ledger at .* yet"):
        Ledger.open_reader(url)


@pytest.mark.parametrize("opening", [Ledger.open, Ledger.open_reader])
def test_a_ledger_of_another_revision_is_told(url: str, opening: type[Ledger]) -> None:
    Ledger.open(url).close()
    engine = connect.writer(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("update forecaster_revision set version_num = '9999'")
    engine.dispose()
    with pytest.raises(LedgerError, match=f"has revision 9999, this program knows {REVISION}"):
        opening(url)  # type: ignore[call-arg]


def test_a_file_that_is_no_ledger_is_told(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("orders\n" * 200)
    with pytest.raises(LedgerError, match="file is not a database"):
        Ledger.open(f"sqlite:///{tmp_path / 'text.db'}")
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as foreign:
        foreign.execute("create table runs (id int)")
    with pytest.raises(LedgerError, match="is not a ledger"):
        Ledger.open_reader(f"sqlite:///{tmp_path / 'foreign.db'}")
    with pytest.raises(LedgerError, match="table runs already exists"):
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
def test_a_url_that_cannot_be_a_ledger_is_told(wrong: str, sentence: str) -> None:
    with pytest.raises(LedgerError, match=sentence):
        Ledger.open(wrong)


def test_a_file_that_is_taken_away_from_a_reader_is_gone_and_not_read_only(tmp_path: Path) -> None:
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
