"""Export to ONNX: from the judged model to a signed bundle on disk with the same forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from forecaster.config import Spec
from forecaster.core.forecast import Candidate, Scores
from forecaster.core.knowledge import Knowledge
from forecaster.core.panel import Panel
from forecaster.demand.panel import build, carried_calendars
from forecaster.demand.panel.event_scope import event_scope
from forecaster.model.export import to_onnx
from forecaster.model.network.features import LOOKBACK
from forecaster.reports import run_notes
from forecaster.reports.run_notes import MeasuredDrift
from forecaster.serving import bundle as bundles
from forecaster.serving import bundle_archive, encryption, keys
from forecaster.training import onnx_cache, parity
from forecaster.training.backtest import CANDIDATE, CHAMPION, PRIOR
from forecaster.training.parity import Agreement


@dataclass(frozen=True)
class ExportedBundle:
    """A bundle on disk that forecasts the same as the trained model."""

    folder: Path
    parity: Agreement  # of ONNX, NumPy and JAX


def to_bundle(
    candidate: Candidate,
    panel: Panel,
    scores: Mapping[str, Scores],
    knowledge: Knowledge,
    spec: Spec,
    *,
    quick: bool = False,
    drift: MeasuredDrift | None = None,
) -> ExportedBundle:
    """Export the candidate, compare ONNX and NumPy with JAX, and only then write the bundle, as a
    folder and as a file.

    `quick` skips JAX, which would compile the model only for this; the model card quotes `drift`.
    Raises ExportError if the results differ, BundleError if the bundle would be rejected: such a
    model never becomes champion.
    """
    graph, weights = onnx_cache.graph(candidate, spec), to_onnx.weights(candidate)
    agreement = parity.agree(candidate, graph, bundles.npz(weights), to_onnx.about(candidate), panel, quick=quick)
    about = {
        **to_onnx.about(candidate),
        "pipeline": spec.name,
        "spec_digest": spec.digest,
        "lake_versions": {table: knowledge.versions[table] for table in ("demand", "depots", "events")},
        "cutoff": str(panel.cutoff),
        "depots": list(panel.depot_ids),
        "calendars": holiday_calendars(panel, spec),
        "scores": {
            name: {key: float(f"{value:.6g}") for key, value in of_model.metrics.items() if value == value}
            for name, of_model in scores.items()
            if name != CHAMPION
        },
        "card": run_notes.card(scores.get(CANDIDATE, scores.get(PRIOR)), panel, drift),
    }
    cipher = encryption.cipher_to_write(spec.paths.folder) if spec.encrypt_bundles else None
    folder = bundles.write(spec.paths.bundles, graph, weights, about, keys.signer(spec.paths.folder), cipher)
    bundles.load(bundle_archive.pack(folder), spec.paths.folder)
    bundles.load(folder, spec.paths.folder)
    return ExportedBundle(folder, agreement)


def holiday_calendars(panel: Panel, spec: Spec) -> dict[str, Any]:
    """Return the holiday calendars of the panel's depots, for forecasts without a table of
    holidays."""
    depots = pd.DataFrame({**panel.attributes, "depot_id": list(panel.depot_ids)})
    pairs, group = build.holiday_calendars(event_scope(depots, spec), spec)
    return carried_calendars.carry(pairs, group, panel.cutoff, LOOKBACK)
