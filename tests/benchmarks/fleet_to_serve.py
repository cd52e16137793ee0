"""A published pipeline with any number of depots, the inputs of the sample, and an untrained model."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.report import ROOT

NAME = "fleet"
AS_OF = datetime(2026, 11, 1, 12, tzinfo=UTC)  # the day after the sample's last day


def published_fleet(folder: Path, depots: int) -> tuple[Path, dict[str, Any]]:
    """Publish a forecast for a number of depots; return the pipeline file, and the raw inputs of
    one depot."""
    from forecaster.config import load
    from forecaster.ledger.publication import Publication, PublishedDay, PublishedDepot
    from forecaster.ledger.store import Ledger
    from forecaster.model.export import to_onnx as export
    from forecaster.planning import saved_inputs
    from forecaster.serving import bundle, keys
    from forecaster.serving.predict import Predictor
    from tests.benchmarks.serving import _untrained

    folder.mkdir(parents=True)
    file = folder / "pipeline.yaml"
    file.write_text(f"name: {NAME}\ndemand: {{source: {{kind: csv, path: none.csv}}}}\nstate: var\n", "utf-8")
    spec, panel, now = load(file), _panel(folder, depots), datetime.now(UTC)
    candidate = _untrained(panel)
    graph, weights = export.to_graph(candidate), export.weights(candidate)
    signer = keys.signer(spec.paths.folder)
    path = bundle.write(spec.paths.bundles, graph, weights, export.about(candidate), signer)
    predictor = Predictor(bundle.load(path, spec.paths.folder))
    forecast, trimmed = predictor(panel), saved_inputs.trim_panel(panel, predictor.bundle.lookback)
    inputs = saved_inputs.SavedInputs(trimmed, path.name, frozenset(), None)
    rows = [
        PublishedDepot(
            depot,
            tuple(
                PublishedDay(day, step + 1, opened, tuple(values))
                for step, (day, opened, values) in enumerate(zip(forecast.target_dates, is_open, numbers, strict=True))
            ),
        )
        for depot, is_open, numbers in zip(
            forecast.depot_ids, forecast.open.tolist(), forecast.quantiles.tolist(), strict=True
        )
    ]
    publication = Publication(
        pipeline=NAME, run_id="first", published_at=now, as_of=AS_OF, cutoff=panel.cutoff, horizon=panel.horizon,
        tier="fresh", model=NAME, timezone="UTC", levels=forecast.levels, depots=tuple(rows), bundle_digest=path.name,
        desk=saved_inputs.write(spec.paths.saved_inputs, inputs),
    )  # fmt: skip
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.start_run("first", pipeline=NAME, as_of=AS_OF, spec_digest=spec.digest)
        ledger.promote(NAME, run_id="first", bundle_digest=path.name, by="bench", reason="measured")
        ledger.publish(publication)
    arrays = panel.window(predictor.bundle.lookback, slice(0, 1))
    # JSON that every server accepts has no NaN.
    return file, {name: np.nan_to_num(x) for name, x in arrays.items() if 0 not in x.shape}


def _panel(folder: Path, depots: int) -> Any:
    """Return the sample's depots with their covariates, repeated up to the given number."""
    from dataclasses import replace

    from forecaster.config import load
    from forecaster.demand.history.point_in_time import read_as_of
    from forecaster.demand.ingest import ingest
    from forecaster.demand.panel import build as panels

    shutil.copytree(ROOT / "data" / "harbor_fleet", folder / "sample")
    file = folder / "sample" / "pipeline.yaml"
    file.write_text(re.sub(r"(?m)^state: .*$", f"state: {folder / 'sample-state'}", file.read_text("utf-8")), "utf-8")
    spec = load(file)
    ingest(spec, now=AS_OF)
    panel = panels.build(read_as_of(spec, as_of=AS_OF), spec)
    rows = np.arange(depots) % len(panel.depot_ids)
    repeated = panel.among([panel.depot_ids[row] for row in rows])
    return replace(repeated, depot_ids=tuple(f"D{number}" for number in range(depots)))
