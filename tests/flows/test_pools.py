"""The Kubernetes work pools are valid for Prefect and for Kubernetes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.flows.pod_security import restricted

pytestmark = pytest.mark.usefixtures("prefect")

POOLS = Path(__file__).resolve().parents[2] / "flows" / "pools"
NAMES = ("kubernetes", "kubernetes-gpu")
KNOWN = "1.33"


def template(name: str) -> dict[str, Any]:
    pool: dict[str, Any] = json.loads((POOLS / f"{name}.json").read_text("utf-8"))
    return pool


def prefects_own() -> dict[str, Any]:
    """Return the template that Prefect ships for its Kubernetes worker."""
    # must not be imported before the tests have prepared its environment
    found_at = importlib.util.find_spec("prefect")
    assert found_at is not None
    package = Path(str(found_at.origin)).parent
    file = package / "server" / "api" / "collections_data" / "views" / "aggregate-worker-metadata.json"
    worker = json.loads(file.read_text("utf-8"))["prefect-kubernetes"]["kubernetes"]
    default: dict[str, Any] = worker["default_base_job_configuration"]
    return default


def job(name: str) -> dict[str, Any]:
    """Return the job of a run, as the worker creates it from the defaults."""
    from prefect.utilities.templating import apply_values

    pool = template(name)
    values = {
        key: variable["default"] for key, variable in pool["variables"]["properties"].items() if "default" in variable
    }
    run_values = {"name": "nightly", "env": [{"name": "PREFECT_API_URL", "value": "http://prefect:4200/api"}]}
    values |= {**run_values, "labels": {"app": "forecaster"}, "command": ["prefect", "flow-run", "execute"]}
    manifest: dict[str, Any] = apply_values(pool["job_configuration"]["job_manifest"], values)
    return manifest


def strictly(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, KNOWN, strict=True)


@pytest.mark.parametrize("name", NAMES)
def test_prefect_accepts_the_template_with_all_keys_of_its_worker(name: str) -> None:
    from prefect.client.schemas.actions import WorkPoolCreate

    WorkPoolCreate(name="forecaster", type="kubernetes", base_job_template=template(name))
    ours, theirs = template(name), prefects_own()
    assert ours["job_configuration"].keys() == theirs["job_configuration"].keys()
    assert ours["variables"]["properties"].keys() >= theirs["variables"]["properties"].keys()
    for key, variable in theirs["variables"]["properties"].items():
        assert ours["variables"]["properties"][key].get("type") == variable.get("type")


@pytest.mark.parametrize("name", NAMES)
def test_the_job_of_a_run_is_valid_for_kubernetes(name: str) -> None:
    manifest = job(name)
    strictly(manifest)
    [container] = manifest["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"].get("nvidia.com/gpu") == ("1" if "gpu" in name else None)
    assert manifest["spec"]["backoffLimit"] == 0  # the ledger decides whether a run is repeated


@pytest.mark.parametrize("name", NAMES)
def test_its_pod_is_allowed_in_our_namespace_and_runs_prefects_command(name: str) -> None:
    pod = job(name)["spec"]["template"]["spec"]
    assert not restricted(pod)
    [container] = pod["containers"]
    image = (POOLS.parent / "containers" / "Containerfile").read_text("utf-8")
    assert 'ENTRYPOINT ["forecaster"]' in image  # the worker's arguments would be appended to it
    assert [*container["command"], *container["args"]] == ["env", "prefect", "flow-run", "execute"]


def test_resources_of_a_job_are_declared() -> None:
    base = POOLS.parent / "kubernetes" / "base"
    manifests = [manifest for file in base.glob("*.yaml") for manifest in yaml.safe_load_all(file.read_text("utf-8"))]
    names = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests if "metadata" in manifest}
    for name in NAMES:
        pod = job(name)["spec"]["template"]["spec"]
        assert ("PersistentVolumeClaim", pod["volumes"][0]["persistentVolumeClaim"]["claimName"]) in names
        assert ("ServiceAccount", pod["serviceAccountName"]) in names


def test_detects_unknown_keys() -> None:
    wrong = job("kubernetes")
    wrong["spec"]["template"]["spec"]["parallelism"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        strictly(wrong)
