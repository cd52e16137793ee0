"""Import contracts hold, each forbidden import is reported, and tests stay on this machine."""

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


LAYERS = "Layers of the package"
ENDS = "Ingestion and publication do not depend on training"
JAX = "Only forecaster.model imports JAX"
MLFLOW = "Only forecaster.registry imports MLflow"
PREFECT = "Only flows imports Prefect"
NEITHER = "The package imports neither flows nor dashboards"
PAGE = "The page and inference import no training code and no pandas"
PAGE_LAYERS = "Layers of the page"
VALUES = "Packages exchange values and are independent"
INFERENCE_LAYERS = "Layers of the inference service"
SOURCE = "Layers of demand"
CONTAINERS = ("forecaster", "dashboards/ops", "dashboards/inference", "dashboards/start")


def lint(folder: Path) -> str:
    """Output of import-linter for the packages in `folder`."""
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert "Contracts" in process.stdout, process.stdout + process.stderr
    return process.stdout


def broken_contracts(output: str) -> set[str]:
    """Names of the contracts that import-linter reports as broken."""
    return {line.partition(" BROKEN")[0] for line in output.splitlines() if " BROKEN" in line}


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the packages that a test may change."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


PLANTED = [
    ("forecaster/demand", "import forecaster.publishing.publish", LAYERS),
    ("forecaster/core", "import forecaster.lake", LAYERS),
    ("forecaster/training", "import forecaster.publishing", LAYERS),  # in the same layer
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
    ("forecaster/training", "import flows", NEITHER),
    ("dashboards/ops", "import forecaster.demand.sample.simulate", PAGE),
    ("forecaster/serving", "import forecaster.model", VALUES),
    ("dashboards/ops/reading/store.py", "import dashboards.ops.views.depot", PAGE_LAYERS),
    ("dashboards/ops/formatting/charts.py", "def late():\n    import dashboards.ops.routes.pages", PAGE_LAYERS),
    ("dashboards/inference/served_models.py", "import dashboards.inference.app", INFERENCE_LAYERS),
    ("dashboards/inference/nights.py", "import forecaster.demand.sample.simulate", PAGE),
    ("dashboards/start/folder.py", "import dashboards.start.nights", "Layers of the guide"),
    ("forecaster/demand/history", "import forecaster.demand.validation.contract", SOURCE),
    ("forecaster/demand/parsing.py", "import forecaster.demand.ingest", SOURCE),
    ("flows/lines.py", "import forecaster.training.worthwhile", "Plug-in: worthwhile"),
    ("flows/night.py", "import flows.orchestration.training_hosts", "Plug-in: hosts"),
    ("flows/steps.py", "import forecaster.publishing.groups", "Plug-in: groups"),
    ("forecaster/training/train.py", "import forecaster.model.prior.store", "Plug-in: prior"),
    ("flows/night.py", "import forecaster.ledger.trials.canaries", "Plug-in: canary"),
    ("dashboards/ops/server.py", "import dashboards.ops.portal.app", "Plug-in: portal"),
    ("dashboards/ops/routes/api.py", "import dashboards.inference.tensors", "Plug-in: inference"),
    ("forecaster/publishing/publish.py", "import forecaster.staffing.people", "Plug-in: people"),
    ("forecaster/staffing/rosters.py", "import forecaster.staffing.shifts.shift_crews", "Plug-in: shifts"),
    ("forecaster/publishing/publish.py", "import forecaster.planning.schedules", "Plug-in: notice"),
]


def test_no_contract_is_broken(copied: Path) -> None:
    assert broken_contracts(lint(copied)) == set()


def test_each_planted_import_is_reported_with_its_contract(copied: Path) -> None:
    for module, line, _ in PLANTED:
        path = copied / module
        with (path if path.is_file() else path / "__init__.py").open("a") as file:
            file.write(f"\n\n{line}\n")
    for container in CONTAINERS:
        (copied / container / "attic").mkdir()
        (copied / container / "attic" / "__init__.py").write_text('"""A package without a layer."""\n', "utf-8")
    output = lint(copied)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    names = {contract["name"] for contract in contracts}
    assert broken_contracts(output) == names == {contract for _, _, contract in PLANTED}
    unreported = [(module, line) for module, line, _ in PLANTED if planted_import(module, line) not in output]
    assert unreported == []
    assert [container for container in CONTAINERS if f"{container.replace('/', '.')}.attic" not in output] == []


def planted_import(module: str, line: str) -> str:
    """Return the import as import-linter reports it: `importer -> imported`, of an external package
    its top level."""
    importer = module.removesuffix(".py").replace("/", ".")
    words = line.split()
    imported = words[words.index("from" if "from" in words else "import") + 1]
    top = imported.partition(".")[0]
    return f"{importer} -> {imported if top in PACKAGES else top}"


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "example.invalid"])
def test_a_test_cannot_leave_this_machine(network_attempts: list[str], host: str) -> None:
    with pytest.raises(RuntimeError, match="no test may need more than this machine"):
        socket.create_connection((host, 80), timeout=1)
    assert network_attempts
    network_attempts.clear()


def test_a_socket_cannot_leave_this_machine(network_attempts: list[str]) -> None:
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


def test_jax_does_not_promote_types_or_ranks_implicitly() -> None:
    jax = pytest.importorskip("jax")
    assert (jax.config.jax_numpy_dtype_promotion, jax.config.jax_numpy_rank_promotion) == ("strict", "raise")
    with pytest.raises(ValueError, match="rank_promotion"):
        jax.numpy.ones((2, 2)) + jax.numpy.ones(2)


def test_shapes_in_the_model_are_checked() -> None:
    """The packages under `forecaster.model` are checked because the hook is installed before they
    are imported."""
    loader = importlib.import_module("forecaster.model.network.losses").__loader__
    assert type(loader).__module__.startswith("jaxtyping")
