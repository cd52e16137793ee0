"""Kill a run at the boundaries of its stages and within stages; each run gets further than the one
before.

Called by a test as a separate program: children are forked from it before any thread runs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot  # noqa: F401 (what a night imports is there before the first fork)
import pandas as pd
import pandera.pandas

import flows.steps
import forecaster.model.export.exporter  # noqa: F401
from flows import lines
from flows.night import Night
from forecaster.demand.panel import build as panels
from forecaster.evaluation import gate
from forecaster.lake import Lake
from forecaster.ledger.store import Ledger
from forecaster.publishing import predict
from forecaster.registry import mlflow_registry
from forecaster.training import fit_candidate, train  # noqa: F401
from tests.flows.tiny import NIGHT, pipeline_for_prefect
from tests.forked import child, die

STAGES = ("ingest", "panel", "train", "backtest", "gate", "export", "promote", "predict", "record", "register")


def before(owner: Any, name: str, when: Callable[..., bool] = lambda *_, **__: True) -> Callable[[], None]:
    """Die at a call, before it does anything."""

    def patch() -> None:
        real = getattr(owner, name)

        def dying(*arguments: Any, **keywords: Any) -> Any:
            if when(*arguments, **keywords):
                die()
            return real(*arguments, **keywords)

        setattr(owner, name, dying)

    return patch


def at_boundary(stage: str, *, ended: bool) -> Callable[[], None]:
    def patch() -> None:
        real = Night.stage

        @contextmanager
        def dying(self: Night, name: str) -> Iterator[None]:
            if name == stage and not ended:
                die()
            with real(self, name):
                yield
            if name == stage:
                die()

        Night.stage = dying  # type: ignore[method-assign]

    return patch


def within_training() -> None:
    """Kill the run once its training process has reported an epoch."""
    real = train._run_child

    def dying(panel: bytes, spec: Any, file: Path, profile: Any, hears: train.Listeners) -> Any:
        return real(panel, spec, file, profile, replace(hears, on_epoch=lambda _: die()))

    train._run_child = dying


def within_export() -> None:
    """Die before the second file of a bundle is synced to disk."""
    real, calls = os.fsync, [0]

    def dying(descriptor: int) -> None:
        if "/.bundle-" in os.readlink(f"/proc/self/fd/{descriptor}"):
            calls[0] += 1
            if calls[0] == 2:
                die()
        real(descriptor)

    os.fsync = dying


def within_prediction() -> None:
    """Die when the archive has the forecasts but the ledger does not; the prediction runs in this
    process."""
    before(Ledger, "publish")()

    def here(self: Night) -> Any:
        return predict.predict(self.spec, as_of=self.as_of, bundle=None, run_id=self.run_id, note=None)

    Night.predict_in_its_own_process = here  # type: ignore[method-assign]


POINTS: dict[str, Callable[[], None]] = {
    "before ingest": at_boundary("ingest", ended=False),
    "within ingest": before(Lake, "append", lambda _, table, rows: table == "demand"),
    "after ingest": at_boundary("ingest", ended=True),
    "within panel": before(panels, "build"),
    "after panel": at_boundary("panel", ended=True),
    "within train": within_training,
    "after train": at_boundary("train", ended=True),
    "within backtest": before(Lake, "append", lambda _, table, rows: table == "scores"),
    "after backtest": at_boundary("backtest", ended=True),
    "within gate": before(gate, "judge"),
    "after gate": at_boundary("gate", ended=True),
    "within export": within_export,
    "after export": at_boundary("export", ended=True),
    "within promote": before(Night, "promote"),
    "after promote": at_boundary("promote", ended=True),
    "within predict": within_prediction,
    "after predict": at_boundary("predict", ended=True),
    "within record": before(Path, "replace", lambda self, to: Path(to).parent.name == "registry_waiting"),
    "after record": at_boundary("record", ended=True),
    "within register": before(mlflow_registry.Registry, "log"),
    "after register": at_boundary("register", ended=True),
}


def night(file: Path, trained: Path) -> int:
    """Run the line unchanged; log each training process that starts and ends in a file."""
    real = train._run_child

    def counted(*arguments: Any) -> Any:
        with trained.open("a") as out:
            out.write("started\n")
        output = real(*arguments)
        with trained.open("a") as out:
            out.write("ended\n")
        return output

    train._run_child = counted
    begun = Night.begin(str(file), NIGHT)
    return begun.run(lambda: lines.nightly(begun, flows.steps)).exit_code


def main() -> None:
    """Run `killed.py FOLDER [POINT...]`: kill at these points, or at all, and print the results as
    JSON."""
    folder, points = Path(sys.argv[1]), sys.argv[2:] or POINTS
    pandera.pandas.DataFrameSchema({}).validate(pd.DataFrame())  # imports its dependencies on the first call
    file, trained = pipeline_for_prefect(folder), folder / "trained"
    trained.touch()
    died = {}
    for name in points:

        def work(patch: Callable[[], None] = POINTS[name]) -> None:
            patch()
            night(file, trained)

        died[name] = child(work)
    last = child(lambda: os._exit(night(file, trained)))
    print(json.dumps({"died": died, "last": last, "trained": trained.read_text().split()}))


if __name__ == "__main__":
    main()
