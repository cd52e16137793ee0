"""Outbox of the MLflow registry: each run is first stored on this machine, and sent when the
registry can be reached.

A registry that is down therefore loses nothing: the next night that reaches it sends all waiting
runs.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from forecaster.config import Spec, credentials
from forecaster.core import artifact
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.errors import LedgerError, RegistryError
from forecaster.ledger.records import previous_champion
from forecaster.ledger.store import Ledger
from forecaster.plugins import optional
from forecaster.registry import addresses
from forecaster.registry.run_record import Record

RUNS = 200  # number of recent runs whose ends are looked up
_RECORD = "record.json"
_PICTURES, _MODEL = "pictures", "model"


def enqueue(
    record: Record, pictures: Mapping[str, bytes], spec: Spec, model: Mapping[str, bytes] | None = None
) -> None:
    """Put a record into the outbox until the registry has it. `pictures` are files by name, `model`
    are the files next to the bundle in the registered model."""
    folder = spec.paths.registry_outbox / record.run_id
    with artifact.writing_folder(folder) as new:
        (new / _RECORD).write_text(json.dumps(asdict(record), default=str), "utf-8")
        for part, files in ((_PICTURES, pictures), (_MODEL, model or {})):
            (new / part).mkdir()
            for name, content in files.items():
                (new / part / name).write_bytes(content)
        shutil.rmtree(folder, ignore_errors=True)


def send(spec: Spec) -> dict[str, str]:
    """Send all waiting runs to the registry, the oldest first; return run id → version of its
    model.

    Raises RegistryError if it is down; runs that were sent by then no longer wait.
    """
    versions: dict[str, str] = {}
    if not (runs := pending(spec)):
        return versions
    try:
        from forecaster.registry.mlflow_registry import Registry

        registry = Registry(spec.registry_url, spec.name, spec.paths.mlflow_artifacts)
        ends = _ends_of_runs(spec)
        for file in runs:
            record = Record.of_json(json.loads(file.read_text("utf-8")))
            bundle = spec.paths.bundle(record.bundle) if record.bundle else None
            of_model = bundle if bundle and bundle.is_dir() else None
            run = registry.log(record, file.parent, of_model, spec.paths.keys, ended=ends.get(record.run_id))
            if run.version is not None:
                versions[record.run_id] = run.version
                registry.challenge(run.version)
            with suppress(OSError):  # otherwise no page links to it
                addresses.keep(spec, record.run_id, run)
            _remove(file.parent)
    except Exception as error:  # clients raise exceptions of any kind
        raise RegistryError(f"{credentials.hide(spec.registry_url)}: {_first_line(error)}") from error
    return versions


def _ends_of_runs(spec: Spec) -> dict[str, datetime | None]:
    """Return run id → end of the last runs; None while a run has not ended."""
    try:
        with Ledger.open_reader(spec.ledger_url) as ledger:
            runs = ledger.runs(spec.name, limit=RUNS)
    except LedgerError:
        return {}
    return {run.run_id: run.finished_at for run in runs}


def _remove(folder: Path) -> None:
    """Remove a record. If this is killed, the remains no longer count as waiting, and a later
    removal deletes them."""
    hidden_folder = folder.with_name(f".{folder.name}")
    shutil.rmtree(hidden_folder, ignore_errors=True)
    shutil.rmtree(folder.rename(hidden_folder))


def pending(spec: Spec) -> list[Path]:
    """Return the waiting records of the outbox, the oldest first."""
    files = (file for file in spec.paths.registry_outbox.glob(f"*/{_RECORD}") if not _is_unfinished(file.parent.name))
    return sorted(files, key=lambda file: file.stat().st_mtime_ns)


def _is_unfinished(name: str) -> bool:
    """Return True for the folder of a record that is being written or removed."""
    return name.startswith(".") or name.endswith(".new")


def align(spec: Spec, ledger: Ledger) -> str | None:
    """Point the registry's aliases to the models that the ledger names; return the reason if that
    failed, else None.

    The ledger decides which model forecasts; a registry that is down does not affect that.
    """
    promotions = ledger.promotions(spec.name)
    if not promotions:
        return None
    previous = previous_champion(promotions)
    try:
        from forecaster.registry.mlflow_registry import Registry

        registry = Registry(spec.registry_url, spec.name, spec.paths.mlflow_artifacts)
        version = registry.version_of(promotions[-1].bundle_digest)
        if version is None:
            bundle = promotions[-1].bundle_digest
            return sentence(N_("it has no model of bundle {bundle} yet"), bundle=bundle)
        before = registry.version_of(previous.bundle_digest) if previous else None
        registry.promote(version, before, decision=promotions[-1])
        trial, canaries = None, optional("canary.ledger")
        if canaries:
            with ledger.transaction() as connection:
                trial = canaries.running(connection, spec.name)
        registry.try_out(registry.version_of(trial.bundle_digest) if trial else None)
    except Exception as error:  # clients raise exceptions of any kind
        return _first_line(error)
    return None


def _first_line(error: Exception) -> str:
    """Return the message of a client without the whole request, because a database's error
    continues with its statement."""
    line = str(error).partition("\n")[0]
    line = re.sub(r"HTTPS?ConnectionPool\(.*Caused by (\w+).*", r"\1", line)
    return f"{type(error).__name__}: {line[:300]}"
