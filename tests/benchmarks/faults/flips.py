"""One flipped byte in every kind of file: it does no harm, or it is named in a sentence and nothing false is out."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from forecaster.config import load
from forecaster.errors import ForecasterError
from forecaster.serving import bundle, encryption, keys
from tests.benchmarks.faults.installation import (
    OVERRIDE,
    TONIGHT,
    Contents,
    Ending,
    forecaster,
    put_in_place,
    read_contents,
)

HARMLESS, NAMED = "did no harm", "was named"
LATER = "from the next publication on, since"


@dataclass(frozen=True)
class Kind:
    """A kind of file: where it lies in the state folder, and the command that reads it."""

    name: str
    pattern: str
    words: Callable[[Path], list[str]]
    template: str = "done"
    prepare: Callable[[Path], None] = lambda file: None
    at_once: bool = False
    """Whether a byte of each file is flipped in one trial, since there are many and the command takes minutes."""


def predict(file: Path) -> list[str]:
    return ["predict", str(file), "--as-of", TONIGHT]


def night(file: Path) -> list[str]:
    return ["run", str(file), "--plain", "--as-of", TONIGHT]


def override(file: Path) -> list[str]:
    return ["override", str(file), *OVERRIDE]


def predict_packed(file: Path) -> list[str]:
    return [*predict(file), "--bundle", str(load(file).paths.bundle(f"{_champion(file)}.tar.zst"))]


def encrypt(file: Path) -> None:
    """The champion's bundle, as it lies where the pipeline file says `encrypt_bundles: true`."""
    spec = load(file)
    folder = spec.paths.bundle(_champion(file))
    model = bundle.load(folder, spec.paths.folder)
    about = {name: value for name, value in model.manifest.items() if name not in ("files", "format")}
    with np.load(io.BytesIO(model.weights), allow_pickle=False) as arrays:
        weights = dict(arrays.items())
    signer, cipher = keys.signer(spec.paths.folder), encryption.cipher_to_write(spec.paths.folder)
    assert bundle.write(folder.parent, model.model, weights, about, signer, cipher) == folder


def _champion(file: Path) -> str:
    return str(read_contents(file).champion)


KINDS: Sequence[Kind] = (
    Kind("ledger", "ledger.db", predict),
    Kind("lake: data", "lake/demand/**/*.parquet", predict),
    Kind("lake: log", "lake/demand/_delta_log/*.json", predict),
    Kind("bundle: ONNX graph", "bundles/{champion}/model.onnx", predict),
    Kind("bundle: NumPy weights", "bundles/{champion}/weights.npz", predict),
    Kind("bundle: manifest", "bundles/{champion}/manifest.json", predict),
    Kind("bundle: signature", "bundles/{champion}/manifest.sig", predict),
    Kind("bundle, encrypted: graph", "bundles/{champion}/model.onnx", predict, prepare=encrypt),
    Kind("bundle, encrypted: weights", "bundles/{champion}/weights.npz", predict, prepare=encrypt),
    Kind("bundle, packed", "bundles/{champion}.tar.zst", predict_packed),
    Kind("keys: public", "keys/*.pub.pem", predict),
    Kind("keys: decryption", "keys/encryption.key", predict, prepare=encrypt),
    Kind("saved inputs", "desks/*.npz", override),
    Kind("pipeline files of earlier nights", "specs/*.json", lambda file: ["plan", str(file)]),
    Kind("outbox", "registry_waiting/*/record.json", night, "waiting"),
    Kind("cached graph and trained model", "graphs/*.onnx", night, at_once=True),
    Kind("trained model", "checkpoints/trained-*.npz", night, at_once=True),
    Kind("checkpoint of a training", "checkpoints/**/*", night, "interrupted", at_once=True),
    Kind("JAX's compiled programs", "jax_cache/*-cache", night, "ready", at_once=True),
    Kind("compiled recurrence", "jax_cache/gru_cpu/*.so", night, "ready", at_once=True),
)


def undisturbed(kind: Kind, template: Path, folder: Path) -> Contents:
    """What is there after the command where no byte was flipped."""
    file = put_in_place(template, folder)
    kind.prepare(file)
    forecaster(folder, *kind.words(file))
    return read_contents(file)


def one_trial(
    kind: Kind, template: Path, folder: Path, twin: Contents, chance: random.Random
) -> tuple[str, str, list[str]]:
    """Where the byte was, what came of it, and what was wrong."""
    file = put_in_place(template, folder)
    kind.prepare(file)
    state = load(file).paths.folder
    pattern = kind.pattern.format(champion=_champion(file))
    files = sorted(path for path in state.glob(pattern) if path.is_file() and path.stat().st_size)
    if not files:
        return kind.pattern, "is not there", ["no such file"]
    places = [flip(path, chance) for path in (files if kind.at_once else [chance.choice(files)])]
    where = f"{len(files)} files" if kind.at_once else f"{places[0][0].relative_to(state)}:{places[0][1]}"
    return where, *judge(forecaster(folder, *kind.words(file)), file, twin)


def flip(file: Path, chance: random.Random) -> tuple[Path, int]:
    """Flip one or more bits of a byte."""
    content = bytearray(file.read_bytes())
    place = chance.randrange(len(content))
    content[place] ^= chance.randrange(1, 256)
    mode = file.stat().st_mode
    file.chmod(mode | 0o200)
    file.write_bytes(bytes(content))
    file.chmod(mode)
    return file, place


def judge(end: Ending, file: Path, twin: Contents) -> tuple[str, list[str]]:
    """What came of a flipped byte, and what is wrong about it."""
    if "Traceback" in end.err or "our fault, not yours" in end.err:
        return "a traceback", [f"ended with {end.code}: {end.sentence}"]
    if end.code not in (0, 1, 2, 3, 4) or not end.sentence:
        return "no sentence", [f"ended with {end.code}: {end.sentence}"]
    try:
        contents = read_contents(file)
    except ForecasterError:  # whoever looks at what is damaged is told, such as of a publication before the shown one
        return NAMED, []
    same = contents.forecast == twin.forecast and contents.rows == twin.rows and not contents.faults
    if LATER in end.out:  # an override is written down, and what damage keeps it from the page is said
        return NAMED, []
    if end.code == 0:
        return (HARMLESS, []) if same else ("a silent difference", [_difference(contents, twin)])
    return NAMED, []


def _difference(contents: Contents, twin: Contents) -> str:
    parts = [kind for kind, rows in twin.rows.items() if contents.rows[kind] != rows]
    parts += ["forecast"] if contents.forecast != twin.forecast else []
    return f"another content: {', '.join([*parts, *contents.faults])}"
