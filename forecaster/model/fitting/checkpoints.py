"""Keep a training's state on disk, so that a training that was killed goes on where it was.

Orbax writes and reads the arrays. It restores a damaged file without a word and does not know what a state was for, so
the rest is here: a checkpoint exists once its manifest does, which holds the purpose, the hash of every file and a hash
of itself, and is written last. Whatever has no manifest was left by a save that was killed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax import Array
from jax.experimental import multihost_utils
from jaxtyping import PyTree

from forecaster.errors import CheckpointError

_MANIFEST = "manifest.json"
_ABOUT = "about.json"
_ARRAYS = "arrays"


@dataclass(frozen=True)
class Saved:
    """A training as it was after epoch `number`."""

    number: int
    state: Any  # of the tree, dtypes and shardings that were asked for
    history: list[dict[str, Any]]  # the reports of the epochs up to `number`


@dataclass(frozen=True)
class Checkpoints:
    """The last two checkpoints of one training, in a folder that is theirs alone.

    `purpose` names all that a state depends on (digest of spec and data, version of the code, kind of devices): a
    checkpoint made for another purpose is as good as none. Where several processes train together, each of them makes
    each call, and all of them see the same folder.
    """

    folder: Path
    purpose: str

    def save(self, number: int, state: PyTree[Array], history: Sequence[Mapping[str, Any]]) -> None:
        """Write the state after epoch `number`; when this returns, it is safe on the disk.

        Raises CheckpointError when it cannot be written; the checkpoints before it are then still there.
        """
        here = self.folder / str(number)
        try:
            if _first():
                self._forget(lambda each: each == here or not _exists(each))
                here.mkdir(parents=True)
            _meet(f"{here} is empty")
            _write(here / _ARRAYS, state)
            if _first():
                about = {"leaves": _described(state), "history": list(history)}
                (here / _ABOUT).write_text(json.dumps(about, indent=1))
                _seal(here, {"number": number, "purpose": self.purpose, "files": _settled_hashes(here)})
                before = max((n for n in self._numbers() if n < number), default=number)
                # What is numbered higher was left by a training that has since started over.
                self._forget(lambda each: int(each.name) not in (before, number))
            _meet(f"{here} is written")
        except (OSError, ValueError) as error:
            raise CheckpointError(f"epoch {number} could not be saved in {here}: {error}; is the disk full?") from error

    def latest(self, like: PyTree[Array]) -> Saved | None:
        """The newest checkpoint made for this purpose, laid out as `like` (a fresh state) is; None when there is none.

        Raises CheckpointError when that one is damaged, or holds another tree, dtype or shape than `like`.
        """
        for number in reversed(self._numbers()):
            here = self.folder / str(number)
            try:
                manifest = _opened(here, number)
                if manifest["purpose"] == self.purpose:
                    _check(here, manifest["files"])
                    return _read(here, number, like)
            except OSError as error:
                raise CheckpointError(f"{here} could not be read: {error}; start over without it") from error
        return None

    def clear(self) -> None:
        """Remove every checkpoint, for whatever purpose, and what killed saves have left."""
        if _first():
            self._forget(lambda each: True)
        _meet(f"{self.folder} is clear")

    def _numbers(self) -> list[int]:
        return sorted(int(each.name) for each in self._folders() if _exists(each))

    def _folders(self) -> list[Path]:
        return [each for each in self.folder.glob("*") if re.fullmatch("0|[1-9][0-9]*", each.name) and each.is_dir()]

    def _forget(self, which: Callable[[Path], bool]) -> None:
        for each in filter(which, self._folders()):
            (each / _MANIFEST).unlink(missing_ok=True)  # first: killed after this, it counts as a leftover
            shutil.rmtree(each)


def _exists(here: Path) -> bool:
    return (here / _MANIFEST).is_file()


def _first() -> bool:
    return jax.process_index() == 0


def _meet(name: str) -> None:
    """Wait for the other processes, where there are any."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)


# --- the arrays -------------------------------------------------------------------------------------------------------


def _write(folder: Path, state: PyTree[Array]) -> None:
    """The leaves under their places in the tree; Orbax takes no typed keys and no arrays without elements."""
    arrays = {f"{place:04d}": _plain(leaf) for place, leaf in enumerate(jax.tree.leaves(state)) if leaf.size}
    with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as checkpointer:
        checkpointer.save(folder.absolute(), args=ocp.args.StandardSave(arrays))


def _read(here: Path, number: int, like: PyTree[Array]) -> Saved:
    about = json.loads((here / _ABOUT).read_text())
    for found, wanted in zip_longest(about["leaves"], _described(like), fillvalue="nothing"):
        if found != wanted:
            raise CheckpointError(
                f"{here} holds {found}, wanted {wanted}: it was saved by another architecture; start over without it"
            )
    leaves, tree = jax.tree.flatten(like)
    layout = {f"{place:04d}": _layout(_plain(leaf)) for place, leaf in enumerate(leaves) if leaf.size}
    try:
        with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as checkpointer:
            arrays = checkpointer.restore((here / _ARRAYS).absolute(), args=ocp.args.StandardRestore(layout))
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{here} could not be restored: {error}; start over without it") from error
    state = [_as(leaf, arrays[f"{place:04d}"]) if leaf.size else leaf for place, leaf in enumerate(leaves)]
    return Saved(number, jax.tree.unflatten(tree, state), about["history"])


def _described(state: PyTree[Array]) -> list[str]:
    """A line for each leaf: its path in the tree, dtype (of a key, its kind) and shape."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return [f"{jax.tree_util.keystr(path)} {leaf.dtype}{list(leaf.shape)}" for path, leaf in leaves]


def _is_key(leaf: Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Array) -> Array:
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _layout(leaf: Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)  # type: ignore[no-untyped-call]


def _as(like: Array, plain: Array) -> Array:
    """The restored numbers as `like` is: typed keys again, and bound to devices only where `like` was bound."""
    free = plain if like.committed else jnp.asarray(np.asarray(plain))
    return jax.random.wrap_key_data(free, impl=jax.random.key_impl(like)) if _is_key(like) else free


# --- the manifest -----------------------------------------------------------------------------------------------------


def _seal(here: Path, content: dict[str, Any]) -> None:
    """Make the checkpoint exist: the manifest appears whole or not at all."""
    beside = here / f"{_MANIFEST}.new"
    with beside.open("xb") as out:
        out.write(_sealed(content))
        out.flush()
        os.fsync(out.fileno())
    beside.rename(here / _MANIFEST)
    _settle(here)
    _settle(here.parent)


def _sealed(content: dict[str, Any]) -> bytes:
    """The bytes of a manifest, which only this content has."""
    text = json.dumps(content, sort_keys=True)
    return json.dumps({"content": content, "sha256": _sha256(text.encode())}, indent=1, sort_keys=True).encode()


def _opened(here: Path, number: int) -> dict[str, Any]:
    """The content of a manifest that says of itself that it is whole, and lies where it was written."""
    path = here / _MANIFEST
    found = path.read_bytes()
    try:
        told = json.loads(found)
        content: dict[str, Any] = told["content"]
        hashes = (_sha256(json.dumps(content, sort_keys=True).encode()), told["sha256"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged: found {error}, wanted a manifest; start over without it") from error
    if hashes[0] != hashes[1] or found != _sealed(content):
        raise CheckpointError(f"{path} is damaged: found sha256 {hashes[0]}, wanted {hashes[1]}; start over without it")
    if content["number"] != number:
        raise CheckpointError(f"{here} holds epoch {content['number']}, wanted {number}: give it back its name")
    return content


def _check(here: Path, wanted: Mapping[str, str]) -> None:
    """Raise CheckpointError, with names, where the files are not those of the manifest."""
    found = {name: _sha256(path.read_bytes()) for name, path in _files(here).items()}
    for name in sorted(found.keys() | wanted.keys()):
        if found.get(name) != wanted.get(name):
            raise CheckpointError(
                f"{here / name} is damaged: found {_told(found.get(name))}, wanted {_told(wanted.get(name))}; "
                "start over without this checkpoint"
            )


def _told(sha256: str | None) -> str:
    return f"sha256 {sha256}" if sha256 else "no such file"


def _files(here: Path) -> dict[str, Path]:
    """Every file of a checkpoint except the manifest; a link or the like counts as a file."""
    inside = {each.relative_to(here).as_posix(): each for each in here.rglob("*") if not each.is_dir()}
    return {name: path for name, path in inside.items() if name != _MANIFEST}


def _settled_hashes(here: Path) -> dict[str, str]:
    """The hash of every file, all of them on the disk by now: the manifest must not outlive what it vouches for."""
    for folder in (here, *(each for each in here.rglob("*") if each.is_dir())):
        _settle(folder)
    hashes = {}
    for name, path in _files(here).items():
        _settle(path)
        hashes[name] = _sha256(path.read_bytes())
    return hashes


def _settle(path: Path) -> None:
    """Have what is written at `path`, a file or a folder's names, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
