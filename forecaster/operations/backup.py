"""Copy what a pipeline keeps into a folder: ledger, lake, bundles and the public key that they are verified with.

The secret keys, of which one signs bundles and one decrypts them, come along only where that is wanted.

The ledger is copied first, in one transaction, and what it names after it, so that a backup taken beside a night fits
together. Whatever database the ledger is in, its copy is an SQLite file: a restore brings it into SQLite or PostgreSQL.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import fsspec
import sqlalchemy as sa

from forecaster.config import Spec
from forecaster.core.state_paths import StatePaths
from forecaster.errors import BackupError, LakeError
from forecaster.lake import TABLES, Lake
from forecaster.ledger import connect, tables
from forecaster.serving import encryption
from forecaster.serving.keys import PRIVATE, PUBLIC

MANIFEST, LEDGER, LAKE, STATE = "backup.json", "ledger.db", "lake", "state"
KEYS = StatePaths(Path(STATE)).keys.name
SECRETS = (PRIVATE, encryption.FILE)  # in the folder of keys
LOG = "_delta_log"
HINT = "_last_checkpoint"  # of a log: Delta does without, and it may name a checkpoint younger than what was copied
_PIECE = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """What a backup says of itself. It is written last: a folder without it is no backup."""

    pipeline: str
    at: str
    lake_versions: dict[str, int]
    runs: int
    private_key: bool
    files: dict[str, str]  # path in the backup → sha256

    def sentence(self) -> str:
        secret = [name for name in SECRETS if f"{STATE}/{KEYS}/{name}" in self.files]
        keys = f"with {' and '.join(secret)}" if secret else "without secret keys"
        return f"{self.pipeline} as of {self.at}: {self.runs:,} runs, {len(self.files):,} files, {keys}"


def backup(spec: Spec, to: Path, *, secret_keys: bool = False) -> Manifest:
    """Copy everything into a new or empty folder, with `secret_keys` those too; a night may run meanwhile.

    Raises BackupError where the folder holds something or a file cannot be copied, LedgerError and LakeError where
    there is nothing to copy.
    """
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise BackupError(f"{to}: found something there, wanted a new or an empty folder")
    try:
        to.mkdir(parents=True, exist_ok=True)
        runs = _ledger(spec.ledger_url, to / LEDGER)
        versions = Lake(spec.lake_url).versions()
        digests = {LEDGER: digest_of(to / LEDGER)}
        digests |= {name: _copied(fs, path, to / name) for fs, path, name in _everything(spec, secret_keys=secret_keys)}
        known = f"{STATE}/{KEYS}/{PRIVATE}" in digests
        made = Manifest(spec.name, f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", versions, runs, known, digests)
        (to / MANIFEST).write_text(json.dumps(asdict(made), indent=1, sort_keys=True), "utf-8")
        return made
    except OSError as error:
        raise BackupError(f"{to}: cannot be made: {error}; empty it and try again") from error


def digest_of(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def poured(given: BinaryIO, into: BinaryIO) -> str:
    """Copy a stream; the sha256 of what it held."""
    digest = hashlib.sha256()
    while piece := given.read(_PIECE):
        digest.update(piece)
        into.write(piece)
    return digest.hexdigest()


def _ledger(url: str, to: Path) -> int:
    """Copy every row but the lease into a ledger in SQLite; how many runs there are."""
    source, target = connect.reader(url), connect.writer(f"sqlite:///{to}")
    try:
        with connect.ours(url), source.begin() as read, target.begin() as write:
            copy_rows(read, write)
            count: int = read.execute(sa.select(sa.func.count()).select_from(tables.runs)).scalar_one()
        return count
    finally:
        source.dispose()
        target.dispose()


def copy_rows(read: sa.Connection, write: sa.Connection) -> None:
    """Every row but the lease, which belongs to a process of one machine."""
    for table in tables.metadata.sorted_tables:
        if table is tables.lease:
            continue
        for rows in read.execute(sa.select(table)).mappings().partitions(10_000):
            write.execute(table.insert(), [dict(row) for row in rows])


def _everything(spec: Spec, *, secret_keys: bool) -> Iterator[tuple[Any, str, str]]:
    """File system, path there, and name in the backup, of each file; of a table its log before what the log names."""
    store, root = store_of(spec.lake_url)
    for table in TABLES:
        log = [path for path in sorted(store.find(f"{root}/{table}/{LOG}")) if not path.endswith(HINT)]
        data = [path for path in sorted(store.find(f"{root}/{table}")) if f"/{LOG}/" not in path]
        yield from ((store, path, f"{LAKE}/{path.removeprefix(root).lstrip('/')}") for path in (*log, *data))
    disk, paths = fsspec.filesystem("file"), spec.paths
    found = [file for folder in saved_folders(paths) for file in sorted(folder.rglob("*")) if file.is_file()]
    found += sorted(paths.keys.glob(f"*{PUBLIC}"))
    found += [file for name in SECRETS if secret_keys and (file := paths.keys / name).exists()]
    for file in found:
        if not any(part.startswith(".") or part.endswith(".new") for part in file.relative_to(paths.folder).parts):
            yield disk, str(file), f"{STATE}/{file.relative_to(paths.folder).as_posix()}"


def saved_folders(paths: StatePaths) -> tuple[Path, ...]:
    """The folders of `state` that are saved whole."""
    return paths.bundles, paths.specs, paths.registry_outbox


def store_of(url: str) -> tuple[Any, str]:
    """The lake's file system and its root. Raises LakeError where it needs a package that is not installed."""
    try:
        store, root = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise LakeError(f"{url} needs a package: pip install 'forecaster[object-store]'") from error
    return store, str(root).rstrip("/")


def _copied(store: Any, path: str, to: Path) -> str:
    to.parent.mkdir(parents=True, exist_ok=True)
    with store.open(path, "rb") as given, to.open("wb") as into:
        return poured(given, into)


def read(folder: Path) -> Manifest:
    """What a backup says of itself, each of its files compared with its digest. Raises BackupError."""
    try:
        found = Manifest(**json.loads((folder / MANIFEST).read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise BackupError(f"{folder}: found no whole {MANIFEST}, wanted a folder of `forecaster backup`") from error
    for name, wanted in found.files.items():
        file = folder / name
        if ".." in Path(name).parts or not file.is_file() or digest_of(file) != wanted:
            raise BackupError(f"{file}: found another content than was backed up, or none; nothing was restored")
    return found
