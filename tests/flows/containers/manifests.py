"""Page and inference of `flows/kubernetes/single`, run by podman on this machine's network and
ports.

Podman uses the volume that has the name of a claim. Features that it lacks compared with a cluster
are removed: the secret, which is passed as variables; the pre-stop hook; and probes, for which it
would call curl in the container.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from tests.ports import free_port

OVERLAY = Path(__file__).resolve().parents[3] / "flows" / "kubernetes" / "single"
DEPLOYMENTS = ("forecaster-page", "forecaster-inference")
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
PODMAN = ("podman", "--runtime", "runc")


@dataclass(frozen=True)
class Played:
    """A container of the manifests: its name, the addresses of its two ports, and the paths of its
    probes."""

    container: str
    address: str
    metrics: str
    probes: Sequence[str]
    begun: float = 0.0  # start of `podman play`, as in `time.perf_counter`

    def pid(self) -> int:
        """Return the PID of its first process on this machine."""
        return pid_of(self.container)


def pid_of(container: str) -> int:
    """Return the PID of a container's first process on this machine."""
    return int(_podman("inspect", "--format", "{{.State.Pid}}", container))


@contextmanager
def playing(
    folder: Path,
    state: Path,
    environment: Mapping[str, str],
    only: Sequence[str] = DEPLOYMENTS,
    *,
    host: str = "0.0.0.0",
) -> Iterator[dict[str, Played]]:
    """Run the deployments by name, in podman, with a copy of `state` as their volume; `folder` gets
    the manifest file. They listen on `host`, and are removed afterwards."""
    volume = f"forecaster-test-{free_port()}"
    play = (*PODMAN, "play", "kube", "--network", "host")
    command = ["kubectl", "kustomize", str(OVERLAY)]
    manifests = list(yaml.safe_load_all(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    chosen = {
        m["metadata"]["name"]: m for m in manifests if m["kind"] == "Deployment" and m["metadata"]["name"] in only
    }
    played = {name: _rewrite(manifest, volume, environment, host) for name, manifest in chosen.items()}
    file = folder / "kube.yaml"
    file.write_text(yaml.safe_dump_all(chosen.values()), "utf-8")
    try:
        _podman("volume", "create", volume)
        place = _podman("volume", "inspect", "--format", "{{.Mountpoint}}", volume)
        subprocess.run(["cp", "--archive", f"{state}/.", place], check=True)
        subprocess.run(["chown", "--recursive", "10001:10001", place], check=True)
        begun = time.perf_counter()
        process = subprocess.run([*play, str(file)], capture_output=True, text=True, check=False, timeout=120)
        assert process.returncode == 0, process.stderr
        yield {name: replace(container, begun=begun) for name, container in played.items()}
    finally:
        subprocess.run(["podman", "play", "kube", "--down", str(file)], capture_output=True, check=False, timeout=120)
        subprocess.run(["podman", "volume", "rm", "--force", volume], capture_output=True, check=False)


def _podman(*words: str) -> str:
    return subprocess.run(["podman", *words], capture_output=True, text=True, check=True).stdout.strip()


def _rewrite(manifest: dict[str, Any], volume: str, environment: Mapping[str, str], host: str) -> Played:
    """Set free ports, the volume and the variables in a manifest; returns its container with its
    addresses."""
    pod = manifest["spec"]["template"]["spec"]
    [container] = pod["containers"]
    ports = {str(port["containerPort"]): free_port() for port in container.pop("ports")}
    web, metrics = ports.values()
    for theirs, ours in ports.items():
        container["args"] = [
            f"{ours}" if word == theirs else word.replace(f":{theirs}", f":{ours}").replace("0.0.0.0", host)
            for word in container["args"]
        ]
    probes = [container.pop(probe)["httpGet"]["path"] for probe in PROBES]
    container.pop("lifecycle")
    container.pop("envFrom")
    container["env"] = [{"name": name, "value": value} for name, value in environment.items()]
    pod["hostNetwork"] = True
    for place in pod["volumes"]:
        if "persistentVolumeClaim" in place:
            place["persistentVolumeClaim"]["claimName"] = volume
    name = manifest["metadata"]["name"]
    # Podman's names for the first pod of a deployment, and for its container.
    return Played(
        f"{name}-pod-0-{container['name']}", f"http://127.0.0.1:{web}", f"http://127.0.0.1:{metrics}/metrics", probes
    )
