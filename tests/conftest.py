"""Setup of every test: strict JAX, checked shapes, its own home, no network, datasets or a reason
to skip.

This runs before anything of the project is imported, so that JAX reads the environment set here,
and tests without JAX do not wait for it. Child processes inherit the environment, but neither the
checked shapes nor the guard.
"""

from __future__ import annotations

import _socket
import gc
import ipaddress
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from functools import wraps
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

from forecaster.config import DATASETS as KEPT
from forecaster.config import ENVIRONMENT_DEFAULTS
from tests import cpus, shared

STRICT = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": cpus.QUICK,
    "JAX_NUM_CPU_DEVICES": "1",  # even if an earlier test in the same process has changed it
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",  # programs compile in a third of the time
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",  # small programs are numerous
    "JAX_NUMPY_DTYPE_PROMOTION": "strict",
    "JAX_NUMPY_RANK_PROMOTION": "raise",
    "MPLBACKEND": "agg",
    "OMP_NUM_THREADS": "1",  # OpenMP's threads busy-wait for one another, which takes forever next to other work
    "FORECASTER_PAUSE": "0",  # between the retries of external calls
}
# Settings of a developer must not affect tests.
FOREIGN = ("FORECASTER_", "MLFLOW_", "PREFECT_", "XDG_")
ROOT = Path(__file__).resolve().parents[1]

HOME = Path(tempfile.mkdtemp(prefix="forecaster-tests-"))

for name in [n for n in os.environ if n.startswith(FOREIGN) and n != KEPT]:
    del os.environ[name]
os.environ.update(STRICT, HOME=str(HOME))
if "PYTEST_XDIST_WORKER" not in os.environ:  # workers, nights and later sessions share compiled programs
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(ROOT / "build" / "tests" / "jax-cache")
    os.environ[shared.VARIABLE] = str(HOME / "shared")
# Tests start a hundred processes or more: without cached bytecode each would compile its imports
# again, for seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.setdefault(KEPT, str((ROOT / ENVIRONMENT_DEFAULTS[KEPT]).resolve()))

install_import_hook("forecaster.model", "beartype.beartype")
# The same examples everywhere, independent of the examples that a worker has kept and of the speed
# of the machine: few of them, and many with `--hypothesis-profile many`.
for profile, examples in {"few": 5, "many": 150}.items():
    settings.register_profile(
        profile,
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("few")

gc.disable()  # imports for the collection of tests stay alive: collecting garbage would take a third of the time


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs `forecaster …` in this process and returns exit code, standard
    output, standard error."""
    from tests.calls import caller

    return caller(monkeypatch, capsys)


# --- the network ------------------------------------------------------------------------------------------------------

attempts: list[str] = []


def is_local(host: object) -> bool:
    """Return True if `host` is on this machine; anything that is not a host (a Unix socket's path)
    is."""
    if isinstance(host, bytes):
        host = host.decode(errors="replace")
    if not isinstance(host, str) or host in ("", "localhost", socket.gethostname()):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def guarded(function: Callable[..., Any], what: str, host_of: Callable[..., object]) -> Callable[..., Any]:
    """Return the function, restricted to hosts on this machine."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        host = host_of(*arguments, **named)
        if not is_local(host):
            attempts.append(f"{what} to {host!r}")
            raise RuntimeError(f"a test tried to reach {host!r}; no test may need more than this machine")
        return function(*arguments, **named)

    return call


def host_of_address(_: object, *arguments: Any) -> object:
    """Return the host of the last argument, an address; None for a Unix socket's path."""
    return arguments[-1][0] if isinstance(arguments[-1], tuple) else None


# Replaced directly, not by an audit hook, which is called for every `id()` too: a fifth of the time
# of an export.
for method in ("connect", "connect_ex", "sendto"):
    setattr(socket.socket, method, guarded(getattr(socket.socket, method), f"socket.{method}", host_of_address))
_socket.getaddrinfo = guarded(_socket.getaddrinfo, "socket.getaddrinfo", lambda host, *_, **__: host)


@pytest.fixture(autouse=True)
def network_attempts() -> Iterator[list[str]]:
    """Yield the attempts to leave this machine; a test that leaves any fails, even if the code
    swallowed the error."""
    attempts.clear()
    yield attempts
    if attempts:
        pytest.fail("tried to leave this machine: " + "; ".join(attempts))


# --- the workers ------------------------------------------------------------------------------------------------------

PREFECT = 'pytest.mark.usefixtures("prefect")'
WAITING = ROOT / "tests/flows"  # tests that mostly wait for hanging calls, up to a night's time limits


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Two more than the number of cores: workers spend two fifths of their time waiting for hanging
    calls, a disk or a browser."""
    workers: int = yield
    return workers if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else workers + 2


def in_turn(items: list[pytest.Item]) -> list[pytest.Item]:
    """Order whole files for the workers: the longest first, which run whole nights or share one
    Prefect; then alternate two files that compute with one that waits, so that no core idles."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    long = [path for path in files if path.parent.name == "e2e" or _with_prefect(files[path])]
    files = {path: files[path] for path in (*long, *files)}
    waiting = [path for path in files if path.is_relative_to(WAITING) and path not in long]
    computing = [path for path in files if path not in waiting]
    pairs = [computing[number : number + 2] for number in range(0, len(computing), 2)]
    turns = [*zip_longest(pairs, ([path] for path in waiting), fillvalue=list[Path]())]
    return [item for turn in turns for path in chain(*turn) for item in files[path]]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give all files with the `prefect` fixture to one worker, so that a session imports and starts
    it once."""
    from xdist.scheduler import LoadFileScheduling

    if config.getvalue("dist") != "loadfile":
        return None
    files = (file for file in (ROOT / "tests").rglob("test_*.py") if PREFECT in file.read_text("utf-8"))
    together = {file.relative_to(ROOT).as_posix() for file in files}

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return PREFECT if file in together else file

    return Scheduling(config, log)


def _with_prefect(items: list[pytest.Item]) -> bool:
    """Return True if the files import Prefect into the worker, where it stays for all later files."""
    return any("prefect" in getattr(item, "fixturenames", ()) for item in items)


# --- the datasets -----------------------------------------------------------------------------------------------------


def why_no_datasets() -> str | None:
    """Return the reason why the real datasets cannot be read, or None if they can."""
    folder = os.environ.get(KEPT)
    if not folder:
        return f"{KEPT} is not set; set it to the folder of the real datasets"
    if not Path(folder).is_dir():
        return f"{KEPT} is {folder!r}, which is no folder"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = in_turn(items)
    reason = why_no_datasets()
    for item in items:
        if "datasets" in getattr(item, "fixturenames", ()):
            item.add_marker("datasets")
        if reason and item.get_closest_marker("datasets"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def datasets() -> Path:
    """Return the folder of the real datasets; using it marks the test `datasets`."""
    return Path(os.environ[KEPT]).resolve()
