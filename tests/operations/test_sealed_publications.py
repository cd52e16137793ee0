"""Publications are sealed with the key that signs bundles, and `forecaster doctor` verifies the
seals."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from forecaster.config import Spec, load
from forecaster.demand.ingest import ingest
from forecaster.ledger import soundness, tables
from forecaster.ledger.store import Ledger
from forecaster.operations import doctor
from forecaster.operations.backup import backup
from forecaster.operations.restore import restore
from forecaster.publishing.predict import predict
from forecaster.serving import keys
from tests.databases import Postgres, postgres  # noqa: F401 (a fixture)
from tests.flows.tiny import DAYS, NIGHT, pipeline


def night(spec: Spec, days: int = 0) -> None:
    ingest(spec, now=NIGHT + timedelta(days=days))
    predict(spec, as_of=NIGHT + timedelta(days=days), bundle=None, run_id=None, note=None)


def ledger_signs(spec: Spec) -> list[tuple[str, str]]:
    with Ledger.open_reader(spec.ledger_url) as ledger:
        return [(sign.state, sign.text) for sign in doctor._nights(spec, ledger, NIGHT) if sign.topic == "ledger"]


def sql(spec: Spec, *statements: str) -> None:
    """Change the database file directly."""
    with closing(sqlite3.connect(spec.paths.folder / "ledger.db", isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    """Pipeline that has published once without a key, and twice with one."""
    spec = load(pipeline(tmp_path / "here", days=DAYS))
    night(spec)
    keys.signer(spec.paths.folder)
    for days in (1, 2):
        pipeline(spec.folder, days=DAYS + days)
        night(spec, days)
    return spec


def test_publications_are_sealed_once_there_is_a_key(spec: Spec) -> None:
    [(state, text)] = ledger_signs(spec)
    assert (state, text.partition("; ")[2]) == ("ok", "3 publications verified, 2 with a signature")


def test_digests_rewritten_by_sql_fail_the_seal(spec: Spec) -> None:
    sql(spec, "update published set drivers = 99 where publication_id >= 2")
    [(_, first), (_, second)] = ledger_signs(spec)
    assert "publication 2 are not those that were published; found the SHA-256" in first
    assert "publication 3" in second
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        for number in (2, 3):
            digest = soundness.rows_digest(connection, number)
            row = tables.publications.c.publication_id == number
            connection.execute(update(tables.publications).where(row).values(rows_digest=digest))
    [(state, first), _] = ledger_signs(spec)
    assert state == "broken"
    wanted = "publication 2 are not those that were published; found a digest whose signature does not hold: the sign"
    assert wanted in first


def test_unsealed_publication_after_a_sealed_one_is_reported(spec: Spec) -> None:
    sql(spec, "update publications set rows_seal = null where publication_id = 3")
    assert [state for state, _ in ledger_signs(spec)] == ["ok", "warn"]
    assert ledger_signs(spec)[1][1].startswith("publication 3 has no signature, wanted one as those before it")


def test_changes_by_planners_are_resealed(spec: Spec) -> None:
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        connection.execute(update(tables.published).values(drivers=7))
        soundness.write_digest(connection, 3, keys.sealing(spec.paths.folder))
        soundness.write_digest(connection, 2)
    assert [state for state, _ in ledger_signs(spec)] == ["broken"]  # only the first one, which was not renewed


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def test_a_restored_backup_verifies(tmp_path: Path, spec: Spec, database: str, request: pytest.FixtureRequest) -> None:
    backup(spec, tmp_path / "copy")
    shutil.rmtree(spec.paths.folder)
    if database == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        server.run("drop schema public cascade", "create schema public")
        url = server.url().render_as_string(hide_password=False)
        file = spec.folder / "pipeline.yaml"
        file.write_text(file.read_text("utf-8") + f"ledger: {url!r}\n", "utf-8")
        spec = load(file)
    restore(spec, tmp_path / "copy")
    [(state, text)] = ledger_signs(spec)
    assert (state, text.partition("; ")[2]) == ("ok", "3 publications verified, 2 with a signature")


def test_machine_without_public_keys_reports_unverified_signatures(spec: Spec) -> None:
    shutil.rmtree(spec.paths.keys)
    [(state, text)] = ledger_signs(spec)
    assert state == "ok"
    assert "2 with a signature, not verified: no key to verify bundles with" in text
