"""The images work: page, predictions and whole runs, as an unprivileged user, with a read-only root
and a memory limit.

They are built by `make images`; images of other sources are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.e2e.test_night import shrink
from tests.flows.containers.manifests import PODMAN, playing
from tests.flows.containers.sources import digest
from tests.ports import free_port

pytestmark = [pytest.mark.long, pytest.mark.e2e, pytest.mark.timeout(1500)]

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 10001
HARDENED = ("--user", f"{NOBODY}:{NOBODY}", "--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges")
SIGN_IN = """
page:
  access: {sign_in: header, url: "http://127.0.0.1", proxies: [127.0.0.1], secret: "${PAGE_SECRET}"}
"""
KILLED = 137  # 128 + SIGKILL


def image(name: str) -> str:
    """Return the image if it was built from these sources; skip the test otherwise."""
    if shutil.which("podman") is None or os.geteuid() != 0:
        pytest.skip("podman is not installed, or this is not root: the images are not run")
    reference = f"localhost/forecaster:{name}"
    label = '{{index .Config.Labels "io.forecaster.sources"}}'
    process = subprocess.run(
        ["podman", "image", "inspect", "--format", label, reference], capture_output=True, text=True, check=False
    )
    if process.returncode != 0 or process.stdout.strip() != digest():
        pytest.skip(f"{reference} was not built of these sources: run `make images`")
    return reference


def state(folder: Path) -> tuple[str, ...]:
    """Return the options that mount the folder as the pipeline's, next to the only other writable
    place."""
    return ("--tmpfs", "/tmp", "--volume", f"{folder}:/srv/forecaster")


def run(name: str, folder: Path, *arguments: str, memory: str = "2g") -> subprocess.CompletedProcess[str]:
    """Run `forecaster …` in a container, with the folder as its state."""
    command = (*PODMAN, "run", "--rm", "--network", "host", *HARDENED, "--memory", memory)
    return subprocess.run(
        [*command, *state(folder), image(name), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[str, str]]:
    """Run a server of the image; yields its address and the name of its container. It must end on
    SIGTERM."""
    port = free_port()
    name = f"forecaster-test-{port}"
    command = (*PODMAN, "run", "--rm", "--name", name, "--network", "host", *HARDENED, "--memory", "512m")
    process = subprocess.Popen(
        [
            *command,
            "--tmpfs",
            "/tmp",
            "--volume",
            f"{folder}:/srv/forecaster",
            image("serve"),
            *arguments,
            "--port",
            f"{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield f"http://127.0.0.1:{port}", name
    finally:
        subprocess.run(["podman", "kill", "--signal", "TERM", name], capture_output=True, check=False)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors


def answer(address: str | urllib.request.Request, seconds: float = 60.0) -> bytes:
    """Return the first successful answer."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(OSError, urllib.error.URLError), urllib.request.urlopen(address, timeout=5) as response:
            content: bytes = response.read()
            return content
        time.sleep(0.2)
    raise AssertionError(f"{address!r} did not answer within {seconds:.0f} s")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the sample's folder after a whole run in the image `night`."""
    image("night")
    folder = tmp_path_factory.mktemp("container") / "fleet"
    command = [sys.executable, "-m", "forecaster", "init", str(folder), "--end", "2026-10-31"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    shrink(folder / "pipeline.yaml")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    process = run("night", folder, "run", "/srv/forecaster/pipeline.yaml", "--plain", "--as-of", "2026-11-01")
    assert process.returncode == 0, process.stderr
    assert "published in" in process.stderr
    return folder


def test_the_page_shows_what_a_night_in_a_container_published(fleet: Path) -> None:
    with serving(fleet, "serve", "/srv/forecaster/pipeline.yaml") as (address, _):
        assert answer(f"{address}/readyz") == b"publication 1 of harbor-fleet\n"
        assert b"NYC-01" in answer(f"{address}/depot/NYC-01")


def test_inference_forecasts_the_published_depots(fleet: Path) -> None:
    with serving(fleet, "infer", "/srv/forecaster/pipeline.yaml") as (address, _):
        answer(f"{address}/v2/health/ready")
        request = urllib.request.Request(
            f"{address}/v1/forecast", b'{"depots": ["NYC-01"]}', {"Content-Type": "application/json"}
        )
        forecast = json.loads(answer(request))
    assert forecast["depots"][0]["depot_id"] == "NYC-01"
    assert len(forecast["depots"][0]["quantiles"]) == 7


def test_page_and_inference_run_from_the_manifests_of_one_node(fleet: Path, tmp_path: Path) -> None:
    """Uses `podman play kube` with their arguments, accounts, read-only roots and probes, on a copy
    of the run's folder."""
    image("serve")
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: it puts the manifests together")
    state = tmp_path / "fleet"
    shutil.copytree(fleet, state)
    with (state / "pipeline.yaml").open("a", encoding="utf-8") as file:
        file.write(SIGN_IN)
    with playing(tmp_path, state, {"PAGE_SECRET": "abcdefghij" * 4}) as played:
        for container in played.values():
            for path in container.probes:
                answer(f"{container.address}{path}")
        page, inference = played["forecaster-page"], played["forecaster-inference"]
        ada = {"X-Forwarded-User": "ada", "X-Forwarded-Email": "ada@example.com"}
        assert b"NYC-01" in answer(urllib.request.Request(f"{page.address}/depot/NYC-01", headers=ada))
        asked = urllib.request.Request(f"{inference.address}/v1/forecast", b'{"depots": ["NYC-01"]}', ada)
        assert json.loads(answer(asked))["depots"][0]["depot_id"] == "NYC-01"
        assert b'forecaster_inference_ready{pipeline="harbor-fleet"} 1.0' in answer(inference.metrics)
        assert b"forecaster_publication_timestamp_seconds" in answer(page.metrics)
        for container in played.values():
            status = Path(f"/proc/{container.pid()}/status").read_text("utf-8")
            assert f"Uid:\t{NOBODY}\t" in status
            assert "CapEff:\t0000000000000000" in status


def test_predictions_are_published_by_the_champion(fleet: Path) -> None:
    process = run("night", fleet, "predict", "/srv/forecaster/pipeline.yaml", "--as-of", "2026-11-01", "--json")
    assert process.returncode == 0, process.stderr
    published = json.loads(process.stdout)
    assert published["tier"] == "champion"


def test_a_run_killed_at_its_memory_limit_is_made_up_for_by_the_next(fleet: Path) -> None:
    arguments = ("run", "/srv/forecaster/pipeline.yaml", "--plain", "--as-of", "2026-11-02")
    process = run("night", fleet, *arguments, memory="250m")
    assert process.returncode == KILLED, process.stderr
    with serving(fleet, "serve", "/srv/forecaster/pipeline.yaml") as (address, _):
        assert b"NYC-01" in answer(f"{address}/depot/NYC-01")  # the previous publication
    process = run("night", fleet, *arguments)
    assert process.returncode in (0, 3), process.stderr
    assert "published in" in process.stderr


def test_the_root_of_the_image_cannot_be_written(fleet: Path) -> None:
    command = (*PODMAN, "run", "--rm", "--network", "none", *HARDENED, "--entrypoint", "python", image("serve"))
    script = "import os; print(os.getuid()); open('/opt/forecaster/x', 'w')"
    process = subprocess.run([*command, "-c", script], capture_output=True, text=True, check=False)
    assert process.stdout.strip() == str(NOBODY)
    assert "Read-only file system" in process.stderr


def test_the_label_points_to_the_bill_of_materials(fleet: Path) -> None:
    reference = image("serve")
    label = '{{index .Config.Labels "io.forecaster.sbom"}}'
    inspect = ["podman", "image", "inspect", "--format", label, reference]
    path = subprocess.run(inspect, capture_output=True, text=True, check=True).stdout.strip()
    command = (*PODMAN, "run", "--rm", "--network", "none", *HARDENED, "--entrypoint", "cat", reference, path)
    bill = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    names = {component["name"] for component in bill["components"]}
    assert {"fastapi", "onnxruntime"} <= names
    assert "jax" not in names
