"""The walls hold: each forbidden import is found, and a test stays on this machine."""

from __future__ import annotations

import importlib
import shutil
import socket
import ssl
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("forecaster", "flows", "dashboards")


def broken_walls(house: Path) -> list[str]:
    """The names of the contracts that the packages in `house` break."""
    lint = Path(sys.executable).with_name("lint-imports")
    process = subprocess.run(
        [lint, "--no-cache", "--no-logo"], cwd=house, capture_output=True, text=True, timeout=60, check=False
    )
    assert "Contracts" in process.stdout, process.stdout + process.stderr
    return [line.partition(" BROKEN")[0] for line in process.stdout.splitlines() if " BROKEN" in line]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the packages that a test may damage."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_no_wall_is_broken(house: Path) -> None:
    assert broken_walls(house) == []


FLOORS = "The floors of the package"
ENDS = "Both ends of the line work without the middle"
JAX = "Only forecaster.model imports JAX"
MLFLOW = "Only forecaster.registry imports MLflow"
PREFECT = "flows alone imports Prefect"
PAGE = "The page reads the ledger and nothing heavier"
PAGE_FLOORS = "The floors of the page"
VALUES = "What passes between the packages is a value"
INFERENCE_FLOORS = "The floors of the inference service"
NO_INFERENCE = "The page does without the inference service"
SOURCE = "From a source to a panel"


@pytest.mark.parametrize(
    ("module", "line", "wall"),
    [
        ("forecaster/demand", "import forecaster.publishing.publish", FLOORS),
        ("forecaster/core", "import forecaster.lake", FLOORS),
        ("forecaster/training", "import forecaster.publishing", FLOORS),  # beside it, on the same floor
        ("forecaster/publishing", "import jax", ENDS),
        ("forecaster/publishing/publish.py", "import forecaster.training.backtest", ENDS),
        ("forecaster/demand", "def late():\n    import flax.nnx", ENDS),
        ("forecaster/serving", "import optax", ENDS),
        ("forecaster/staffing/newsvendor.py", "import prefect", ENDS),
        ("forecaster/planning", "import forecaster.registry.outbox", ENDS),
        ("forecaster/training", "import mlflow.onnx", MLFLOW),
        ("forecaster/registry/outbox.py", "import mlflow", MLFLOW),
        ("forecaster/training/backtest.py", "import jax", JAX),
        ("flows/steps.py", "import optax", JAX),
        ("forecaster/operations", "from prefect import flow", PREFECT),
        ("forecaster/training", "import flows", "The package never imports the flows or the dashboards"),
        ("dashboards/ops", "import forecaster.demand.sample.simulate", PAGE),
        ("forecaster/serving", "import forecaster.model", VALUES),
        ("dashboards/ops/reading/store.py", "import dashboards.ops.views.depot", PAGE_FLOORS),
        ("dashboards/ops/formatting/charts.py", "def late():\n    import dashboards.ops.routes.pages", PAGE_FLOORS),
        ("dashboards/inference/served_models.py", "import dashboards.inference.app", INFERENCE_FLOORS),
        ("dashboards/inference/nights.py", "import forecaster.demand.sample.simulate", PAGE),
        ("dashboards/ops/routes/api.py", "import dashboards.inference.tensors", NO_INFERENCE),
        ("forecaster/demand/history", "import forecaster.demand.validation.contract", SOURCE),
        ("forecaster/demand/parsing.py", "import forecaster.demand.ingest", SOURCE),
    ],
)
def test_a_broken_wall_is_named(house: Path, module: str, line: str, wall: str) -> None:
    path = house / module
    with (path if path.is_file() else path / "__init__.py").open("a") as file:
        file.write(f"\n\n{line}\n")
    assert any(name.startswith(wall) for name in broken_walls(house))


def test_every_wall_is_tried_by_a_planted_import() -> None:
    walls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    [planted] = [mark for mark in test_a_broken_wall_is_named.pytestmark if mark.name == "parametrize"]
    tried = [wall for _, _, wall in planted.args[1]]
    assert [wall["name"] for wall in walls if not any(wall["name"].startswith(name) for name in tried)] == []


@pytest.mark.parametrize(
    ("container", "wall"),
    [("forecaster", FLOORS), ("dashboards/ops", PAGE_FLOORS), ("dashboards/inference", INFERENCE_FLOORS)],
)
def test_a_new_folder_must_choose_a_floor(house: Path, container: str, wall: str) -> None:
    (house / container / "attic").mkdir()
    (house / container / "attic" / "__init__.py").write_text('"""A room without a floor."""\n', "utf-8")
    assert any(name.startswith(wall) for name in broken_walls(house))


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "example.invalid"])
def test_a_test_cannot_leave_this_machine(network_attempts: list[str], host: str) -> None:
    with pytest.raises(RuntimeError, match="no test may need more than this machine"):
        socket.create_connection((host, 80), timeout=1)
    assert network_attempts
    network_attempts.clear()


def test_nor_by_a_socket_of_its_own(network_attempts: list[str]) -> None:
    address = "192.0.2.1", 80
    context = ssl.create_default_context()
    with socket.socket() as plain, socket.socket() as inner, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        secured = context.wrap_socket(inner, server_hostname="example.invalid")
        for reach in (plain.connect, plain.connect_ex, secured.connect, partial(datagrams.sendto, b"", 0)):
            with pytest.raises(RuntimeError, match=r"'192\.0\.2\.1'; no test may need more than this machine"):
                reach(address)
        secured.close()
    assert network_attempts == [
        f"socket.{way} to '192.0.2.1'" for way in ("connect", "connect_ex", "connect", "sendto")
    ]
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
    loader = importlib.import_module("forecaster.model.network.losses").__loader__
    assert type(loader).__module__.startswith("jaxtyping")
