"""A saved forecaster on disk: the pipeline folder without its lake, the signed bundle, and the kind
of the frame.

    forecaster.json     the arguments, the frame's library and column names, the bundle's digest
    pipeline.yaml, demand/, static.parquet, events.parquet
    state/bundles/DIGEST, state/keys/*.pub.pem

It is written next to its place and then renamed, so that a partial one is never visible.
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
    """Description of the forecaster in a folder."""

    parameters: Mapping[str, Any]
    kind: FrameKind
    bundle: str  # its digest


def write(path: Path, folder: PipelineFolder, bundle: Path, parameters: Mapping[str, Any], kind: FrameKind) -> Path:
    """Write the folder `path`. Raises SpecError if it exists and is not empty, or for arguments
    that are not JSON."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise SpecError(f"{path}: exists and is not an empty folder, wanted a new or empty one")
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
    """Files needed to restore a forecaster, by path in the folder: pipeline file, frames, bundle,
    public keys; without the signing key."""
    paths = [folder.folder / name for name in (READINGS, STATIC, EVENTS)]
    if bundle is not None:
        paths += [*sorted(bundle.iterdir()), *sorted(folder.spec.paths.keys.glob(f"*{PUBLIC}"))]
    files = {str(path.relative_to(folder.folder)): path.read_bytes() for path in paths if path.exists()}
    return {FILE: folder.file_text().encode(), **files}


def write_contents(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the result of `contents` into another folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def read(path: Path) -> SavedForecaster:
    """Read the description of a saved folder. Raises SpecError for one without a forecaster."""
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
    """Frames of a saved folder."""
    static, events = (pq.read_table(folder / name) if (folder / name).exists() else None for name in (STATIC, EVENTS))
    return Frames(LongFrame(pq.read_table(folder / READINGS), kind), static, events)
