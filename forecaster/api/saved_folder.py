"""A saved forecaster on disk: the pipeline folder without its lake, the signed bundle, and how the
frame was given.

    forecaster.json     the arguments, the frame's library and column names, which bundle
    pipeline.yaml, demand/, static.parquet, events.parquet
    state/bundles/DIGEST, state/keys/*.pub.pem

It is written beside its place and then renamed into it, so that a half-written one is never seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa
import pyarrow.parquet as pq

from forecaster import __version__
from forecaster.api.frames import TIMESTAMP, ColumnNames, FrameKind, LongFrame
from forecaster.api.pipeline_folder import EVENTS, FILE, READINGS, STATIC, Frames, PipelineFolder
from forecaster.core import artifact
from forecaster.errors import SpecError
from forecaster.serving.keys import PUBLIC

ABOUT = "forecaster.json"
_DATE_TYPES = {str(kind): kind for kind in (pa.date32(), pa.date64(), *map(pa.timestamp, ("s", "ms", "us", "ns")))}


@dataclass(frozen=True)
class SavedForecaster:
    """Content of a folder about the forecaster that it holds."""

    parameters: Mapping[str, Any]
    kind: FrameKind
    bundle: str  # its digest


def write(path: Path, folder: PipelineFolder, bundle: Path, parameters: Mapping[str, Any], kind: FrameKind) -> Path:
    """Write the folder `path`. Raises SpecError where it is there and not empty, or for arguments
    that are not JSON."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise SpecError(f"{path}: found a folder with files, wanted a new or empty one")
    about = {
        "version": __version__,
        "bundle": bundle.name,
        "library": kind.library.value,
        "names": list(kind.names),
        "date_type": str(kind.date_type),
        "id_type": "integer" if pa.types.is_integer(kind.id_type) else "text",
        "parameters": dict(parameters),
    }
    try:
        text = json.dumps(about, indent=1, default=list)
    except (TypeError, ValueError) as error:
        raise SpecError(
            f"options: found a value that JSON cannot represent: {error}; wanted numbers, text, lists and mappings"
        ) from error
    with artifact.writing_folder(path) as new:
        (new / ABOUT).write_text(text + "\n", "utf-8")
        write_contents(new, contents(folder, bundle))
    return path


def contents(folder: PipelineFolder, bundle: Path | None) -> dict[str, bytes]:
    """The files from which a forecaster goes on, by their place in the folder: file, frames,
    bundle, public keys. The key that signs is not among them."""
    paths = [folder.folder / name for name in (READINGS, STATIC, EVENTS)]
    if bundle is not None:
        paths += [*sorted(bundle.iterdir()), *sorted(folder.spec.paths.keys.glob(f"*{PUBLIC}"))]
    files = {str(path.relative_to(folder.folder)): path.read_bytes() for path in paths if path.exists()}
    return {FILE: folder.file_text().encode(), **files}


def write_contents(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write what `contents` gave into another folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def read(path: Path) -> SavedForecaster:
    """Content of a saved folder. Raises SpecError for one that holds no forecaster."""
    try:
        about = json.loads((path / ABOUT).read_text("utf-8"))
        library = nw.Implementation.from_backend(about["library"])
        id_type = pa.int64() if about["id_type"] == "integer" else pa.string()
        date_type = _DATE_TYPES.get(about.get("date_type", ""), TIMESTAMP)
        kind = FrameKind(library, ColumnNames(*about["names"]), id_type, date_type)
        return SavedForecaster(about["parameters"], kind, str(about["bundle"]))
    except OSError as error:
        raise SpecError(f"{path / ABOUT}: cannot be read: {error.strerror}; wanted a folder that save wrote") from error
    except (ValueError, TypeError, KeyError) as error:
        raise SpecError(f"{path / ABOUT}: found {error}, wanted what save wrote") from error


def frames(folder: Path, kind: FrameKind) -> Frames:
    """The frames of a saved folder."""
    static, events = (pq.read_table(folder / name) if (folder / name).exists() else None for name in (STATIC, EVENTS))
    return Frames(LongFrame(pq.read_table(folder / READINGS), kind), static, events)
