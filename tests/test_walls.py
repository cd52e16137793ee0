"""The walls hold: each forbidden import is found, and a test stays on this machine."""

from __future__ import annotations

import importlib
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("forecaster", "flows", "dashboards")


def broken_walls(house: Path) -> list[str]:
    """The names of the contracts that the packages in `house` break."""
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [lint, "--no-cache", "--no-logo"], cwd=house, capture_output=True, text=True, timeout=60, check=False
    )
    assert "Contracts" in done.stdout, done.stdout + done.stderr
    return [line.partition(" BROKEN")[0] for line in done.stdout.splitlines() if " BROKEN" in line]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the packages that a test may damage."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_no_wall_is_broken(house: Path) -> None:
    assert broken_walls(house) == []


@pytest.mark.parametrize(
    ("module", "line", "wall"),
    [
        ("forecaster/demand", "import jax", "What judges, serves and staffs needs no training library"),
        ("forecaster/serving", "def late():\n    import flax.nnx", "What judges, serves and staffs needs no training"),
        ("forecaster/staffing.py", "import optax", "What judges, serves and staffs needs no training library"),
        ("forecaster/model", "import prefect", "The model knows no orchestrator and no registry"),
        ("forecaster/stages", "import mlflow.onnx", "forecaster.registry alone imports MLflow"),
        ("forecaster/stages", "from prefect import flow", "flows alone imports Prefect"),
        ("forecaster/stages", "import flows", "The package never imports the flows or the dashboards"),
        ("dashboards/ops", "import forecaster.demand.simulate", "The page reads the ledger and nothing heavier"),
        ("forecaster/serving", "import forecaster.model", "What passes between the packages is a value"),
    ],
)
def test_a_broken_wall_is_named(house: Path, module: str, line: str, wall: str) -> None:
    path = house / module
    with (path if path.is_file() else path / "__init__.py").open("a") as file:
        file.write(f"\n\n{line}\n")
    assert any(name.startswith(wall) for name in broken_walls(house))


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "example.invalid"])
def test_a_test_cannot_leave_this_machine(network_attempts: list[str], host: str) -> None:
    with pytest.raises(RuntimeError, match="no test may need more than this machine"):
        socket.create_connection((host, 80), timeout=1)
    assert network_attempts
    network_attempts.clear()


def test_a_test_can_reach_this_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(("localhost", server.getsockname()[1]), timeout=5).close()


def test_jax_converts_no_types_and_stretches_no_ranks_by_itself() -> None:
    jax = pytest.importorskip("jax")
    assert (jax.config.jax_numpy_dtype_promotion, jax.config.jax_numpy_rank_promotion) == ("strict", "raise")
    with pytest.raises(ValueError, match="rank_promotion"):
        jax.numpy.ones((2, 2)) + jax.numpy.ones(2)


def test_a_wrong_shape_does_not_enter_the_model() -> None:
    """The packages under `forecaster.model` are checked because the hook stands before they are imported."""
    loader = importlib.import_module("forecaster.model.losses").__loader__
    assert type(loader).__module__.startswith("jaxtyping")
