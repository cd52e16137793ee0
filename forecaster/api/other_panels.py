"""Panel from which a fitted model forecasts if other readings, or known values of days ahead, are
given."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from forecaster.api.caller_terms import in_caller_terms
from forecaster.api.frames import OURS
from forecaster.api.pipeline_folder import (
    Frames,
    PipelineFolder,
    days_ahead,
    depots_of,
    frames_of,
    logger,
    strangers_in,
)
from forecaster.config import Spec
from forecaster.core.language.near_words import did_you_mean, nearest_word
from forecaster.core.panel import Encoding, Panel
from forecaster.core.terminal import count
from forecaster.demand import parsing
from forecaster.demand.panel.known_future.covariates import refuse_unknown_days
from forecaster.errors import SpecError


@dataclass(frozen=True)
class FittedOn:
    """Data that a model was fitted on: the content of its pipeline file, the frames, and the
    network's encoding."""

    content: Mapping[str, Any]
    frames: Frames
    encoding: Encoding
    logged: set[str]  # lines already logged

    @property
    def known_future(self) -> Sequence[str]:
        names: Sequence[str] = self.content.get("calendar", {}).get("known_future", ())
        return names


def other_panel(fitted: FittedOn, *, history: Any, future: Any) -> tuple[Panel, Frames]:
    """Panel in the model's own encoding, and its frames: `history` replaces the readings if given,
    and `future` is added to them. Depots missing from `history` are omitted.

    Raises SpecError for a frame that lacks a column or a covariate of a day ahead; NoUsableData if
    no row counts.
    """
    from forecaster.demand.panel.build import build

    frames, left_out = fitted.frames, pa.array([], pa.string())
    if history is not None:
        readings = frames_of(history, None, None, fitted.known_future, "history").readings
        _refuse_missing(readings.table, frames.covariates)
        left_out = pa.array(sorted(depots_of(frames.readings.table) - depots_of(readings.table)), pa.string())
        static, events = (_without(table, left_out) for table in (frames.static, frames.events))
        frames = Frames(readings, static, events)
    unknown_depots: list[str] = []
    with tempfile.TemporaryDirectory(prefix="forecaster-") as work, in_caller_terms(Path(work)):
        folder = PipelineFolder.create(Path(work), fitted.content, frames)
        if future is not None:
            table = _without(days_ahead(future, fitted.known_future, frames.covariates), left_out)
            unknown_depots = strangers_in(table, frames)
            folder.with_future(_without_counted_days(table, frames.readings.table, folder.spec, fitted.logged))
        knowledge, _ = folder.knowledge(fitted.logged)
        panel = build(knowledge, folder.spec, fitted.encoding)
    refuse_unknown_days(knowledge, panel, frames.covariates, unknown_depots)
    for depot in unknown_depots:  # possibly a typo
        hint = did_you_mean(nearest_word(depot, set(panel.depot_ids) - set(unknown_depots)))
        line = f"future: depot {depot!r} is in no row of the readings nor of static, and is not forecast{hint}"
        _log(line, fitted.logged)
    return panel, frames


def _without(table: Any, depots: pa.Array) -> Any:
    """Table without the rows of some depots, if it has a column of depots: in `static` they would
    otherwise become new depots without any data."""
    if table is None or OURS.depot_id not in table.column_names:
        return table
    return table.filter(pc.invert(pc.is_in(pc.utf8_trim_whitespace(table[OURS.depot_id]), value_set=depots)))


def _without_counted_days(future: pa.Table, readings: pa.Table, spec: Spec, logged: set[str]) -> pa.Table:
    """Drop rows of `future` for days with a count in the readings: the later empty count would
    otherwise replace it."""
    has_count = np.isfinite(parsing.numbers(_column(readings, OURS.demand)).to_numpy())
    is_counted = _depot_days(future, spec).isin(_depot_days(readings, spec)[has_count])
    if is_counted.any():
        rows = count(int(is_counted.sum()), "row")
        line = f"future: {rows} for days that have a count in the readings; the readings take precedence"
        _log(line, logged)
    return future.filter(pa.array(~is_counted))


def _depot_days(table: pa.Table, spec: Spec) -> pd.MultiIndex:
    """Depot and local day of each row, as the checks read them."""
    zone = ZoneInfo(spec.demand.date_zone) if spec.demand.date_zone else spec.zone
    notation = parsing.Notation.of(spec.demand.source)
    days = parsing.days(_column(table, OURS.date), zone, notation)
    return pd.MultiIndex.from_arrays([parsing.words(_column(table, OURS.depot_id)), days])


def _column(table: pa.Table, name: str) -> Any:
    return table[name].to_pandas()


def _refuse_missing(history: pa.Table, covariates: Sequence[str]) -> None:
    if missing := [name for name in covariates if name not in history.column_names]:
        names = ", ".join(f"'{name}'" for name in missing)
        raise SpecError(
            f"history: found the columns {', '.join(history.column_names)}; wanted {names} too, which the model was "
            "fitted with"
        )


def _log(line: str, logged: set[str]) -> None:
    if line not in logged:
        logged.add(line)
        logger.warning(line)
