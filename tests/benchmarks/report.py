"""Figures of a benchmark: a table for people, var/bench/NAME.json for machines."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "var" / "bench"
# Processes that a benchmark starts must start as users' do: with cached bytecode of their imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
VERSIONS = ("jax", "flax", "optax", "onnxruntime", "prefect", "mlflow", "deltalake", "numpy", "pandas")


@dataclass(frozen=True)
class Figure:
    """One measured number; `aim` is None if there is no aim, `spread` is half the range over n
    measurements."""

    figure: str
    value: float
    unit: str
    aim: str | None = None
    holds: bool | None = None
    n: int = 1
    spread: float | None = None


def below(figure: str, value: float, unit: str, limit: float) -> Figure:
    """Return a figure whose aim is to stay under a limit."""
    return Figure(figure, value, unit, f"< {limit:g}", bool(value < limit))


def write_report(name: str, figures: Sequence[Figure]) -> None:
    """Print the table and write the file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps([asdict(figure) for figure in figures], indent=1) + "\n", "utf-8")
    print(f"\n### {name}, {datetime.now(UTC):%Y-%m-%d}: {machine()}\n")
    print("| figure | value | unit | aim | holds | n |\n|---|---|---|---|---|---|")
    for f in figures:
        holds = {True: "yes", False: "**no**", None: ""}[f.holds]
        print(f"| {f.figure} | {_short(f.value)} | {f.unit} | {f.aim or ''} | {holds} | {f.n} |")
    print(f"\nWritten to {(FOLDER / f'{name}.json').relative_to(ROOT)}")


def machine() -> str:
    """Return processor, cores, memory, Python and the relevant versions, in one line."""
    model = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ", ".join(f"{package} {version(package)}" for package in VERSIONS)
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB; Python {platform.python_version()}, {packages}"


def _lines(file: str) -> list[str]:
    try:
        return Path(file).read_text("utf-8").splitlines()
    except OSError:
        return []


def _short(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


@contextmanager
def working_folder(folder: Path | None, prefix: str) -> Iterator[Path]:
    """Yield the given folder, made if absent and kept; without one, a temporary folder."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.resolve()
        return
    with tempfile.TemporaryDirectory(prefix=prefix) as temporary:
        yield Path(temporary)
