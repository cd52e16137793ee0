"""The real datasets as panels, each ingested by its own pipeline file."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from forecaster.config import Spec, data_rules, load
from forecaster.core.panel import Panel
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.panel import build as panels

ROOT = Path(__file__).resolve().parents[2]
NAMES = (
    "favorita_transactions",
    "recruit_restaurants",
    "rossmann",
    "chicago_l_stations",
    "muenster_bike_counters",
    "bayarea_bikeshare14",
    "nyc_taxi_apps_geo",
    "melbourne_pedestrians",
)


def folder() -> Path:
    """Return the folder of the datasets: FORECASTER_DATASETS, by default next to the checkout."""
    return Path(os.environ.setdefault("FORECASTER_DATASETS", str(ROOT.parent / "shared" / "datasets")))


def spec_of(name: str) -> Spec:
    """Return the dataset's pipeline; it keeps unusual counts, so that every model is scored on all
    actuals."""
    folder()
    spec = load(ROOT / "data" / "real" / f"{name}.yaml")
    severities = {rule: "warn" for rule in data_rules.RULES if {"warn"} <= set(data_rules.RULES[rule].may)}
    demand = spec.demand.model_copy(update={"rules": spec.demand.rules.model_copy(update={"severity": severities})})
    return spec.model_copy(update={"demand": demand})


def panel_of(name: str, horizon: int | None = None) -> Panel:
    """Return all depots up to the last day that at least half of them reported, with the pipeline's
    horizon or another."""
    with tempfile.TemporaryDirectory() as folder:
        spec = spec_of(name)
        spec = spec.model_copy(update={"lake": folder, "horizon": horizon or spec.horizon})
        ingest(spec, now=datetime.now(UTC))
        panel = panels.build(read_as_of(spec, as_of=datetime.now(UTC)), spec)
    is_known = np.isfinite(panel.demand) | ~panel.open[:, : panel.history]
    most = np.flatnonzero(is_known.mean(axis=0) >= 0.5)[-1]
    return panel.at(panel.cutoff - timedelta(days=int(panel.history - 1 - most)))
