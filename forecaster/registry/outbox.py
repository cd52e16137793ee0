"""Outbox of the MLflow registry: each run is written on this machine first, and sent when the
registry is reached.

So a registry that is down loses nothing: the next night that reaches it tells of all that still
waits.
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

RUNS = 200  # of the last ones, whose ends are looked up
_RECORD = "record.json"
_PICTURES, _MODEL = "pictures", "model"


def enqueue(
    record: Record, pictures: Mapping[str, bytes], spec: Spec, model: Mapping[str, bytes] | None = None
) -> None:
    """Put a record into the outbox, where it stays until the registry has it; `pictures` are files
    by name, `model` those that lie next to the bundle in the registered model."""
    folder = spec.paths.registry_outbox / record.run_id
    with artifact.writing_folder(folder) as new:
        (new / _RECORD).write_text(json.dumps(asdict(record), default=str), "utf-8")
        for part, files in ((_PICTURES, pictures), (_MODEL, model or {})):
            (new / part).mkdir()
            for name, content in files.items():
                (new / part / name).write_bytes(content)
        shutil.rmtree(folder, ignore_errors=True)


def send(spec: Spec) -> dict[str, str]:
    """Send the registry every run that waits, the oldest first; returns run id → its model's
    version.

    Raises RegistryError when it is down; what it has got by then does not wait any longer.
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
            with suppress(OSError):  # then no page links it
                addresses.keep(spec, record.run_id, run)
            _remove(file.parent)
    except Exception as error:  # of whatever kind a client may raise
        raise RegistryError(f"{credentials.hide(spec.registry_url)}: {_first_line(error)}") from error
    return versions


def _ends_of_runs(spec: Spec) -> dict[str, datetime | None]:
    """Run id → end of the last runs; None while a run has not ended."""
    try:
        with Ledger.open_reader(spec.ledger_url) as ledger:
            runs = ledger.runs(spec.name, limit=RUNS)
    except LedgerError:
        return {}
    return {run.run_id: run.finished_at for run in runs}


def _remove(folder: Path) -> None:
    """Remove a record; what is left where this is killed waits no more, and goes with the next
    leftovers."""
    gone = folder.with_name(f".{folder.name}")
    shutil.rmtree(gone, ignore_errors=True)
    shutil.rmtree(folder.rename(gone))


def pending(spec: Spec) -> list[Path]:
    """The records in the outbox, which the registry does not have yet, the oldest first."""
    whole = (file for file in spec.paths.registry_outbox.glob(f"*/{_RECORD}") if not _is_unfinished(file.parent.name))
    return sorted(whole, key=lambda file: file.stat().st_mtime_ns)


def _is_unfinished(name: str) -> bool:
    """True if a folder is one that a record is written in, or removed from."""
    return name.startswith(".") or name.endswith(".new")


def align(spec: Spec, ledger: Ledger) -> str | None:
    """Let the registry's aliases name whom the ledger names; returns why they could not, None when
    they do.

    The ledger decides who forecasts; a registry that is down changes nothing about it.
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
    except Exception as error:  # of whatever kind a client may raise
        return _first_line(error)
    return None


def _first_line(error: Exception) -> str:
    """Message of a client, without the whole request: a database's error goes on with its
    statement."""
    line = str(error).partition("\n")[0]
    line = re.sub(r"HTTPS?ConnectionPool\(.*Caused by (\w+).*", r"\1", line)
    return f"{type(error).__name__}: {line[:300]}"
