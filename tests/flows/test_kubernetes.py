"""The manifests are valid for Kubernetes after kustomize has built them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.flows.pod_security import restricted

FOLDER = Path(__file__).resolve().parents[2] / "flows" / "kubernetes"
KNOWN = "1.33"


def built(overlay: str) -> list[dict[str, Any]]:
    """Return the manifests of an overlay, as built by kustomize."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: with it the overlays are put together and checked")
    process = subprocess.run(["kubectl", "kustomize", FOLDER / overlay], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return list(yaml.safe_load_all(process.stdout))


def pods(manifests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the specification of each pod, by the name of its controller."""
    specs = {}
    for manifest in manifests:
        spec = manifest.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template:
            specs[manifest["metadata"]["name"]] = template["spec"]
    return specs


@pytest.mark.parametrize("overlay", ["single", "team"])
def test_every_manifest_is_valid_for_kubernetes(overlay: str) -> None:
    manifests = built(overlay)
    for manifest in manifests:
        kubernetes_validate.validate(manifest, KNOWN, strict=True)
    assert {manifest["metadata"].get("namespace", "forecaster") for manifest in manifests} == {"forecaster"}


@pytest.mark.parametrize("overlay", ["single", "team"])
def test_every_pod_is_unprivileged_with_a_read_only_root(overlay: str) -> None:
    made = pods(built(overlay))
    assert {"forecaster-page", "forecaster-inference", "forecaster-predict", "forecaster-worker"} <= made.keys()
    for name, pod in made.items():
        assert not restricted(pod), name
        for container in pod["containers"]:
            rights = container["securityContext"]
            assert rights["readOnlyRootFilesystem"], name
            assert "memory" in container["resources"]["limits"], name
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted <= {volume["name"] for volume in pod["volumes"]}, name


def test_readers_of_an_sqlite_ledger_can_write_next_to_it() -> None:
    for overlay, only_reads in (("single", set()), ("team", {"forecaster-inference"})):
        mounts = {
            name
            for name, pod in pods(built(overlay)).items()
            for container in pod["containers"]
            for mount in container["volumeMounts"]
            if mount["name"] == "state" and mount.get("readOnly")
        }
        assert mounts == only_reads, overlay


def test_every_claim_account_and_port_is_declared() -> None:
    manifests = built("team")
    by_kind = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests}
    for pod in pods(manifests).values():
        for volume in pod["volumes"]:
            if claim := volume.get("persistentVolumeClaim"):
                assert ("PersistentVolumeClaim", claim["claimName"]) in by_kind
        if account := pod.get("serviceAccountName"):
            assert ("ServiceAccount", account) in by_kind
    for service in (manifest for manifest in manifests if manifest["kind"] == "Service"):
        [container] = pods(manifests)[service["metadata"]["name"]]["containers"]
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= {p["name"] for p in container["ports"]}


@pytest.mark.parametrize("overlay", ["single", "team", "serverless"])
def test_inference_waits_for_its_first_model_and_is_not_killed(overlay: str) -> None:
    manifests = serverless() if overlay == "serverless" else built(overlay)
    [container] = pods(manifests)["forecaster-inference"]["containers"]
    paths = {probe: container[probe]["httpGet"]["path"] for probe in container if probe.endswith("Probe")}
    assert paths.pop("readinessProbe") == "/v2/health/ready"
    assert set(paths.values()) == {"/v2/health/live"}


def test_the_serverless_pod_is_accepted_and_has_the_ledgers_secret() -> None:
    pod = pods(serverless())["forecaster-inference"]
    assert not restricted(pod)
    assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": "forecaster"}}]


def test_prometheus_finds_its_targets() -> None:
    [monitor] = built("monitoring")
    labels = {manifest["metadata"].get("labels", {}).get("app") for manifest in built("team")}
    assert monitor["metadata"]["namespace"] == "forecaster"  # it only finds services of its own namespace
    [expression] = monitor["spec"]["selector"]["matchExpressions"]
    assert set(expression["values"]) <= labels


def serverless() -> list[dict[str, Any]]:
    """Return the manifests for Knative, which are applied unchanged."""
    return list(yaml.safe_load_all((FOLDER / "serverless" / "service.yaml").read_text("utf-8")))
