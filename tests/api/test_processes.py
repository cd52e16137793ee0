"""Several forecasters in one process, and one in several processes: forked, and spawned with its
fitted model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.long

PROGRAM = """
import multiprocessing
import numpy as np
import pandas as pd
from forecaster import Forecaster, TrainingError

TINY = {
    "model": {"layers": 1, "hidden": 4, "boosted": False},
    "training": {"members": 1, "epochs": 1},
    "backtest": {"days": 7},
}
DAYS = pd.date_range("2025-10-01", "2026-01-31")


def frame(level):
    random = np.random.default_rng(level)
    return pd.DataFrame({"depot_id": "a", "date": DAYS, "demand": random.poisson(level, len(DAYS))})


def make(**arguments):
    return Forecaster(quantiles=(0.1, 0.5, 0.9), progress=False, options=TINY, **arguments)


def fit_again(model, queue):
    try:
        make().fit(frame(50))
    except TrainingError as error:
        queue.put(str(error))


def predict(model, queue):
    queue.put(model.predict()["forecast"].to_numpy())


def in_child(method, work, model):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=work, args=(model, queue))
    child.start()
    said = queue.get(timeout=120)
    child.join()
    return said


if __name__ == "__main__":
    first = make(seed=1).fit(frame(50))
    before = first.predict()["forecast"].to_numpy()
    again = make(seed=1).fit(frame(50)).predict()["forecast"].to_numpy()
    second = make(seed=2).fit(frame(900))
    assert (before == again).all(), "the seed decides, and nothing that another left"
    assert (first.predict()["forecast"] == before).all()
    assert second.predict()["forecast"].min() > 300
    for method in ("fork", "spawn"):
        np.testing.assert_allclose(in_child(method, predict, first), before, rtol=1e-4)
    assert "wanted one of its own: multiprocessing.get_context('spawn')" in in_child("fork", fit_again, first)
"""


def test_forecasters_are_independent_and_work_in_other_processes(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    process = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert process.returncode == 0, process.stderr
    assert process.stdout == ""
