"""Backup: copy ledger, lake, bundles, reports and the public key into a folder, with a manifest of
SHA-256.

The secret keys, of which one signs bundles and one decrypts them, come along only where that is
wanted.

The ledger is copied first, in one transaction, and what it names after it, so that a backup taken
next to a night fits together. Whatever database the ledger is in, its copy is an SQLite file: a
restore brings it into SQLite or PostgreSQL.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import fsspec
import sqlalchemy as sa

from forecaster.config import Spec
from forecaster.core import artifact
from forecaster.core.state_paths import StatePaths
from forecaster.core.terminal import count
from forecaster.demand.history import lake_owner
from forecaster.errors import BackupError, BackupFolderError, LakeError
from forecaster.lake import TABLES, Lake
from forecaster.ledger import connect, tables
from forecaster.serving import encryption
from forecaster.serving.keys import PRIVATE, PUBLIC

MANIFEST, LEDGER, LAKE, STATE = "backup.json", "ledger.db", "lake", "state"
UNFINISHED = (
    # what becomes the manifest: in a folder that has it, a backup was begun and not finished
    f"{MANIFEST}.new"
)
KEYS = StatePaths(Path(STATE)).keys.name
SECRETS = (PRIVATE, encryption.FILE)  # in the folder of keys
_HIDDEN_OR_UNFINISHED = re.compile(r"(^|/)\.|\.new(/|$)")
LOG = "_delta_log"
# of a log: Delta does without, and it may name a checkpoint younger than what was copied
HINT = "_last_checkpoint"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """The backup's manifest: its files by SHA-256. It is written last: a folder without it is no
    backup."""

    pipeline: str
    at: str
    lake_versions: dict[str, int]
    runs: int
    private_key: bool
    files: dict[str, str]  # path in the backup → sha256

    def sentence(self) -> str:
        secret = [name for name in SECRETS if f"{STATE}/{KEYS}/{name}" in self.files]
        keys = f"with {' and '.join(secret)}" if secret else "without secret keys"
        return f"{self.pipeline} as of {self.at}: {count(self.runs, 'run')}, {count(len(self.files), 'file')}, {keys}"


def backup(spec: Spec, to: Path, *, secret_keys: bool = False) -> Manifest:
    """Copy everything into a new or empty folder, with `secret_keys` those too; a night may run
    meanwhile.

    What a backup that was killed has left in the folder is removed.

    Raises BackupFolderError where the folder holds something or cannot be made, BackupError where a
    file cannot be copied, ForeignLake where the lake is of another fleet, LedgerError and LakeError
    where there is nothing to copy.
    """
    if to.exists() and (not to.is_dir() or any(to.iterdir())) and not (to / UNFINISHED).is_file():
        raise BackupFolderError(f"{to}: found a folder with files, wanted a new or an empty one")
    try:
        lake_owner.refuse_other_fleets(spec)
        _begin(to)
        runs = _copy_ledger(spec.ledger_url, to / LEDGER)
        versions = Lake.of(spec).versions()
        digests = {LEDGER: artifact.file_digest(to / LEDGER)}
        files = _files_to_copy(spec, secret_keys=secret_keys)
        digests |= {name: _copy_file(store, path, to / name) for store, path, name in files}
        manifest = Manifest(
            pipeline=spec.name,
            at=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            lake_versions=versions,
            runs=runs,
            private_key=f"{STATE}/{KEYS}/{PRIVATE}" in digests,
            files=digests,
        )
        _finish(to, json.dumps(asdict(manifest), indent=1, sort_keys=True))
        return manifest
    except OSError as error:
        raise BackupError(f"{to}: cannot be made: {error}; empty it and try again") from error


def _begin(folder: Path) -> None:
    """Make the folder, empty but for the file that says that a backup was begun."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if path.name == UNFINISHED:
                continue
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        (folder / UNFINISHED).touch()
    except (NotADirectoryError, PermissionError) as error:
        raise BackupFolderError(f"{folder}: cannot be made there: {error.strerror}; wanted another folder") from error


def _finish(folder: Path, manifest: str) -> None:
    """Write the manifest and give it its name: from then on, and not before, the folder is a
    backup."""
    with (folder / UNFINISHED).open("w", encoding="utf-8") as out:
        out.write(manifest)
        out.flush()
        os.fsync(out.fileno())
    (folder / UNFINISHED).rename(folder / MANIFEST)


def copy_stream(stream: BinaryIO, into: BinaryIO) -> str:
    """Copy a stream to its end, in chunks; returns the SHA-256 of its content as hexadecimal
    digits."""
    digest = hashlib.sha256()
    while piece := stream.read(_CHUNK):
        digest.update(piece)
        into.write(piece)
    return digest.hexdigest()


def _copy_ledger(url: str, to: Path) -> int:
    """Copy every row but the lease into a ledger in SQLite; how many runs there are."""
    source, target = connect.reader(url), connect.writer(f"sqlite:///{to}")
    try:
        with connect.translated_errors(url), source.begin() as reader, target.begin() as writer:
            copy_rows(reader, writer)
            count: int = reader.execute(sa.select(sa.func.count()).select_from(tables.runs)).scalar_one()
        return count
    finally:
        source.dispose()
        target.dispose()


def copy_rows(reader: sa.Connection, writer: sa.Connection) -> None:
    """Every row but the lease, which belongs to a process of one machine."""
    for table in tables.metadata.sorted_tables:
        if table is tables.lease:
            continue
        for rows in reader.execute(sa.select(table)).mappings().partitions(10_000):
            writer.execute(table.insert(), [dict(row) for row in rows])


def _files_to_copy(spec: Spec, *, secret_keys: bool) -> Iterator[tuple[Any, str, str]]:
    """File system, path there, and name in the backup, of each file; of a table its log before what
    the log names."""
    store, root = store_of(spec.lake_url)
    for table in TABLES:
        log = [path for path in sorted(store.find(f"{root}/{table}/{LOG}")) if not path.endswith(HINT)]
        data = [path for path in sorted(store.find(f"{root}/{table}")) if f"/{LOG}/" not in path]
        yield from ((store, path, f"{LAKE}/{path.removeprefix(root).lstrip('/')}") for path in (*log, *data))
    disk, paths = fsspec.filesystem("file"), spec.paths
    secrets = [paths.keys / name for name in SECRETS] if secret_keys else []
    found = itertools.chain(*(sorted(folder.rglob("*")) for folder in saved_folders(paths)))
    for file in (*found, *sorted(paths.keys.glob(f"*{PUBLIC}")), *secrets):
        name = file.relative_to(paths.folder).as_posix()
        if file.is_file() and not _HIDDEN_OR_UNFINISHED.search(name):
            yield disk, str(file), f"{STATE}/{name}"


def saved_folders(paths: StatePaths) -> tuple[Path, ...]:
    """The folders of `state` that are saved whole."""
    return paths.bundles, paths.specs, paths.registry_outbox, paths.reports


def store_of(url: str) -> tuple[Any, str]:
    """The lake's file system and its root. Raises LakeError where it needs a package that is not
    installed."""
    try:
        store, root = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise LakeError(f"{url} needs a package: pip install 'harbor-forecaster[object-store]'") from error
    return store, str(root).rstrip("/")


def _copy_file(store: Any, path: str, to: Path) -> str:
    to.parent.mkdir(parents=True, exist_ok=True)
    with store.open(path, "rb") as source, to.open("wb") as into:
        return copy_stream(source, into)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a backup, each of its files verified against its SHA-256.

    Raises BackupFolderError where there is none, BackupError for one that is damaged.
    """
    if not (folder / MANIFEST).is_file():
        if (folder / UNFINISHED).is_file():
            raise BackupFolderError(
                f"{folder}: found an unfinished backup, wanted a complete one; `forecaster backup --to {folder}` "
                "makes it again"
            )
        raise BackupFolderError(f"{folder}: found no {MANIFEST}, wanted a folder of `forecaster backup`")
    try:
        manifest = Manifest(**json.loads((folder / MANIFEST).read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise BackupError(f"{folder}: found no whole {MANIFEST}, wanted a folder of `forecaster backup`") from error
    for name, digest in manifest.files.items():
        file = folder / name
        if ".." in Path(name).parts or not file.is_file() or artifact.file_digest(file) != digest:
            raise BackupError(f"{file}: its content differs from the backup, or is missing; nothing was restored")
    return manifest
