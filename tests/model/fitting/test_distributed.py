"""Several hosts: their numbers, how they join, and that they train the same as one alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from forecaster.errors import SpecError, TrainingError
from forecaster.model.fitting import distributed
from forecaster.model.fitting.distributed import HostGroup
from forecaster.training import fit_candidate
from tests.panels import panel, quickly, spec
from tests.ports import free_port

ROOT = Path(__file__).parents[3]


def free_address() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.mark.parametrize("index", [2, -1])
def test_an_invalid_host_number_is_rejected(index: int) -> None:
    with pytest.raises(SpecError, match=f"this is host {index} of 2, wanted 0 to 1"):
        HostGroup("head:8476", 2, index)


def test_a_single_host_joins_nothing() -> None:
    distributed.join(None)
    distributed.join(HostGroup("head:8476", 1, 0))
    assert not jax.distributed.is_initialized()
    alone = panel()
    assert distributed.broadcast_panel(alone, spec()) is alone


def test_joining_after_jax_has_started_raises_training_error() -> None:
    jax.devices()
    with pytest.raises(TrainingError, match=r"host 0 of 2 could not join at 127\.0\.0\.1:1: "):
        distributed.join(HostGroup("127.0.0.1:1", 2, 0))


def test_a_panel_is_serialized_completely() -> None:
    original = panel()
    original.demand[0, 3] = np.nan
    received = distributed.panel_from_bytes(distributed.panel_to_bytes(original))
    for name in ("days", "demand", "open", "covariates", "calendar", "calendar_group", "statics"):
        np.testing.assert_array_equal(getattr(received, name), getattr(original, name))
        assert getattr(received, name).dtype == getattr(original, name).dtype
    assert (received.depot_ids, received.horizon, received.encoding) == (
        original.depot_ids,
        original.horizon,
        original.encoding,
    )
    assert (received.calendar_names, received.attributes) == (original.calendar_names, original.attributes)


TRAINED = """
import json, os, sys
from pathlib import Path
from forecaster.model.export import serialization
from forecaster.training import fit_candidate
from tests import cpus, forked
from tests.panels import panel, quickly, spec

address, folder, *seeds = sys.argv[1:]

def train(index):
    os.environ.update(cpus.environment(os.environ, 1))
    os.dup2(os.open(Path(folder) / f"complaint-{index}", os.O_CREAT | os.O_WRONLY), 2)
    hosts = {"coordinator": address, "count": 2}
    declared = spec(epochs=3, seed=int(seeds[index]), hosts=hosts)
    declared = declared.model_copy(update={"state": str(Path(folder) / "two")})
    with quickly(Path(folder) / f"programs-{index}"):
        if index:
            fit_candidate.assist(declared, index)
        else:
            declared = declared.with_lead_error({"promo": 0.5})  # which the first host has learned alone
            before = panel(5).at(fit_candidate.first_cutoff(panel(5), declared))
            trained = fit_candidate.train_uncalibrated(before, declared)
            candidate = serialization.from_bytes(serialization.to_bytes(trained))
            summary = fit_candidate.calibrated_before_backtest(candidate, before).summary
            history = [value for row in summary["history"] for value in row.values()]
            results = [history, summary["trust"], summary["calibration"]]
            (Path(folder) / "results.json").write_text(json.dumps(results))

processes = [forked.start(lambda: train(index)) for index in range(2)]
print(json.dumps([forked.end(process) for process in processes]))
"""


def trained(folder: Path, *seeds: int) -> list[int]:
    """Train on two hosts with these seeds; return their exit codes."""
    command = [sys.executable, "-c", TRAINED, free_address(), str(folder), *map(str, seeds)]
    process = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=500)
    codes: list[int] = json.loads(process.stdout.splitlines()[-1])
    return codes


@pytest.mark.long
def test_two_hosts_train_the_same_as_one_and_leave_its_checkpoint(tmp_path: Path) -> None:
    assert trained(tmp_path, 0, 0) == [0, 0]
    history, trust, calibration = json.loads((tmp_path / "results.json").read_text())
    declared = spec(epochs=3).model_copy(update={"state": str(tmp_path / "one")}).with_lead_error({"promo": 0.5})
    with quickly():
        alone = fit_candidate.train_and_calibrate(panel(5), declared).summary
    np.testing.assert_allclose(history, [value for row in alone["history"] for value in row.values()], rtol=1e-4)
    np.testing.assert_allclose(trust, alone["trust"], atol=0.06)
    np.testing.assert_allclose(calibration, alone["calibration"], rtol=0.05)
    assert all("3" in os.listdir(tmp_path / folder / "checkpoints") for folder in ("one", "two"))


@pytest.mark.long
def test_hosts_with_different_pipeline_files_do_not_train(tmp_path: Path) -> None:
    assert trained(tmp_path, 0, 1) == [1, 1]
    complaints = [(tmp_path / f"complaint-{index}").read_text() for index in range(2)]
    assert all("on hosts [1] `model`, `training`, `horizon`" in complaint for complaint in complaints)


def test_assisting_a_pipeline_file_without_hosts_is_rejected() -> None:
    with pytest.raises(SpecError, match=r"training\.hosts is not in the pipeline file"):
        fit_candidate.assist(spec(), 1)
