"""Content-addressed snapshot of a publication's model inputs, which the page reads to answer
planners' questions.

`state/desks/DIGEST.npz` holds the raw model inputs of all depots, the name of the bundle, and the
declared staffing. It is a file next to the ledger instead of rows in it, since a run's inputs are a
hundred times larger than its publication, and the bundle that reads them is in the same folder. The
publication names it by its sha256, so that exactly the run's inputs are read. A snapshot too large
for the page's memory is not written.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from forecaster.config import Staffing
from forecaster.core import artifact
from forecaster.core.arrays import Bools, Doubles
from forecaster.core.imputation.cold_start import Guess
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.core.panel import Encoding, Panel
from forecaster.errors import DeskError
from forecaster.staffing.shift_values import ShiftShares

LOOKBACK = 406  # days kept if no bundle states its lookback
MAX_BYTES = 1 << 29  # bytes of arrays
# arrays of a run with learned shares of shifts
SHARES, SHARE_DAYS = "shift_shares", "share_days"
_CANARY = "canary_"  # prefix of the canary's own arrays
_ARRAYS = ("demand", "open", "covariates", "calendar", "calendar_group", "statics", "days")
_DOUBT = "doubt"  # array of panels with depots of doubted level


@dataclass(frozen=True)
class SavedPanel(Panel):
    """A panel whose guesses for new depots were made when it was saved, and are not repeated; the
    doubt about their level is kept."""

    # (depots,) as in `Guess`, 0 for settled ones; None: no depot is doubted
    doubt: Doubles | None = None

    @cached_property
    def cold(self) -> Bools:
        return np.zeros(len(self.depot_ids), bool)

    def among(self, depot_ids: Sequence[str]) -> Self:
        """Select depots as in any panel; their doubt is selected with them."""
        panel = super().among(depot_ids)
        if self.doubt is None:
            return panel
        doubt = dict(zip(self.depot_ids, self.doubt.tolist(), strict=True))
        return replace(panel, doubt=np.array([doubt.get(depot_id, 0.0) for depot_id in depot_ids]))

    @cached_property
    def _guess(self) -> Guess:
        doubt = np.zeros(len(self.depot_ids)) if self.doubt is None else self.doubt
        doubtful = doubt > 0
        past = np.full((int(doubtful.sum()), self.history), np.nan, np.float32)
        return Guess(doubtful, past, doubt[doubtful])


@dataclass(frozen=True)
class SavedInputs:
    """The inputs of one run that planners' questions need."""

    panel: SavedPanel
    bundle: str | None  # name of its folder; None: no model could forecast
    strangers: frozenset[str]  # depots without a forecast of the model
    staffing: Staffing | None
    shares: ShiftShares | None = None  # of its shifts, if they are learned
    canary: CanaryInputs | None = None

    def of(self, depot_id: str) -> SavedInputs:
        """Inputs of the model whose numbers this depot sees."""
        if self.canary is None or depot_id not in self.canary.cohort:
            return replace(self, canary=None)
        return SavedInputs(self.canary.panel, self.canary.bundle, self.canary.strangers, self.staffing, self.shares)

    def among(self, depot_ids: Sequence[str]) -> SavedInputs:
        """Inputs of only these depots, in this order."""
        rows, shares, canary = [self.panel.depot_ids.index(name) for name in depot_ids], self.shares, self.canary
        return replace(
            self,
            panel=self.panel.among(depot_ids),
            shares=shares and ShiftShares(shares.shares[:, rows], shares.days[rows]),
            canary=canary and replace(canary, panel=canary.panel.among(depot_ids)),
        )


@dataclass(frozen=True)
class CanaryInputs:
    """Inputs of the canary, and the depots that see its numbers."""

    panel: SavedPanel  # the champion's own if both have the same inputs
    bundle: str
    cohort: frozenset[str]
    strangers: frozenset[str]


def trim_panel(panel: Panel, lookback: int = LOOKBACK) -> SavedPanel:
    """Last days of a panel, as a model sees them."""
    days = min(lookback, panel.history)
    demand, open_ = panel.past(days)
    start = panel.history - days
    return SavedPanel(
        panel.depot_ids,
        panel.days[start:],
        panel.horizon,
        demand,
        open_.astype(bool),
        panel.covariates[:, start:],
        panel.calendar[:, start:],
        panel.calendar_group,
        panel.statics,
        panel.encoding,
        panel.calendar_names,
        panel.attributes,
        doubt=panel.doubt_of_level,
    )


def too_large(inputs: SavedInputs) -> str | None:
    """Sentence about a fleet too large for the page; None if the inputs fit."""
    panels = {id(panel): panel for panel in (inputs.panel, inputs.canary.panel if inputs.canary else inputs.panel)}
    size = sum(np.asarray(getattr(panel, name)).nbytes for panel in panels.values() for name in _ARRAYS)
    if size <= MAX_BYTES:
        return None
    return sentence(
        N_(
            "The night's inputs have {size} bytes, more than the page's limit ({most}): what-ifs and immediate "
            "overrides are not available"
        ),
        size=size,
        most=MAX_BYTES,
    )


def write(folder: Path, inputs: SavedInputs) -> str:
    """Save inputs under the sha256 of their file, and return this name. Raises DeskError if it is
    not writable."""
    arrays = _arrays_of(inputs.panel)
    if inputs.shares is not None:
        arrays |= {SHARES: inputs.shares.shares, SHARE_DAYS: inputs.shares.days}
    metadata = _metadata_of(inputs.panel) | {
        "bundle": inputs.bundle,
        "strangers": sorted(inputs.strangers),
        "staffing": inputs.staffing.model_dump(mode="json") if inputs.staffing else None,
    }
    if (canary := inputs.canary) is not None:
        differs = canary.panel is not inputs.panel
        metadata["canary"] = {
            "bundle": canary.bundle,
            "cohort": sorted(canary.cohort),
            "strangers": sorted(canary.strangers),
            "panel": _metadata_of(canary.panel) if differs else None,
        }
        arrays |= {f"{_CANARY}{name}": array for name, array in _arrays_of(canary.panel).items()} if differs else {}
    content = _pack(arrays, metadata)
    name = artifact.digest(content)
    try:
        artifact.write(_file(folder, name), content)
    except OSError as error:
        raise DeskError(f"the night's inputs cannot be kept in {folder}: {error.strerror}") from error
    return name


def read(folder: Path, name: str | None) -> SavedInputs:
    """Read inputs by name. Raises DeskError if they are missing or differ from what was written."""
    if name is None:
        raise DeskError("this publication did not keep what it was made from; the next night does")
    try:
        content = _file(folder, name).read_bytes()
    except OSError as error:
        raise DeskError(
            f"what this publication was made from cannot be read on this machine: {error.strerror}: "
            f"{_file(folder, name)}; wanted the folder `state` of the night beside the page"
        ) from error
    if artifact.digest(content) != name:
        raise DeskError(f"{_file(folder, name)} is not what the night wrote; the next night writes another one")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        metadata = json.loads(arrays["says"].tobytes())
        saved_arrays = {key: arrays[key] for key in arrays.files if key != "says"}
        shares = ShiftShares(arrays[SHARES], arrays[SHARE_DAYS]) if SHARES in arrays else None
    panel = _panel_of(saved_arrays, metadata)
    staffing = Staffing.model_validate(metadata["staffing"]) if metadata["staffing"] else None
    canary = None
    if (about := metadata.get("canary")) is not None:
        its_panel = _panel_of(saved_arrays, about["panel"], _CANARY) if about["panel"] else panel
        canary = CanaryInputs(its_panel, about["bundle"], frozenset(about["cohort"]), frozenset(about["strangers"]))
    return SavedInputs(panel, metadata["bundle"], frozenset(metadata["strangers"]), staffing, shares, canary)


def _arrays_of(panel: SavedPanel) -> dict[str, Any]:
    arrays = {name: np.asarray(getattr(panel, name)) for name in _ARRAYS}
    doubt = {} if panel.doubt is None else {_DOUBT: panel.doubt}
    return arrays | {"days": arrays["days"].astype(np.int64)} | doubt


def _metadata_of(panel: SavedPanel) -> dict[str, Any]:
    return {
        "depot_ids": panel.depot_ids,
        "horizon": panel.horizon,
        "encoding": panel.encoding.to_json(),
        "calendar_names": panel.calendar_names,
        "attributes": dict(panel.attributes),
    }


def _panel_of(saved_arrays: Mapping[str, Any], metadata: Mapping[str, Any], prefix: str = "") -> SavedPanel:
    arrays = {name: saved_arrays[f"{prefix}{name}"] for name in _ARRAYS}
    arrays["days"] = arrays["days"].astype("datetime64[D]")
    return SavedPanel(
        depot_ids=tuple(metadata["depot_ids"]),
        horizon=metadata["horizon"],
        encoding=Encoding.from_json(metadata["encoding"]),
        calendar_names=tuple(metadata["calendar_names"]),
        attributes={key: tuple(values) for key, values in metadata["attributes"].items()},
        doubt=saved_arrays.get(f"{prefix}{_DOUBT}"),
        **arrays,
    )


def prune(folder: Path, published: Collection[str]) -> None:
    """Delete the files that no publication in the ledger names (garbage collection)."""
    for file in folder.glob("*.npz"):
        if file.stem not in published:
            file.unlink(missing_ok=True)


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.npz"


def _pack(arrays: Mapping[str, Any], metadata: Mapping[str, Any]) -> bytes:
    """Pack an .npz file with a fixed date, so that equal inputs have equal names."""
    out = io.BytesIO()
    metadata_bytes = np.frombuffer(json.dumps(metadata, sort_keys=True).encode(), np.uint8)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in {**arrays, "says": metadata_bytes}.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            archive.writestr(info, member.getvalue(), zipfile.ZIP_DEFLATED, 1)
    return out.getvalue()
