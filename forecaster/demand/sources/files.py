"""File discovery: resolve a path, glob, folder or URL to files, local or in an object store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from glob import has_magic
from pathlib import PurePosixPath
from typing import Any, BinaryIO, cast

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from forecaster.config import DATASETS, Spec, credentials
from forecaster.config.sources import StoredSource
from forecaster.errors import ForecasterError, MissingExtra, SourceError, SourceUnreachable


@dataclass(frozen=True)
class File:
    """File, local or in an object store."""

    place: str  # for messages: its path or URL
    name: str  # its own name; in a folder or glob, from there on
    path: str  # path within its file system
    system: AbstractFileSystem
    advice: str = ""  # advice if it is missing

    @property
    def is_here(self) -> bool:
        return isinstance(self.system, LocalFileSystem)

    def open(self) -> BinaryIO:
        """Open the file's bytes. Raises SourceUnreachable."""
        with reached(self.place, self.advice):
            return cast(BinaryIO, self.system.open(self.path, "rb"))


def files(source: StoredSource, spec: Spec) -> list[File]:
    """Files of a source, sorted by name; a folder is expanded only for kinds that read folders.

    Raises SourceUnreachable when there is none or the store cannot be reached, SourceError when a
    folder is empty, SpecError when a variable or secret is missing.
    """
    place, options = spec.place(source.path), storage_options(source)
    advice = _advice(source)
    with reached(without_credentials(place), advice):
        if "://" in place:
            _conceal(place)
            system, path = url_to_fs(place, **options)
            system.invalidate_cache()  # otherwise a cached listing of an earlier run would be used
        else:
            system, path = LocalFileSystem(), place
        globbed = is_glob(place) and not system.exists(path)
        folder = not globbed and source.reads_folders and system.isdir(path)
        if not globbed and not folder:
            return [File(without_credentials(place), PurePosixPath(path).name, path, system, advice)]
        paths = _matched(system, path, folders=source.reads_folders) if globbed else _below(system, path)
    root = _root(path) if globbed else path.rstrip("/")
    if not paths and globbed:
        raise SourceUnreachable(
            f"{without_credentials(place)}: found no file that matches the glob; wanted at least one {source.kind} file"
        )
    if not paths:
        raise SourceError(
            f"{without_credentials(place)}: found a folder without files; wanted {source.kind} files in it"
        )
    return [
        File(
            _joined(without_credentials(place), root, file_path),
            file_path.removeprefix(root).lstrip("/"),
            file_path,
            system,
        )
        for file_path in paths
    ]


def name(source: StoredSource) -> str:
    """Name of a file source in messages and tables: its file, or its glob as declared; never a
    credential."""
    place = without_credentials(source.path)
    return place if is_glob(place) else PurePosixPath(place).name


def storage_options(source: StoredSource) -> dict[str, str]:
    """Options of the object store, with credentials filled in and hidden from then on."""
    return {name: credentials.fill(value, credential=True) for name, value in source.options.items()}


def is_glob(path: str) -> bool:
    """True for a path with *, ? or [; in a web URL, ? begins the query."""
    return has_magic(path) and not path.startswith("http")


def without_credentials(place: str) -> str:
    """Path or URL without user, password and, for web URLs, query."""
    if "://" not in place:
        return place
    place = re.sub(r"(?<=://)[^/@]*@", "", place)
    return re.sub(r"\?.*", "", place) if place.startswith("http") else place


@contextmanager
def reached(place: str, advice: str = "") -> Iterator[None]:
    """Translate errors of files and stores into SourceUnreachable."""
    try:
        yield
    except ForecasterError:
        raise
    except FileNotFoundError:
        raise SourceUnreachable(f"{place}: no such file{advice}") from None
    except OSError as error:
        message = error.strerror or str(error) or type(error).__name__
        raise SourceUnreachable(f"{place}: cannot be read: {message}; wanted a readable file") from None
    except ImportError as error:
        install = (
            "pip install 'harbor-forecaster[object-store]'"
            if place.startswith("s3")
            else "install it in the same environment"
        )
        raise MissingExtra(f"{place} needs a package that is not installed here ({error}): {install}") from None
    except Exception as error:  # object stores raise errors of their own without a common base
        raise SourceUnreachable(f"{place}: cannot be reached: {type(error).__name__}: {error}") from None


def _matched(system: AbstractFileSystem, glob: str, *, folders: bool) -> list[str]:
    entries: dict[str, Any] = system.glob(glob, detail=True)
    paths = []
    for path, info in sorted(entries.items()):
        if info["type"] != "directory":
            paths.append(path)
        elif folders:
            paths += _below(system, path)
    return list(dict.fromkeys(paths))


def _below(system: AbstractFileSystem, folder: str) -> list[str]:
    """All files of a folder except those that writers hide: markers, checksums, logs."""
    paths: list[str] = sorted(system.find(folder))
    root = folder.rstrip("/")
    return [path for path in paths if not re.search(r"(^|/)[._]", path.removeprefix(root))]


def _root(glob: str) -> str:
    """Folder to which the names of a glob's files are relative."""
    fixed = glob[: re.search(r"[*?[]", glob).start()]  # type: ignore[union-attr]
    return fixed[: fixed.rfind("/")] if "/" in fixed else ""


def _joined(place: str, root: str, path: str) -> str:
    """Full name of a file in a folder or glob named `place`."""
    scheme = re.match(r"[^:/]+://", place)
    return path if scheme is None or path.startswith(scheme[0]) else scheme[0] + path.lstrip("/")


def _conceal(url: str) -> None:
    """Hide the password in a URL and, for web URLs, the query."""
    if user := re.match(r"[^:/]+://[^/@]*?:([^/@]*)@", url):
        credentials.conceal(user[1])
    if url.startswith("http") and "?" in url:
        credentials.conceal(url.partition("?")[2])


def _advice(source: StoredSource) -> str:
    if DATASETS in source.path:
        return (
            f"; {DATASETS} names a folder of tidy Parquet files with one row per site and day: depot_id, date, demand "
            f"and covariates. Set {DATASETS} to such a folder, or point demand.source to your own file"
        )
    if "://" in source.path:
        return f"; wanted a {source.kind} file there"
    return f"; wanted a {source.kind} file there; a relative path starts at the folder of the pipeline file"
