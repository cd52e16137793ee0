"""Backup: copy ledger, lake, bundles, reports and the public key into a folder, with a manifest of
SHA-256 digests.

The secret keys, one for signing and one for decrypting bundles, are included only on request.

The ledger is copied first, in one transaction, and then the files that it names, so that a backup
taken during a run is consistent. Whatever the ledger's database, its copy is an SQLite file, which
can be restored into SQLite or PostgreSQL.
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
    # becomes the manifest; a folder that contains it holds an unfinished backup
    f"{MANIFEST}.new"
)
KEYS = StatePaths(Path(STATE)).keys.name
SECRETS = (PRIVATE, encryption.FILE)  # in the folder of keys
_HIDDEN_OR_UNFINISHED = re.compile(r"(^|/)\.|\.new(/|$)")
LOG = "_delta_log"
# of a log: Delta works without it, and it may name a checkpoint newer than the copied ones
HINT = "_last_checkpoint"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """Manifest of the backup: its files by SHA-256. It is written last: a folder without it is not
    a backup."""

    pipeline: str
    at: str
    lake_versions: dict[str, int]
    runs: int
    private_key: bool
    files: dict[str, str]  # path in the backup → SHA-256

    def sentence(self) -> str:
        secret = [name for name in SECRETS if f"{STATE}/{KEYS}/{name}" in self.files]
        keys = f"with {' and '.join(secret)}" if secret else "without secret keys"
        return f"{self.pipeline} as of {self.at}: {count(self.runs, 'run')}, {count(len(self.files), 'file')}, {keys}"


def backup(spec: Spec, to: Path, *, secret_keys: bool = False) -> Manifest:
    """Copy everything into a new or empty folder, secret keys only with `secret_keys`; a run may be
    at work meanwhile.

    Leftovers of a killed backup in the folder are removed.

    Raises BackupFolderError if the folder is not empty or cannot be created, BackupError if a file
    cannot be copied, ForeignLake if the lake belongs to another fleet, LedgerError and LakeError if
    there is nothing to copy.
    """
    if to.exists() and (not to.is_dir() or any(to.iterdir())) and not (to / UNFINISHED).is_file():
        raise BackupFolderError(f"{to}: exists and is not an empty folder, wanted a new or an empty one")
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
    """Create the folder, empty except for the file that marks an unfinished backup."""
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
    """Write the manifest and rename it: only from then on the folder is a backup."""
    with (folder / UNFINISHED).open("w", encoding="utf-8") as out:
        out.write(manifest)
        out.flush()
        os.fsync(out.fileno())
    (folder / UNFINISHED).rename(folder / MANIFEST)


def copy_stream(stream: BinaryIO, into: BinaryIO) -> str:
    """Copy a stream to its end, in chunks; return the SHA-256 of its content in hexadecimal."""
    digest = hashlib.sha256()
    while piece := stream.read(_CHUNK):
        digest.update(piece)
        into.write(piece)
    return digest.hexdigest()


def _copy_ledger(url: str, to: Path) -> int:
    """Copy all rows except the lease into a ledger in SQLite; return the number of runs."""
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
    """Copy all rows except the lease, which belongs to a process of one machine."""
    for table in tables.metadata.sorted_tables:
        if table is tables.lease:
            continue
        for rows in reader.execute(sa.select(table)).mappings().partitions(10_000):
            writer.execute(table.insert(), [dict(row) for row in rows])


def _files_to_copy(spec: Spec, *, secret_keys: bool) -> Iterator[tuple[Any, str, str]]:
    """Yield file system, path there, and name in the backup, of each file; a table's log comes
    before the files that it names."""
    store, root = store_of(spec.lake_url)
    for table in TABLES:
        log = [path for path in sorted(store.find(f"{root}/{table}/{LOG}")) if not path.endswith(HINT)]
        data = [path for path in sorted(store.find(f"{root}/{table}")) if f"/{LOG}/" not in path]
        yield from ((store, path, f"{LAKE}/{path.removeprefix(root).lstrip('/')}") for path in (*log, *data))
    disk, paths = fsspec.filesystem("file"), spec.paths
    secrets = [paths.keys / name for name in SECRETS] if secret_keys else []
    state_files = itertools.chain(*(sorted(folder.rglob("*")) for folder in saved_folders(paths)))
    for file in (*state_files, *sorted(paths.keys.glob(f"*{PUBLIC}")), *secrets):
        name = file.relative_to(paths.folder).as_posix()
        if file.is_file() and not _HIDDEN_OR_UNFINISHED.search(name):
            yield disk, str(file), f"{STATE}/{name}"


def saved_folders(paths: StatePaths) -> tuple[Path, ...]:
    """Folders of `state` that are saved completely."""
    return paths.bundles, paths.specs, paths.registry_outbox, paths.reports


def store_of(url: str) -> tuple[Any, str]:
    """File system and root of the lake. Raises LakeError if a required package is not installed."""
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
    """Manifest of a backup, with each of its files verified against its SHA-256.

    Raises BackupFolderError if there is none, BackupError if it is damaged.
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
