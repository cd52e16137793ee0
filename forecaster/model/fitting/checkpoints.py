"""Checkpointing: save a training's state on disk (Orbax), so that a killed training can resume.

Orbax writes and reads the arrays. It silently restores a damaged file and does not know the purpose
of a state; this module adds both checks. A checkpoint exists once its manifest does, which contains
the purpose, the hash of every file and a hash of itself, and is written last. A folder without a
manifest is the remains of a killed save.
"""

from __future__ import annotations

import json
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

from forecaster.core import artifact
from forecaster.errors import CheckpointError

_MANIFEST = "manifest.json"
_ABOUT = "about.json"
_ARRAYS = "arrays"


@dataclass(frozen=True)
class Checkpoint:
    """A restored checkpoint: the state of a training after epoch `number`."""

    number: int
    state: Any  # with the requested tree, dtypes and shardings
    history: list[dict[str, Any]]  # reports of the epochs up to `number`


@dataclass(frozen=True)
class Checkpoints:
    """The last two checkpoints of one training, in a folder of their own.

    `purpose` identifies everything that a state depends on (digest of spec and data, version of the
    code, kind of devices); a checkpoint with another purpose is ignored. If several processes train
    together, each of them makes each call, and all see the same folder.
    """

    folder: Path
    purpose: str

    def save(self, number: int, state: PyTree[Array], history: Sequence[Mapping[str, Any]]) -> None:
        """Write the state after epoch `number`; it is durable on disk when this returns.

        Raises CheckpointError if it cannot be written; earlier checkpoints are then kept.
        """
        folder = self.folder / str(number)
        try:
            if _is_first_process():
                self._remove(lambda path: path == folder or not _is_complete(path))
                folder.mkdir(parents=True)
            _barrier(f"{folder} is empty")
            _write(folder / _ARRAYS, state)
            if _is_first_process():
                about = {"leaves": _leaf_lines(state), "history": list(history)}
                (folder / _ABOUT).write_text(json.dumps(about, indent=1))
                _write_manifest(folder, {"number": number, "purpose": self.purpose, "files": _fsync_and_hash(folder)})
                previous = max((n for n in self._numbers() if n < number), default=number)
                # Higher numbers were left by a training that has since started over.
                self._remove(lambda path: int(path.name) not in (previous, number))
            _barrier(f"{folder} is written")
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"epoch {number} could not be saved in {folder}: {error}; is the disk full?"
            ) from error

    def latest(self, like: PyTree[Array]) -> Checkpoint | None:
        """Return the newest checkpoint with this purpose, laid out as `like` (a fresh state); None
        if there is none.

        Raises CheckpointError if it is damaged, or has another tree, dtype or shape than `like`.
        """
        for number in reversed(self._numbers()):
            folder = self.folder / str(number)
            try:
                manifest = _read_manifest(folder, number)
                if manifest["purpose"] == self.purpose:
                    _check_hashes(folder, manifest["files"])
                    return _restore(folder, number, like)
            except OSError as error:
                raise CheckpointError(f"{folder} could not be read: {error}; start over without it") from error
        return None

    def clear(self) -> None:
        """Remove every checkpoint with any purpose, and the remains of killed saves."""
        if _is_first_process():
            self._remove(lambda _: True)
        _barrier(f"{self.folder} is clear")

    def _numbers(self) -> list[int]:
        return sorted(int(path.name) for path in self._folders() if _is_complete(path))

    def _folders(self) -> list[Path]:
        return [path for path in self.folder.glob("*") if re.fullmatch("0|[1-9][0-9]*", path.name) and path.is_dir()]

    def _remove(self, which: Callable[[Path], bool]) -> None:
        for path in filter(which, self._folders()):
            # first: if killed after this, the folder counts as remains
            (path / _MANIFEST).unlink(missing_ok=True)
            shutil.rmtree(path)


def _is_complete(folder: Path) -> bool:
    return (folder / _MANIFEST).is_file()


def _is_first_process() -> bool:
    return jax.process_index() == 0


def _barrier(name: str) -> None:
    """Wait for the other processes, if there are any."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)


# --- the arrays -------------------------------------------------------------------------------------------------------


def _write(folder: Path, state: PyTree[Array]) -> None:
    """Write the leaves under their positions in the tree; Orbax accepts no typed keys and no empty
    arrays."""
    arrays = {f"{place:04d}": _without_key_type(leaf) for place, leaf in enumerate(jax.tree.leaves(state)) if leaf.size}
    with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as checkpointer:
        checkpointer.save(folder.absolute(), args=ocp.args.StandardSave(arrays))


def _restore(folder: Path, number: int, like: PyTree[Array]) -> Checkpoint:
    about = json.loads((folder / _ABOUT).read_text())
    for saved, expected in zip_longest(about["leaves"], _leaf_lines(like), fillvalue="nothing"):
        if saved != expected:
            raise CheckpointError(
                f"{folder} holds {saved}, wanted {expected}: it was saved by another architecture; "
                "start over without it"
            )
    leaves, tree = jax.tree.flatten(like)
    layout = {f"{place:04d}": _layout(_without_key_type(leaf)) for place, leaf in enumerate(leaves) if leaf.size}
    try:
        with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as checkpointer:
            arrays = checkpointer.restore((folder / _ARRAYS).absolute(), args=ocp.args.StandardRestore(layout))
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{folder} could not be restored: {error}; start over without it") from error
    state = [_as_leaf(leaf, arrays[f"{place:04d}"]) if leaf.size else leaf for place, leaf in enumerate(leaves)]
    return Checkpoint(number, jax.tree.unflatten(tree, state), about["history"])


def _leaf_lines(state: PyTree[Array]) -> list[str]:
    """Return a line for each leaf: its path in the tree, dtype (for a key, its kind) and shape."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return [f"{jax.tree_util.keystr(path)} {leaf.dtype}{list(leaf.shape)}" for path, leaf in leaves]


def _is_key(leaf: Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _without_key_type(leaf: Array) -> Array:
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _layout(leaf: Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)  # type: ignore[no-untyped-call]


def _as_leaf(like: Array, plain: Array) -> Array:
    """Convert restored numbers to the form of `like`: typed keys again, and committed to devices
    only if `like` was."""
    array = plain if like.committed else jnp.asarray(np.asarray(plain))
    return jax.random.wrap_key_data(array, impl=jax.random.key_impl(like)) if _is_key(like) else array


# --- the manifest -----------------------------------------------------------------------------------------------------


def _write_manifest(folder: Path, content: dict[str, Any]) -> None:
    """Write the manifest atomically, which completes the checkpoint."""
    artifact.write(folder / _MANIFEST, _manifest_bytes(content), durable=True)
    artifact.sync(folder)
    artifact.sync(folder.parent)


def _manifest_bytes(content: dict[str, Any]) -> bytes:
    """Return the unique bytes of a manifest with this content."""
    text = json.dumps(content, sort_keys=True)
    return json.dumps({"content": content, "sha256": artifact.digest(text.encode())}, indent=1, sort_keys=True).encode()


def _read_manifest(folder: Path, number: int) -> dict[str, Any]:
    """Return the content of a manifest after checking its own hash and its location."""
    path = folder / _MANIFEST
    raw = path.read_bytes()
    try:
        manifest = json.loads(raw)
        content: dict[str, Any] = manifest["content"]
        hashes = (artifact.digest(json.dumps(content, sort_keys=True).encode()), manifest["sha256"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged: found {error}, wanted a manifest; start over without it") from error
    if hashes[0] != hashes[1] or raw != _manifest_bytes(content):
        raise CheckpointError(f"{path} is damaged: found sha256 {hashes[0]}, wanted {hashes[1]}; start over without it")
    if content["number"] != number:
        raise CheckpointError(f"{folder} holds epoch {content['number']}, wanted {number}: give it back its name")
    return content


def _check_hashes(folder: Path, expected: Mapping[str, str]) -> None:
    """Check the files against the manifest. Raises CheckpointError, with names, if they differ."""
    actual = {name: artifact.file_digest(path) for name, path in _files(folder).items()}
    for name, actual_hash, expected_hash in artifact.differences(actual, expected):
        raise CheckpointError(
            f"{folder / name} is damaged: found {_hash_text(actual_hash)}, "
            f"wanted {_hash_text(expected_hash)}; start over without this checkpoint"
        )


def _hash_text(sha256: str | None) -> str:
    return f"sha256 {sha256}" if sha256 else "no such file"


def _files(folder: Path) -> dict[str, Path]:
    """Return every file of a checkpoint except the manifest; links and special files count as
    files."""
    by_name = {entry.relative_to(folder).as_posix(): entry for entry in folder.rglob("*") if not entry.is_dir()}
    return {name: path for name, path in by_name.items() if name != _MANIFEST}


def _fsync_and_hash(folder: Path) -> dict[str, str]:
    """Flush every file to disk and return the hashes: the manifest must not be durable before its
    files are."""
    for inner in (folder, *(inside for inside in folder.rglob("*") if inside.is_dir())):
        artifact.sync(inner)
    hashes = {}
    for name, path in _files(folder).items():
        artifact.sync(path)
        hashes[name] = artifact.file_digest(path)
    return hashes
