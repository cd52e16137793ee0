"""Restore from a backup: into an empty place or, with `replace`, over existing data.

Every file is verified against its digest before anything is changed. The ledger comes last, in one
transaction: until then nothing on the page has changed. A ledger that is damaged, or of another
version, is renamed just before. A file in `state` marks a restore in progress: readers reject the
state of an interrupted one until it is repeated.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from forecaster.config import Spec
from forecaster.core import artifact
from forecaster.core.terminal import count
from forecaster.demand.history import lake_owner
from forecaster.errors import BackupError, BackupFolderError, Busy, LakeError, LedgerError, UnusableLedger
from forecaster.ledger import connect, lease, soundness, tables
from forecaster.ledger.lease import Lease
from forecaster.operations import backup
from forecaster.operations.backup import KEYS, LAKE, LEDGER, STATE, Manifest
from forecaster.serving import keys
from forecaster.serving.keys import PUBLIC

LEAP = 10_000
"""Gap in publication ids: ids assigned since the backup may still be in browser caches."""
BESIDE = ".restore-"  # prefix of the folder in which a copy of the ledger is migrated
# name of a backup's public key, by digest: next to those of this machine
BROUGHT = f"restored-{{}}{PUBLIC}"


def restore(
    spec: Spec, folder: Path, *, replace: bool = False, remark: Callable[[str], None] = lambda _: None
) -> Manifest:
    """Restore ledger, lake and bundles; with `replace` over existing data. Remarks on an unsound
    ledger go to `remark`.

    Raises BackupFolderError if there is no backup, it is of another pipeline, or the place is not
    empty; BackupError if it is incomplete; ForeignLake if the existing lake belongs to another
    fleet; Busy if a run is at work; LedgerError if the ledger is not writable, UnusableLedger if it
    is damaged or of another version and must not be replaced.
    """
    manifest = backup.read_manifest(folder)
    if manifest.pipeline != spec.name:
        raise BackupFolderError(f"{folder}: found a backup of {manifest.pipeline}, wanted one of {spec.name}")
    with suppress(LakeError):  # a damaged one is replaced
        lake_owner.refuse_other_fleets(spec)
    # a half-finished restore may be replaced
    may_replace = replace or spec.paths.restoring.exists()
    try:
        fault = _ledger_fault(spec, may_replace=may_replace)
        _begin(spec, folder)
        _restore_files(spec, folder, manifest)
        if fault:
            _put_aside(spec, fault, remark)
        _restore_ledger(spec, folder)
        spec.paths.restoring.unlink()
    except OSError as error:
        raise BackupError(f"{folder}: cannot be restored: {error}; try again with --replace") from error
    return manifest


def _ledger_fault(spec: Spec, *, may_replace: bool) -> str | None:
    """Reason why the existing ledger is not writable; None if it is, or if there is none.

    Raises Busy if a run is at work, BackupFolderError or UnusableLedger if something must not be
    replaced, and LedgerError for an unusable PostgreSQL database.
    """
    try:
        connect.writer(spec.ledger_url).dispose()
        with _reading(spec) as reader:
            _refuse_while_busy(lease.read_lease(reader, spec.name, to_read=True), spec)
            if not may_replace and (obstacles := [*_obstacles(reader, spec)]):
                raise BackupFolderError(
                    f"found {', '.join(obstacles)}, wanted an empty place; `--replace` puts the backup in its place"
                )
            faults = soundness.page_faults(reader)
    except UnusableLedger as error:
        faults = [str(error)]
    if not faults:
        return None
    if not may_replace:
        raise UnusableLedger(f"{faults[0]}; with `--replace` the backup takes its place")
    if connect.sqlite_file(spec.ledger_url) is None:
        raise LedgerError(f"{faults[0]}; to restore into this database, empty it first: `drop schema public cascade`")
    return faults[0]


@contextmanager
def _reading(spec: Spec) -> Iterator[sa.Connection]:
    """Open a read transaction on the ledger, during which others may write."""
    engine = connect.reader(spec.ledger_url, patience=connect.PATIENCE)
    try:
        with connect.translated_errors(spec.ledger_url), engine.begin() as reader:
            yield reader
    finally:
        engine.dispose()


def _put_aside(spec: Spec, fault: str, remark: Callable[[str], None]) -> None:
    """Rename the file of an unusable ledger, with its write-ahead log."""
    file = connect.sqlite_file(spec.ledger_url)
    assert file is not None
    aside = file.with_name(f"{file.name}.replaced-{datetime.now(UTC):%Y%m%dT%H%M%S}")
    for suffix in ("-wal", "-shm", ""):  # the database file last: a new one must never be next to the old log
        with suppress(FileNotFoundError):
            file.with_name(file.name + suffix).rename(aside.with_name(aside.name + suffix))
    remark(f"{fault}; that ledger is now {aside}, and no run was looked up in it")


def _restore_ledger(spec: Spec, folder: Path) -> None:
    """Replace the rows of the ledger by those of the backup. Raises Busy if a run has started in
    the meantime."""
    target = connect.writer(spec.ledger_url)
    try:
        with tempfile.TemporaryDirectory(dir=spec.paths.folder, prefix=BESIDE) as temporary_folder:
            copy = shutil.copy(folder / LEDGER, Path(temporary_folder) / LEDGER)
            # migrates a copy of an older version
            source = connect.writer(f"sqlite:///{copy}")
            with connect.translated_errors(spec.ledger_url), source.begin() as reader, target.begin() as writer:
                _refuse_while_busy(lease.read_lease(writer, spec.name), spec)
                _replace_rows(reader, writer)
            source.dispose()
    finally:
        target.dispose()


def _begin(spec: Spec, folder: Path) -> None:
    """Mark a restore as in progress, and remove leftovers of a killed one."""
    spec.paths.folder.mkdir(parents=True, exist_ok=True)
    spec.paths.restoring.write_text(str(folder.absolute()), "utf-8")
    for leftover in spec.paths.folder.glob(f"{BESIDE}*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _refuse_while_busy(current: Lease | None, spec: Spec) -> None:
    """Raises Busy if a run is at work."""
    if current is not None and not lease.is_gone(current.holder) and current.expires_at > datetime.now(UTC):
        raise Busy(current.sentence(spec.zone))


def _obstacles(reader: sa.Connection, spec: Spec) -> Iterator[str]:
    """Data that a restore would overwrite."""
    if runs := reader.execute(sa.select(sa.func.count()).select_from(tables.runs)).scalar_one():
        yield f"{count(runs, 'run')} in the ledger"
    store, root = backup.store_of(spec.lake_url)
    if store.exists(root) and store.find(root):
        yield f"a lake at {spec.lake_url}"
    if any((spec.paths.bundles).glob("*")):
        yield f"bundles in {spec.paths.folder}"


def _restore_files(spec: Spec, folder: Path, manifest: Manifest) -> None:
    store, root = backup.store_of(spec.lake_url)
    if store.exists(root):
        store.rm(root, recursive=True)
    for saved in backup.saved_folders(spec.paths):
        shutil.rmtree(saved, ignore_errors=True)
    for name in manifest.files:
        top, _, rest = name.partition("/")
        if top == LAKE:
            store.makedirs(store._parent(f"{root}/{rest}"), exist_ok=True)
            with (folder / name).open("rb") as source, store.open(f"{root}/{rest}", "wb") as into:
                backup.copy_stream(source, into)
        elif top == STATE:
            _place(folder / name, spec.paths.folder / rest)


def _place(file: Path, to: Path) -> None:
    if to.parent.name != KEYS:
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, to)
        return
    to.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if to.name in backup.SECRETS:
        keys.write_owner_only(to, file.read_bytes())  # a machine with a key of its own keeps it
    else:
        shutil.copyfile(file, to.with_name(BROUGHT.format(artifact.file_digest(file)[:8])))


def _replace_rows(reader: sa.Connection, writer: sa.Connection) -> None:
    for table in reversed(tables.metadata.sorted_tables):
        writer.execute(table.delete())
    backup.copy_rows(reader, writer)
    for table in tables.metadata.sorted_tables:
        if table.dialect_options["sqlite"]["autoincrement"]:
            _count_on(writer, table, LEAP if table is tables.publications else 0)


def _count_on(writer: sa.Connection, table: sa.Table, leap: int) -> None:
    """Continue the numbering of new rows after the existing ones."""
    [key] = table.primary_key.columns
    highest = writer.execute(sa.select(sa.func.coalesce(sa.func.max(key), 0))).scalar_one() + leap
    if writer.dialect.name == "postgresql":
        parameters = {"table": table.name, "key": key.name, "highest": max(highest, 1)}
        writer.execute(sa.text("select setval(pg_get_serial_sequence(:table, :key), :highest)"), parameters)
    else:
        writer.execute(
            sa.text("update sqlite_sequence set seq = :seq where name = :name"), {"seq": highest, "name": table.name}
        )
