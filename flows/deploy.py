"""Deploys a pipeline's flows to Prefect: `flows/prefect.yaml`, filled in from the pipeline file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from flows import environment, local_stack, prefect_server
from forecaster.config import Spec
from forecaster.errors import ForecasterError, LedgerError
from forecaster.ledger import run_totals
from forecaster.ledger.store import Ledger
from forecaster.operations import due_nights, plan

POOL = "forecaster"
HERE = Path(__file__).resolve().parent
FLOWS = ("nightly", "deadline", "predict-only", "maintain", "backfill")
_VARIABLE = re.compile(r"\{\{ \$(\w+) \}\}")


@dataclass(frozen=True)
class Deployment:
    """A deployment in Prefect: flow/name, and its schedule in words."""

    name: str
    schedule: str

    def __str__(self) -> str:
        return f"{self.name}: {self.schedule}"


def bring_up(file: Path, spec: Spec, ports: Mapping[str, int], say: Callable[[str], None]) -> None:
    """Start all services with the flows deployed, keep them up, and stop them on request."""
    due_nights.refuse_changing_hour(spec, file)
    local_stack.up(file, spec, ports=ports, pool=POOL, say=say)


def variables(file: Path, spec: Spec) -> dict[str, str | None]:
    """Return the values that `prefect.yaml` takes from a pipeline file; None for an undeclared
    schedule."""
    hour, minute = spec.schedule.deadline.split(":")
    return {
        "FORECASTER_NAME": spec.name,
        "FORECASTER_FILE": str(file.resolve()),
        "FORECASTER_ROOT": str(HERE.parent),
        "FORECASTER_POOL": POOL,
        "FORECASTER_ZONE": spec.timezone,
        "FORECASTER_CRON": spec.schedule.cron,
        "FORECASTER_DEADLINE": f"{int(minute)} {int(hour)} {' '.join(spec.schedule.cron.split()[2:])}",
        "FORECASTER_REFRESH": spec.schedule.refresh,
        "FORECASTER_MAINTAIN": spec.schedule.maintain,
    }


def deployment_file(file: Path, spec: Spec) -> dict[str, Any]:
    """Return `prefect.yaml` for a pipeline file, without undeclared schedules.

    Raises SpecError for a schedule at an hour that a clock change skips or repeats.
    """
    due_nights.refuse_changing_hour(spec, file)
    values = variables(file, spec)
    content: dict[str, Any] = _fill(yaml.safe_load((HERE / "prefect.yaml").read_text("utf-8")), values)
    for deployment in content["deployments"]:
        deployment["schedules"] = [s for s in deployment.get("schedules", ()) if s["cron"] is not None]
    del content["definitions"]
    return content


def deploy(file: Path, spec: Spec) -> list[Deployment]:
    """Create the work pool if necessary, and declare every flow; idempotent. Restarts the page of a
    running `up`, with the current pipeline file.

    Raises SpecError as `deployment_file` does, and ForecasterError with Prefect's message if it
    fails.
    """
    content = deployment_file(file, spec)
    environment.prepare(spec.paths.folder)
    with prefect_server.running(local_stack.address(spec)) as ready, tempfile.TemporaryDirectory() as folder:
        remark = ready(prefect_server.PATIENCE)
        prefect_file = Path(folder) / "prefect.yaml"
        prefect_file.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), "utf-8")
        if _prefect("work-pool", "inspect", POOL, refused=True):
            _prefect("work-pool", "create", POOL, "--type", "process", remark=remark)
        _prefect("deploy", "--all", "--prefect-file", str(prefect_file), remark=remark)
        _open_window(spec)
        with suppress(OSError):
            plan.save_spec(spec)
        local_stack.restart_page(spec)
        return deployments(spec)


def _open_window(spec: Spec) -> None:
    """Suppress alarms about compilation for half an hour; in a new installation, expect nights from
    now on."""
    with suppress(LedgerError), Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        run_totals.open_deploy_window(connection, spec.name, datetime.now(UTC))


def deployments(spec: Spec) -> list[Deployment]:
    """Return a pipeline's deployments as registered in Prefect; its server must be up."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName

    with get_client(sync_client=True) as client:
        of_pipeline = DeploymentFilter(name=DeploymentFilterName(any_=[spec.name]))
        flows = {flow.id: flow.name for flow in client.read_flows()}
        declared = [
            Deployment(
                f"{flows[deployment.flow_id]}/{deployment.name}",
                "; ".join(_words(schedule.schedule) for schedule in deployment.schedules) or "by hand",
            )
            for deployment in client.read_deployments(deployment_filter=of_pipeline)
        ]
    return sorted(declared, key=lambda each: FLOWS.index(each.name.split("/")[0]))


def _words(schedule: Any) -> str:
    return f"{schedule.cron} {schedule.timezone}"


def _fill(value: Any, values: dict[str, str | None]) -> Any:
    if isinstance(value, dict):
        return {key: _fill(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, values) for item in value]
    if isinstance(value, str) and (variable := _VARIABLE.fullmatch(value)):
        return values[variable[1]]
    return value


def _prefect(*arguments: str, refused: bool = False, remark: str = "") -> bool:
    """Call Prefect's command; with `refused`, return whether it failed.

    Raises ForecasterError with its last lines, and the remark on the versions of both sides.
    """
    process = subprocess.run(
        [sys.executable, "-m", "prefect", "--no-prompt", *arguments],
        cwd=HERE.parent,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    if refused:
        return process.returncode != 0
    if process.returncode:
        last_lines = (process.stderr.strip() or process.stdout.strip()).splitlines()[-3:]
        versions = f" ({remark})" if remark else ""
        raise ForecasterError(f"`prefect {arguments[0]}` refused: {' '.join(last_lines)}{versions}")
    return False
