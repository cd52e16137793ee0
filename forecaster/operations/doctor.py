"""Health checks (doctor): installed packages, state of a pipeline, and remedies."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from forecaster.config.credentials import hide
from forecaster.core.parallel import available_cores
from forecaster.core.terminal import count
from forecaster.errors import BundleError, ForecasterError, ForeignLake, LakeError, LedgerError, NoLedger
from forecaster.operations import prefect_api

if TYPE_CHECKING:
    from forecaster.config import Spec
    from forecaster.ledger.records import Run
    from forecaster.ledger.store import Ledger

DISTRIBUTION = "harbor-forecaster"  # distribution name; the module and the command are `forecaster`
CORE_PACKAGES = ("numpy", "pandas", "pyarrow", "deltalake", "onnxruntime", "pydantic", "sqlalchemy")
EXTRAS = {
    "train": "training",
    "flows": "`forecaster run`",
    "dashboard": "`forecaster serve`",
    "postgres": "PostgreSQL sources",
    "excel": "Excel sources",
    "object-store": "sources on an object store",
}
GIB = 2**30
LITTLE_MEMORY, LITTLE_DISK = 4, 2  # GiB
DEVICE_SECONDS = 60
MOST_DAMAGE = 20  # maximum number of sentences
STALE = timedelta(hours=36)
KEY_EXPIRES_SOON = timedelta(days=30)
NEW_KEY = "generate a new pair and copy its public key (docs/operations.md, New secrets and keys)"
KILLED = ", but it was killed, or its machine went down; the next run closes it"
REGISTRY_SECONDS = 60
_REGISTRY = """
import sys, mlflow
try:
    mlflow.MlflowClient().search_experiments(max_results=1)
except Exception as error:
    sys.exit(f"{type(error).__name__}: {str(error).splitlines()[0]}")
"""
_AT_ONCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
_DEVICES = """
import jax
from forecaster.model.network import gru_cpu
print(*dict.fromkeys(f'{d.platform} {d.device_kind}' for d in jax.devices()), sep=', ')
print(gru_cpu.compiler() or '')
"""


@dataclass(frozen=True)
class Sign:
    """Result of one health check. `warn` and `broken` state the next step; with `broken` nothing
    can run."""

    state: Literal["ok", "warn", "broken"]
    topic: str
    text: str

    def __str__(self) -> str:
        return f"{self.state:6}  {self.topic:14} {self.text}"


def examine(spec: Spec | None, *, now: datetime, port: int = 8000) -> Iterator[Sign]:
    """Run the health checks of installation and machine and, with `spec`, of a pipeline; nothing is
    changed."""
    yield _python()
    yield from _packages()
    yield from _devices()
    yield _machine()
    yield _disk(spec.paths.folder if spec else Path.cwd())
    yield _port(port)
    yield from _prefect_server()
    if spec is not None:
        yield Sign(
            "ok", "pipeline", f"{spec.name}, digest {spec.digest[:12]}; `forecaster check FILE` tries its sources"
        )
        yield from _lake(spec)
        yield from _keys(spec, now)
        yield from _ledger(spec, now)
        yield from _registry(spec)


def _prefect_server() -> Iterator[Sign]:
    """Check an external Prefect server; runs continue without it, so it is never `broken`."""
    if not (address := os.environ.get(prefect_api.URL)) or _version("prefect") is None:
        return
    try:
        remark = prefect_api.probe(address)
    except ForecasterError as error:
        yield Sign("warn", "prefect", f"{error}; runs go on without it")
    else:
        yield Sign("warn" if remark else "ok", "prefect", f"{address} answers" + (f"; {remark}" if remark else ""))


def _python() -> Sign:
    installed = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    if not (3, 11) <= sys.version_info[:2] <= (3, 12):
        return Sign("warn", "python", f"{installed}; wanted 3.11 or 3.12: make the environment anew with one of them")
    return Sign("ok", "python", installed)


def _packages() -> Iterator[Sign]:
    required = _required_packages()
    if required is None:
        yield Sign("warn", "packages", f"{DISTRIBUTION} is not installed: `pip install .` where pyproject.toml is")
        return
    missing = [name for name in required[""] if _version(name) is None]
    if missing:
        yield Sign("broken", "packages", f"missing {', '.join(missing)}: pip install '{DISTRIBUTION}'")
    else:
        versions = ", ".join(f"{name} {_version(name)}" for name in CORE_PACKAGES)
        yield Sign("ok", "packages", f"{DISTRIBUTION} {version(DISTRIBUTION)}; {versions}")
    if conflicts := sorted({*packages_distributions().get("forecaster", ())} - {DISTRIBUTION}):
        text = f"{', '.join(conflicts)} brings a module `forecaster` too, and each overwrites the other's files: "
        step = f"pip uninstall {' '.join(conflicts)}, then install {DISTRIBUTION} anew"
        yield Sign("broken", "packages", text + step)
    for extra, purpose in EXTRAS.items():
        missing = [name for name in required[extra] if _version(name) is None]
        if missing:
            step = f"for {purpose}: pip install '{DISTRIBUTION}[{extra}]'"
            yield Sign("warn", f"[{extra}]", f"missing {', '.join(missing)}; {step}")
        else:
            yield Sign("ok", f"[{extra}]", ", ".join(f"{name} {_version(name)}" for name in required[extra]))


def _required_packages() -> dict[str, list[str]] | None:
    """Extra → its required packages; the base install is the extra ""."""
    try:
        lines = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return None
    packages: defaultdict[str, list[str]] = defaultdict(list)
    for line in lines:
        extra = re.search(r"""extra\s*==\s*["']([\w-]+)""", line)
        packages[extra[1] if extra else ""] += re.findall(r"^[\w.-]+", line)
    return packages


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices() -> Iterator[Sign]:
    """Devices on which JAX would train, determined in a separate process, since its import takes
    seconds."""
    if _version("jax") is None:
        return
    asking = [sys.executable, "-c", _DEVICES]
    try:
        process = subprocess.run(asking, capture_output=True, text=True, timeout=DEVICE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        late = f"JAX did not answer within {DEVICE_SECONDS} s; JAX_PLATFORMS=cpu does without a GPU"
        yield Sign("warn", "devices", late)
        return
    if process.returncode != 0:
        why = (process.stderr.strip().splitlines() or ["it said nothing"])[-1]
        yield Sign("warn", "devices", f"JAX finds no device: {why}; JAX_PLATFORMS=cpu does without a GPU")
        return
    # output of plugins comes first
    *_, devices, compiler = process.stdout.replace("cpu cpu", "the CPU").splitlines()
    if shutil.which("nvidia-smi") and "gpu" not in devices and "cuda" not in devices:
        step = "pip install 'jax[cuda12]' in the version that is installed"
        yield Sign("warn", "devices", f"JAX trains on {devices}, though this machine has a GPU: {step}")
    else:
        yield Sign("ok", "devices", f"JAX trains on {devices}")
    if devices == "the CPU":
        yield _compiler(compiler)


def _compiler(compiler: str) -> Sign:
    if compiler:
        return Sign("ok", "compiler", f"{compiler} compiles the recurrence for this processor")
    step = "install one ('apt install g++' on Debian), or name one in CXX"
    return Sign("warn", "compiler", f"no C++ compiler: training takes up to 1.5 times as long: {step}")


def _machine() -> Sign:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
    limit = Path("/sys/fs/cgroup/memory.max")  # limit of a container
    if limit.exists() and (text := limit.read_text().strip()).isdigit():
        memory = min(memory, int(text) / GIB)
    capacity = f"{available_cores()} CPU cores, {memory:.1f} GiB memory"
    if memory < LITTLE_MEMORY:
        step = f"training wants {LITTLE_MEMORY} GiB: fewer training.members take less"
        return Sign("warn", "machine", f"{capacity}; {step}")
    return Sign("ok", "machine", capacity)


def _disk(folder: Path) -> Sign:
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    free = shutil.disk_usage(existing).free / GIB
    space = f"{folder}: {free:.1f} GiB free"
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return Sign(
            "broken", "disk", f"{folder} cannot be written; wanted a folder of yours (`state` in the pipeline file)"
        )
    if free < LITTLE_DISK:
        return Sign("warn", "disk", f"{space}; wanted {LITTLE_DISK}: make room, or move `state` of the pipeline file")
    return Sign("ok", "disk", space)


def _port(port: int) -> Sign:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return Sign(
            "warn", "port", f"{port} is taken, by a page perhaps; `forecaster serve FILE --port {port + 1}` works"
        )
    return Sign("ok", "port", f"{port} is free for `forecaster serve`")


def _lake(spec: Spec) -> Iterator[Sign]:
    from forecaster.demand.history import lake_owner
    from forecaster.lake import NOT_THERE, Lake

    try:
        lake_owner.refuse_other_fleets(spec)
        lake = Lake.of(spec)
        for table, number in lake.versions().items():
            if number != NOT_THERE:
                yield Sign("ok", "lake", f"{table}: {count(lake.row_count(table), 'row')}, version {number}")
            elif table == "demand":
                yield Sign("warn", "lake", f"nothing at {spec.lake_url} yet: the first `forecaster run FILE` fills it")
    except (ForeignLake, LakeError) as error:
        yield Sign("broken", "lake", str(error))


def _keys(spec: Spec, now: datetime) -> Iterator[Sign]:
    """Validity of the signing key, or of the last trusted key; nothing if there is none yet."""
    from forecaster.serving import keys

    try:
        key = keys.deciding_key(spec.paths.folder)
    except BundleError as error:
        yield Sign("broken", "keys", str(error))
        return
    name = keys.fingerprint(key.public_bytes_raw()) if key is not None else ""
    if key is not None and (refusal := key.refusal(now)):
        yield Sign("broken", "keys", f"public key {name} is {refusal}; no new model is usable: {NEW_KEY}")
    elif key is not None and key.end is not None and key.end - now <= KEY_EXPIRES_SOON:
        text = f"public key {name} has `Expires: {key.expires}` in {key.place}, after which no new model is usable"
        yield Sign("warn", "keys", f"{text}; {NEW_KEY}, or set a later date")
    elif key is not None:
        until = f"until {key.expires}" if key.expires else "without expiry"
        yield Sign("ok", "keys", f"public key {name} is valid, {until}")


def _ledger(spec: Spec, now: datetime) -> Iterator[Sign]:
    from forecaster.ledger import run_start
    from forecaster.ledger.store import Ledger

    try:
        with Ledger.open_reader(spec.ledger_url) as ledger:
            yield from _nights(spec, ledger, now)
    except NoLedger as error:
        fault = run_start.lost_ledger(spec)
        yield Sign("broken" if fault else "warn", "ledger", fault or str(error))
    except LedgerError as error:
        yield Sign("broken", "ledger", str(error))


def _nights(spec: Spec, ledger: Ledger, now: datetime) -> Iterator[Sign]:
    from forecaster.ledger import soundness
    from forecaster.ledger.migrations.revision import REVISION
    from forecaster.serving import keys

    verify, unverified = None, ""
    try:
        verify = keys.seal_check(spec.paths.folder)
    except BundleError as error:
        unverified = f", not verified: {error}"
    with ledger.transaction() as connection:
        damage = soundness.faults(connection, verify)
        counts = soundness.seal_counts(connection)
    yield from (Sign("broken", "ledger", sentence) for sentence in damage[:MOST_DAMAGE])
    if len(damage) > MOST_DAMAGE:
        yield Sign("broken", "ledger", f"{len(damage) - MOST_DAMAGE:,} more publications are damaged")
    if not damage:
        text = f"revision {REVISION}; {count(counts.publications, 'publication')} verified, {counts.seals:,} with a "
        yield Sign("ok", "ledger", f"{text}signature{unverified if counts.seals else ''}")
    if counts.unsealed is not None:
        text = f"publication {counts.unsealed} has no signature, wanted one as those before it: a process without the "
        yield Sign("warn", "ledger", f"{text}signing key has written it, such as a page elsewhere, or somebody by SQL")
    yield from (_last_run(spec, ledger, run, now) for run in ledger.runs(spec.name, limit=1, nights=True))
    yield _published(spec, ledger, now)
    yield _champion(spec, ledger)


def _last_run(spec: Spec, ledger: Ledger, run: Run, now: datetime) -> Sign:
    text = f"{run.run_id}, begun {_when(run.started_at, spec)}: {run.outcome}"
    text += f" (exit code {run.exit_code})" if run.exit_code is not None else ""
    killed = ledger.seems_killed(run, now)
    text += (KILLED if killed else "") + (f"; {run.message}" if run.message else "")
    return Sign("ok" if run.outcome in ("running", "published") and not killed else "warn", "last run", text)


def _published(spec: Spec, ledger: Ledger, now: datetime) -> Sign:
    from forecaster.ledger.publication import WITHOUT_OWN_MODEL

    head = ledger.current(spec.name)
    if head is None:
        return Sign("warn", "published", "nothing yet: `forecaster run FILE` publishes, also without a model")
    text = f"{_when(head.published_at, spec)}, tier {head.tier}, {head.model}, cutoff {head.cutoff}"
    if now - head.published_at > STALE:
        return Sign("warn", "published", f"{text}; that is old: does the schedule run?")
    if head.tier in WITHOUT_OWN_MODEL:
        step = "see the line on the champion" if ledger.champion(spec.name) else "see why none was admitted yet"
        return Sign("warn", "published", f"{text}; no model of its own forecasts: {step}")
    return Sign("ok", "published", text)


def _champion(spec: Spec, ledger: Ledger) -> Sign:
    from forecaster.publishing import champion_fit
    from forecaster.serving import bundle

    champion = ledger.champion(spec.name)
    if champion is None:
        none_yet = "none yet: seasonal naive forecasts until the gate admits a model"
        return Sign(
            "warn", "champion", "; ".join(filter(None, [none_yet, champion_fit.under_another_name(spec, ledger)]))
        )
    text = f"{champion.bundle_digest}, since {_when(champion.at, spec)}: {champion.reason}"
    try:
        bundle.load(spec.paths.bundle(champion.bundle_digest), spec.paths.folder)
    except BundleError as error:
        return Sign("warn", "champion", f"{text}; its bundle is unusable, so the seasonal naive forecasts: {error}")
    what_differs = champion_fit.of_champion(spec, ledger)
    return Sign("warn" if what_differs else "ok", "champion", ". ".join([text, *what_differs]))


def _registry(spec: Spec) -> Iterator[Sign]:
    """Check of MLflow, in a separate process, and the number of runs not yet registered."""
    from forecaster.registry import outbox

    if _version("mlflow") is None:
        return
    place, waiting = hide(spec.registry_url), len(outbox.pending(spec))
    late = f"; the next night tells it of {waiting:,} earlier run{'s' * (waiting > 1)}" if waiting else ""
    file = Path(spec.registry_url.removeprefix("sqlite:///"))
    if spec.registry_url.startswith("sqlite:///") and not file.exists():
        yield Sign("warn", "registry", f"none at {place} yet: the first `forecaster run FILE` makes it{late}")
        return
    environment = {**_AT_ONCE, **os.environ, "MLFLOW_TRACKING_URI": spec.registry_url}
    command = [sys.executable, "-c", _REGISTRY]
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=REGISTRY_SECONDS, check=False, env=environment
        )
        why = (process.stderr.strip().splitlines() or ["it said nothing"])[-1] if process.returncode else ""
    except subprocess.TimeoutExpired:
        why = f"no answer within {REGISTRY_SECONDS} s"
    if why:
        step = "nights continue without it and report to it later"
        yield Sign("warn", "registry", f"MLflow at {place} cannot be read: {hide(why[:500])}; {step}{late}")
    else:
        yield Sign("warn" if waiting else "ok", "registry", f"MLflow at {place} answers{late}")


def _when(instant: datetime, spec: Spec) -> str:
    return f"{instant.astimezone(spec.zone):%Y-%m-%d %H:%M}"
