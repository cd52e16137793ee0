"""Measure the worked example beside what became of it, Prophet and the seasonal naive, on the sample's last 30 days.

python -m tests.benchmarks.worked_example
"""

from __future__ import annotations

import tempfile
import time
from datetime import datetime

from forecaster.config import Spec, load
from forecaster.core.panel import Panel
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.panel import build as panels
from forecaster.evaluation import backtest, baselines
from forecaster.evaluation.backtest import Predictor
from forecaster.model.export import to_onnx
from forecaster.training import fit_candidate
from tests.benchmarks.report import ROOT, Figure, tell

SAMPLE = ROOT / "data" / "harbor_fleet"
RIVALS = {"prophet": "Prophet", "seasonal_naive": "seasonal naive"}


def main() -> None:
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("worked_example", "pipeline"):
            spec = spec_of(name, folder)
            panel = panel_of(spec)
            begun = time.perf_counter()
            predictor = to_onnx.forecaster(fit_candidate.train_and_calibrate(panel, spec))
            figures += _judged(
                "the worked example" if name == "worked_example" else "our default", predictor, panel, begun
            )
        before = panel.at(backtest.cutoffs(panel, spec.backtest.days)[0])
        for name, words in RIVALS.items():
            begun = time.perf_counter()
            figures += _judged(words, baselines.fit(name, before, tuple(spec.model.quantiles)), panel, begun)
    tell("worked_example", figures)


def spec_of(name: str, folder: str) -> Spec:
    """A pipeline file of the sample, with a lake and a state folder of its own in the folder."""
    return load(SAMPLE / f"{name}.yaml").model_copy(
        update={"state": f"{folder}/{name}", "lake": f"{folder}/{name}/lake"}
    )


def panel_of(spec: Spec) -> Panel:
    """What the night of `make run` knows of the sample."""
    now = datetime.fromisoformat("2026-11-01T03:15:00-05:00")  # the night that `make run` shows
    ingest(spec, now=now)
    return panels.build(read_as_of(spec, as_of=now), spec)


def _judged(name: str, predictor: Predictor, panel: Panel, begun: float) -> list[Figure]:
    fitted = time.perf_counter() - begun
    [scores] = backtest.run({name: predictor}, panel, 30).values()
    return [
        Figure(f"{name}: MAPE", 100 * scores.metrics["mape"], "%"),
        Figure(f"{name}: WAPE", 100 * scores.metrics["wape"], "%"),
        Figure(f"{name}: 80 % interval covers", 100 * scores.metrics["coverage"], "%"),
        Figure(f"{name}: to fit", fitted, "s"),
    ]


if __name__ == "__main__":
    main()
