"""Several hosts: who they are, how they join, and that they train what one trains alone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from forecaster.errors import SpecError, TrainingError
from forecaster.model import hosts
from forecaster.model.hosts import Hosts
from forecaster.stages import learn
from tests import cpus
from tests.panels import panel, quickly, spec

ROOT = Path(__file__).parents[2]


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        env=cpus.environment(os.environ, 1),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.parametrize("index", [2, -1])
def test_a_host_that_cannot_be_is_refused(index: int) -> None:
    with pytest.raises(SpecError, match=f"this is host {index} of 2, wanted 0 to 1"):
        Hosts("head:8476", 2, index)


def test_alone_there_is_nothing_to_join() -> None:
    hosts.join(None)
    hosts.join(Hosts("head:8476", 1, 0))
    assert not jax.distributed.is_initialized()
    given = panel()
    assert hosts.agreed(given, spec()) is given


def test_joining_after_jax_has_started_is_our_error() -> None:
    jax.devices()
    with pytest.raises(TrainingError, match=r"host 0 of 2 could not join at 127\.0\.0\.1:1: "):
        hosts.join(Hosts("127.0.0.1:1", 2, 0))


def test_a_panel_travels_whole() -> None:
    given = panel()
    given.demand[0, 3] = np.nan
    came = hosts.unpacked(hosts.packed(given))
    for name in ("days", "demand", "open", "covariates", "calendar", "calendar_group", "statics"):
        np.testing.assert_array_equal(getattr(came, name), getattr(given, name))
        assert getattr(came, name).dtype == getattr(given, name).dtype
    assert (came.depot_ids, came.horizon, came.encoding) == (given.depot_ids, given.horizon, given.encoding)
    assert (came.calendar_names, came.attributes) == (given.calendar_names, given.attributes)


TRAINED = """
import json, sys
from forecaster.stages import learn
from tests.panels import panel, quickly, spec

address, index, state, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
told = spec(epochs=3, members=2, batch_depots=16, seed=seed, hosts={"coordinator": address, "count": 2})
told = told.model_copy(update={"state": state})
with quickly():
    if index:
        learn.assist(told, index)
    else:
        summary = learn.fit(panel(20), told).summary
        history = [value for row in summary["history"] for value in row.values()]
        print(json.dumps([history, summary["trust"], summary["calibration"]]))
"""


def test_two_hosts_train_what_one_trains_alone_and_leave_its_checkpoint(tmp_path: Path) -> None:
    address = free_address()
    both = [start(TRAINED, address, str(index), str(tmp_path / "two"), "0") for index in range(2)]
    said = [host.communicate(timeout=500)[0] for host in both]
    assert [host.returncode for host in both] == [0, 0]
    told = spec(epochs=3, members=2, batch_depots=16).model_copy(update={"state": str(tmp_path / "one")})
    with quickly():
        alone = learn.fit(panel(20), told).summary
    history, trust, calibration = json.loads(said[0].splitlines()[-1])
    np.testing.assert_allclose(history, [value for row in alone["history"] for value in row.values()], rtol=1e-4)
    np.testing.assert_allclose(trust, alone["trust"], atol=0.06)
    np.testing.assert_allclose(calibration, alone["calibration"], rtol=0.05)
    assert all("3" in os.listdir(tmp_path / folder / "checkpoints") for folder in ("one", "two"))


def test_hosts_that_were_told_different_things_do_not_train(tmp_path: Path) -> None:
    address = free_address()
    both = [start(TRAINED, address, str(index), str(tmp_path), str(index)) for index in range(2)]
    complaints = [host.communicate(timeout=300)[1] for host in both]
    assert [host.returncode for host in both] == [1, 1]
    assert all("on hosts [1] `model`, `training`, `horizon`" in each for each in complaints)


def test_a_pipeline_file_without_hosts_needs_no_assistance() -> None:
    with pytest.raises(SpecError, match=r"training\.hosts is not in the pipeline file"):
        learn.assist(spec(), 1)
