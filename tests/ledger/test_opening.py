"""A ledger is created, opened, or rejected with a reason."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from forecaster.errors import LedgerError, NoLedger
from forecaster.ledger import connect, tables
from forecaster.ledger.migrations.revision import REVISION, REVISION_TABLE, revisions
from forecaster.ledger.store import Ledger
from tests.ledger.publications import publication

LATER = """
import sqlalchemy as sa
from alembic import op

revision = "9000"
down_revision = "{}"


def upgrade():
    op.add_column("runs", sa.Column("further", sa.Text))
"""


def test_a_new_ledger_has_the_tables_and_the_revision_of_the_code(url: str) -> None:
    engine = connect.writer(url)
    with engine.begin() as connection:
        command.check(connect.config(connection))  # raises if the schema differs from the tables
        assert ScriptDirectory.from_config(connect.config(connection)).get_heads() == [REVISION]
        assert {REVISION_TABLE, *tables.metadata.tables} <= set(sa.inspect(connection).get_table_names())
    engine.dispose()


@pytest.mark.parametrize("opening", [Ledger.open, Ledger.open_reader])
def test_opening_migrates_a_ledger_to_a_later_revision(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opening: type[Ledger]
) -> None:
    Ledger.open(url).close()
    (tmp_path / "r9000_later.py").write_text(LATER.format(REVISION), "utf-8")
    settings = connect.config

    def with_later_revision(connection: sa.Connection) -> Config:
        config = settings(connection)
        versions = Path(connect.__file__).with_name("migrations") / "versions"
        config.set_main_option("path_separator", "os")
        config.set_main_option("version_locations", f"{versions}{os.pathsep}{tmp_path}")
        return config

    monkeypatch.setattr(connect, "config", with_later_revision)
    monkeypatch.setattr(connect, "REVISION", "9000")
    opening(url).close()  # type: ignore[operator]
    engine = connect.writer(url)
    with engine.begin() as connection:
        assert "further" in {column["name"] for column in sa.inspect(connection).get_columns("runs")}
        assert connection.execute(sa.select(revisions.c.version_num)).scalar_one() == "9000"
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
@pytest.mark.parametrize("revision", ["0001", "0007", "9999"])
def test_rejects_a_ledger_of_an_unknown_revision(url: str, revision: str, opening: type[Ledger]) -> None:
    Ledger.open(url).close()
    engine = connect.writer(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"update {REVISION_TABLE} set version_num = '{revision}'")
    engine.dispose()
    with pytest.raises(
        LedgerError, match=f"has revision {revision}, this program knows {REVISION}; use the version that made it"
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
