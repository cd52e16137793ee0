"""Compare the worked example with today's default model, Prophet and the seasonal naive, on the
sample's last 30 days.

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
from tests.benchmarks.report import ROOT, Figure, write_report

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
    write_report("worked_example", figures)


def spec_of(name: str, folder: str) -> Spec:
    """Return the spec of a pipeline file of the sample, with its own lake and state folder in
    `folder`."""
    return load(SAMPLE / f"{name}.yaml").model_copy(
        update={"state": f"{folder}/{name}", "lake": f"{folder}/{name}/lake"}
    )


def panel_of(spec: Spec) -> Panel:
    """Return the panel that the run of `make run` knows of the sample."""
    now = datetime.fromisoformat("2026-11-01T03:15:00-05:00")  # as of the run that `make run` shows
    ingest(spec, now=now)
    return panels.build(read_as_of(spec, as_of=now), spec)


def _judged(name: str, predictor: Predictor, panel: Panel, begun: float) -> list[Figure]:
    fitted = time.perf_counter() - begun
    [scores] = backtest.run({name: predictor}, panel, 30).values()
    return [
        Figure(f"{name}: MAPE", 100 * scores.metrics["mape"], "%"),
        Figure(f"{name}: WAPE", 100 * scores.metrics["wape"], "%"),
        Figure(f"{name}: coverage of the 80 % interval", 100 * scores.metrics["coverage"], "%"),
        Figure(f"{name}: time to fit", fitted, "s"),
    ]


if __name__ == "__main__":
    main()
