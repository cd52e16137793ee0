"""Backed-up and destroyed data are restored, in SQLite or PostgreSQL, and runs continue."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from flows.night import Night
from forecaster.config import Spec, load
from forecaster.demand.ingest import ingest
from forecaster.errors import BackupError, BackupFolderError, Busy, LakeError, UnusableLedger
from forecaster.lake import Lake
from forecaster.ledger.publication import PublishedDepot
from forecaster.ledger.records import Head
from forecaster.ledger.store import Ledger
from forecaster.operations import backup as backups
from forecaster.operations import restore as restores
from forecaster.operations.backup import backup
from forecaster.operations.restore import LEAP, restore
from forecaster.publishing.outcome import PublishedForecast
from forecaster.publishing.predict import predict
from forecaster.serving import bundle, encryption, keys
from tests import fleets
from tests.databases import Postgres, postgres  # noqa: F401 (a fixture)
from tests.fleets import AS_OF, Fleet
from tests.flows.tiny import DAYS, NIGHT, pipeline


def night(spec: Spec, days: int = 0) -> None:
    ingest(spec, now=NIGHT + timedelta(days=days))
    predict(spec, as_of=NIGHT + timedelta(days=days), bundle=None, run_id=None, note=None)


def published(spec: Spec) -> tuple[Head, tuple[PublishedDepot, ...]]:
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        assert head is not None
        return head, tuple(ledger.depots(head.publication_id))


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    """Pipeline that has published once, with a bundle and a signing key."""
    spec = load(pipeline(tmp_path / "here", days=DAYS))
    night(spec)
    keys.signer(spec.paths.folder)
    (spec.paths.bundles / "abc").mkdir(parents=True)
    (spec.paths.bundles / "abc" / "model.onnx").write_bytes(b"graph")
    (spec.paths.bundles / ".bundle-half").mkdir()
    spec.paths.report_of("night-1").parent.mkdir(parents=True)
    spec.paths.report_of("night-1").write_text("<h1>what the page serves</h1>", "utf-8")
    spec.paths.registered_run("night-1").write_text("{}", "utf-8")
    return spec


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def test_restore_after_total_loss_shows_the_same_page_and_runs_continue(
    tmp_path: Path, spec: Spec, database: str, request: pytest.FixtureRequest
) -> None:
    before, readings = published(spec), Lake(spec.lake_url).read("demand").num_rows
    manifest = backup(spec, tmp_path / "copy")
    assert (manifest.runs, manifest.private_key) == (1, False)
    shutil.rmtree(spec.paths.folder)
    if database == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        server.run("drop schema public cascade", "create schema public")
        url = server.url().render_as_string(hide_password=False)
        file = spec.folder / "pipeline.yaml"
        file.write_text(file.read_text("utf-8") + f"ledger: {url!r}\n", "utf-8")
        spec = load(file)
    assert restore(spec, tmp_path / "copy") == manifest
    assert published(spec) == before
    assert Lake(spec.lake_url).read("demand").num_rows == readings
    assert Lake(spec.lake_url).versions() == manifest.lake_versions
    assert [path.name for path in (spec.paths.bundles).iterdir()] == ["abc"]
    assert spec.paths.report_of("night-1").read_text("utf-8") == "<h1>what the page serves</h1>"
    assert spec.paths.registered_run("night-1").exists(), "the address of its run in MLflow"
    pipeline(spec.folder, days=DAYS + 1)  # the source has one more day
    night(spec, 1)
    head, _ = published(spec)
    assert head.publication_id > before[0].publication_id + LEAP
    assert head.cutoff == before[0].cutoff + timedelta(days=1)


def test_new_machine_trusts_old_bundles_and_signs_with_its_own_key(tmp_path: Path, spec: Spec) -> None:
    old = keys.trusted_keys(spec.paths.folder)
    backup(spec, tmp_path / "copy")
    shutil.rmtree(spec.paths.folder)
    restore(spec, tmp_path / "copy")
    keys.signer(spec.paths.folder)
    raw = {key.public_bytes_raw() for key in keys.trusted_keys(spec.paths.folder)}
    assert {key.public_bytes_raw() for key in old} < raw


def test_backup_with_private_key_lets_the_new_machine_sign_as_before(tmp_path: Path, spec: Spec) -> None:
    key_file = spec.paths.keys / keys.PRIVATE
    private = key_file.read_bytes()
    assert backup(spec, tmp_path / "copy", secret_keys=True).private_key
    shutil.rmtree(spec.paths.folder)
    restore(spec, tmp_path / "copy")
    assert key_file.read_bytes() == private
    assert key_file.stat().st_mode & 0o077 == 0


def test_existing_data_is_replaced_only_with_replace(
    tmp_path: Path, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = published(spec)
    backup(spec, tmp_path / "copy")
    with pytest.raises(BackupError, match="exists and is not an empty folder, wanted a new or an empty one"):
        backup(spec, tmp_path / "copy")
    night(spec, 1)
    later = published(spec)
    refusal = r"found 2 runs in the ledger, a lake at .*, bundles in .*`--replace`"
    with pytest.raises(BackupFolderError, match=refusal):
        restore(spec, tmp_path / "copy")
    assert published(spec) == later
    restore(spec, tmp_path / "copy", replace=True)
    assert published(spec) == before


def test_damaged_or_foreign_backup_changes_nothing(tmp_path: Path, spec: Spec) -> None:
    before, copy = published(spec), tmp_path / "copy"
    backup(spec, copy)
    with pytest.raises(BackupError, match="found a backup of tiny, wanted one of other"):
        restore(spec.model_copy(update={"name": "other"}), copy, replace=True)
    (copy / "state" / "bundles" / "abc" / "model.onnx").write_bytes(b"grapH")
    with pytest.raises(BackupError, match=r"model\.onnx: its content differs from the backup, or is missing"):
        restore(spec, copy, replace=True)
    (copy / "backup.json").unlink()
    with pytest.raises(BackupError, match=r"found no backup\.json, wanted a folder of `forecaster backup`"):
        restore(spec, copy, replace=True)
    assert published(spec) == before


def test_killed_backup_is_rejected_and_can_be_repeated_in_its_folder(
    tmp_path: Path, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    with monkeypatch.context() as patch:
        patch.setattr(backups, "_finish", killed)
        with pytest.raises(KeyboardInterrupt):
            backup(spec, copy)
    (copy / "lake" / "demand" / "half.parquet").write_bytes(b"half")
    with pytest.raises(BackupError, match=r"found an unfinished backup, wanted a complete one; .* makes it again"):
        restore(spec, copy, replace=True)
    manifest = backup(spec, copy)
    assert {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()} == {
        *manifest.files,
        "backup.json",
    }


@pytest.mark.parametrize("emptied", [True, False])
def test_killed_restore_blocks_all_use_until_it_is_repeated(
    tmp_path: Path, spec: Spec, monkeypatch: pytest.MonkeyPatch, emptied: bool
) -> None:
    before, copy = published(spec), tmp_path / "copy"
    backup(spec, copy)
    if emptied:
        shutil.rmtree(spec.paths.folder)
    else:
        night(spec, 1)
    with monkeypatch.context() as patch:
        patch.setattr(restores, "_replace_rows", killed)
        with pytest.raises(KeyboardInterrupt):
            restore(spec, copy, replace=not emptied)
    (spec.paths.folder / f"{restores.BESIDE}left").mkdir()
    refusal = rf"restored in part: a restore from {copy} has not ended; .*`forecaster restore FILE --from {copy}`"
    with pytest.raises(LakeError, match=refusal):
        night(spec, 1)
    with pytest.raises(LakeError, match=refusal):
        predict(spec, as_of=NIGHT, bundle=None, run_id=None, note=None)
    with pytest.raises(LakeError, match=refusal):
        backup(spec, tmp_path / "another")
    restore(spec, copy)  # without --replace, since the existing data are half of the same restore
    assert published(spec) == before
    assert not [path.name for path in spec.paths.folder.iterdir() if path.name.startswith((".restore-", "restoring"))]
    night(spec, 1)


def killed(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("replace", [True, False])
def test_restore_is_rejected_during_a_run(tmp_path: Path, spec: Spec, replace: bool) -> None:
    backup(spec, tmp_path / "copy")
    begun = Night.begin(str(spec.folder / "pipeline.yaml"))
    with pytest.raises(Busy, match=f"run {begun.run_id} has been active since"):
        restore(spec, tmp_path / "copy", replace=replace)


def _overwritten(file: Path) -> None:
    file.write_text("garbage\n", "utf-8")


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:50_000])


def _inverted(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:20_480] + bytes(byte ^ 0x5A for byte in data[20_480:122_880]) + data[122_880:])


@pytest.mark.parametrize("damage", [_overwritten, _cut, _inverted])
def test_restore_moves_a_damaged_ledger_aside(tmp_path: Path, spec: Spec, damage: Callable[[Path], None]) -> None:
    before, copy, remarks = published(spec), tmp_path / "copy", list[str]()
    backup(spec, copy)
    damage(spec.paths.ledger)
    damaged = spec.paths.ledger.read_bytes()
    with pytest.raises(UnusableLedger, match=r"is damaged: .*; with `--replace` the backup takes its place"):
        restore(spec, copy)
    restore(spec, copy, replace=True, remark=remarks.append)
    assert published(spec) == before
    [remark] = remarks
    [aside] = [path for path in spec.paths.folder.glob("ledger.db.replaced-*") if path.name.count("-") == 1]
    assert aside.read_bytes() == damaged
    assert re.match(r"the ledger( at sqlite:///\S+)? is damaged: ", remark)
    assert remark.endswith(f"; that ledger is now {aside}, and no run was looked up in it")
    night(spec, 1)


def _of_a_later_version(spec: Spec) -> None:
    with closing(sqlite3.connect(spec.paths.ledger)) as connection, connection:
        connection.execute("update forecaster_revision set version_num = '0099'")


def test_restore_moves_a_ledger_of_another_version_aside(tmp_path: Path, spec: Spec) -> None:
    before, copy, remarks = published(spec), tmp_path / "copy", list[str]()
    backup(spec, copy)
    _of_a_later_version(spec)
    restore(spec, copy, replace=True, remark=remarks.append)
    assert published(spec) == before
    [remark] = remarks
    assert f"that ledger is now {spec.paths.ledger}.replaced-" in remark


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Pipeline whose champion is encrypted with a key of its own."""
    monkeypatch.delenv(encryption.VARIABLE, raising=False)
    (tmp_path / "locked").mkdir()
    fleet = fleets.build_fleet(tmp_path / "locked", "encrypt_bundles: true\n")
    assert encryption.is_encrypted((fleet.bundle / bundle.MODEL).read_bytes())
    return fleet


def forecast(fleet: Fleet) -> PublishedForecast:
    return predict(fleet.spec, as_of=AS_OF, bundle=None, run_id=None, note=None)


def test_encrypted_champion_works_after_a_restore_with_keys(tmp_path: Path, locked: Fleet) -> None:
    before = forecast(locked)
    manifest = backup(locked.spec, tmp_path / "copy", secret_keys=True)
    assert manifest.sentence().endswith(", with signing.pem and encryption.key")
    shutil.rmtree(locked.spec.paths.folder)
    restore(locked.spec, tmp_path / "copy")
    folder = locked.spec.paths.keys
    assert {path.stat().st_mode & 0o077 for path in (folder, folder / encryption.FILE, folder / keys.PRIVATE)} == {0}
    after = forecast(locked)
    assert (after.tier, after.bundle_digest) == ("champion", locked.bundle.name)
    np.testing.assert_array_equal(after.forecast.quantiles, before.forecast.quantiles)


def test_encrypted_champion_without_its_key_falls_back_with_the_reason(tmp_path: Path, locked: Fleet) -> None:
    key = (locked.spec.paths.keys / encryption.FILE).read_bytes()
    manifest = backup(locked.spec, tmp_path / "copy")
    assert manifest.sentence().endswith(", without secret keys")
    assert not any(key.strip() in path.read_bytes() for path in (tmp_path / "copy").rglob("*") if path.is_file())
    shutil.rmtree(locked.spec.paths.folder)
    restore(locked.spec, tmp_path / "copy")
    missed = forecast(locked)
    assert missed.tier == "fallback"
    expected = (
        r"model\.onnx: no key to decrypt with: found none in .*encryption\.key, wanted it there or in FORECASTER_"
    )
    assert re.search(expected, missed.note or "")
    keys.write_owner_only(locked.spec.paths.keys / encryption.FILE, key)
    assert forecast(locked).tier == "champion"


def test_machine_keeps_its_own_keys_and_trusts_those_of_all_backups(tmp_path: Path, spec: Spec) -> None:
    trusted = [keys.trusted_keys(spec.paths.folder)]
    for turn in ("once", "twice"):
        backup(spec, tmp_path / turn)
        shutil.rmtree(spec.paths.folder)
        keys.signer(spec.paths.folder)
        trusted.append(keys.trusted_keys(spec.paths.folder))
        restore(spec, tmp_path / turn)
    raw = {key.public_bytes_raw() for key in keys.trusted_keys(spec.paths.folder)}
    assert raw == {key.public_bytes_raw() for keys_of_turn in trusted for key in keys_of_turn}
    assert len(raw) == 3
