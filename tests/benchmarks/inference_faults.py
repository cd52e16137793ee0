"""Do to the inference service what may happen to its node, and count what clients saw.

make bench-inference-faults

A champion whose bundle is damaged, which is mended later; and, where `make images` has built `serve` and this is root,
a container whose memory is too small for what is asked (two bodies of 62 MB at once), beside the limit of the
manifests. One client asks for the quantiles of a depot every 20 ms all the while, on a connection of its own each time.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np

from forecaster.config import Spec, load
from forecaster.ledger.store import Ledger
from forecaster.serving import bundle, keys
from tests.benchmarks.cold_starts import IMAGE, has_image, raw_request
from tests.benchmarks.fleet_to_serve import NAME, published_fleet
from tests.benchmarks.report import ROOT, Figure, tell
from tests.e2e.on_call import eventually, free_port
from tests.flows.containers.manifests import PODMAN

PAUSE = 0.02  # between requests
DAMAGED_SECONDS = 10.0  # that the damaged champion reigns
ROWS = 1300  # of a large request: 62 MB
LIMITS = ("160m", "512m")
INFER = f"/v2/models/{NAME}/infer"


@dataclass
class Client:
    """What one client saw: how each request ended, by which version, and when answers came."""

    ends: Counter[str] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    answers: list[float] = field(default_factory=list)

    def ask(self, request: Request) -> None:
        try:
            with urlopen(request, timeout=30) as answer:
                head = json.loads(answer.read()[: int(answer.headers["Inference-Header-Content-Length"])])
            self.ends["200"] += 1
            self.versions[head["model_version"]] += 1
            self.answers.append(time.perf_counter())
        except HTTPError as error:
            self.ends[str(error.code)] += 1
        except OSError:
            self.ends["no answer"] += 1

    @property
    def longest_gap(self) -> float:
        """Seconds between two answers, at most."""
        return float(np.diff(self.answers).max())


@contextmanager
def asking(address: str, inputs: Mapping[str, Any]) -> Iterator[Client]:
    """A client that asks all the while."""
    client, over = Client(), threading.Event()

    def ask() -> None:
        while not over.is_set():
            client.ask(raw_request(inputs)(f"{address}{INFER}"))
            over.wait(PAUSE)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield client
    finally:
        over.set()
        thread.join()


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="bench-inference-faults-"))
    try:
        file, inputs = published_fleet(folder / "fleet", 64)
        figures = []
        for figure in _figures(file, inputs, folder):
            print(f"{figure.figure}: {figure.value:.4g} {figure.unit}", flush=True)
            figures.append(figure)
        tell("inference_faults", figures)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _figures(file: Path, inputs: Mapping[str, Any], folder: Path) -> Iterator[Figure]:
    yield from _damaged(file, inputs, folder)
    for limit in LIMITS if has_image() else ():
        yield from _without_memory(file, inputs, limit)


# --- a damaged champion -----------------------------------------------------------------------------------------------


def _damaged(file: Path, inputs: Mapping[str, Any], folder: Path) -> Iterator[Figure]:
    spec = load(file)
    [first] = spec.paths.bundles.iterdir()
    second = _another(spec, first)
    model = second / bundle.MODEL
    whole = model.read_bytes()
    port, log = free_port(), folder / "log"
    words = [sys.executable, "-m", "forecaster", "infer", str(file), "--port", str(port)]
    with log.open("wb") as out, subprocess.Popen(words, cwd=ROOT, stdout=out, stderr=out) as process:
        try:
            address = f"http://127.0.0.1:{port}"
            _ready(address)
            with asking(address, inputs) as client:
                model.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
                _promote(spec, second)
                time.sleep(DAMAGED_SECONDS)
                current, refused = (_metric(address, name) for name in ("model_current", "load_duration_seconds_count"))
                model.write_bytes(whole)
                mended = time.perf_counter()
                eventually(lambda: client.versions[second.name], "the new version")
                took = time.perf_counter() - mended
        finally:
            process.kill()
    what = "a damaged champion"
    others = sum(count for end, count in client.ends.items() if end != "200")
    yield Figure(f"{what}: answers of the old one meanwhile", client.versions[first.name], "answers")
    yield Figure(f"{what}: answers that were none", others, "answers", "0", others == 0)
    yield Figure(f"{what}: longest time without an answer", client.longest_gap, "s")
    yield Figure(f"{what}: `model_current` meanwhile", current, "0 or 1", "0", current == 0)
    yield Figure(f"{what}: loads refused within {DAMAGED_SECONDS:g} s", refused, "loads")
    named = len(re.findall(rf"{second.name}: model\.onnx has sha256", log.read_text("utf-8")))
    yield Figure(f"{what}: lines of the log that name it", named, "lines", ">= 1", named >= 1)
    yield Figure(f"{what}: from mended to its first answer", took, "s", "<= 32", took <= 32)


def _another(spec: Spec, folder: Path) -> Path:
    """The same model under another name."""
    read = bundle.load(folder, spec.paths.folder)
    about = {name: value for name, value in read.manifest.items() if name not in ("files", "format")}
    about["training"] = {**about["training"], "again": True}
    return bundle.write(spec.paths.bundles, read.model, read.weights, about, keys.signer(spec.paths.folder))


def _promote(spec: Spec, folder: Path) -> None:
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.promote(NAME, run_id="first", bundle_digest=folder.name, by="bench", reason="measured")


def _metric(address: str, name: str) -> float:
    with urlopen(f"{address}/metrics") as answer:
        text = answer.read().decode()
    of = ', *outcome="refused"|outcome="refused",' if "load" in name else ""
    lines = [line for line in text.splitlines() if line.startswith(f"forecaster_inference_{name}{{")]
    [line] = [line for line in lines if re.search(of, line)]
    return float(line.rsplit(" ", 1)[1])


# --- a node without memory --------------------------------------------------------------------------------------------


def _without_memory(file: Path, inputs: Mapping[str, Any], limit: str) -> Iterator[Figure]:
    name, port = f"forecaster-bench-{free_port()}", free_port()
    words = [*PODMAN, "run", "--detach", "--restart", "always", "--name", name, "--network", "host", "--read-only"]
    words += ["--tmpfs", "/tmp", "--user", "0:0", "--cap-drop", "all", "--memory", limit, "--memory-swap", limit]
    words += ["--volume", f"{file.parent}:/srv/forecaster", IMAGE, "infer", f"/srv/forecaster/{file.name}"]
    subprocess.run([*words, "--port", str(port)], check=True, stdout=subprocess.DEVNULL)
    address, large = f"http://127.0.0.1:{port}", Client()
    many = {key: np.repeat(array, ROWS, axis=0) for key, array in inputs.items()}
    try:
        _ready(address)
        with asking(address, inputs) as client:
            time.sleep(2)
            asked = [
                threading.Thread(target=large.ask, args=[raw_request(many)(f"{address}{INFER}")]) for _ in range(2)
            ]
            for thread in asked:
                thread.start()
            for thread in asked:
                thread.join()
            before = len(client.answers)
            eventually(lambda: len(client.answers) > before + 50, "answers again")
        restarts = ["podman", "inspect", "--format", "{{.RestartCount}}", name]
        count = int(subprocess.run(restarts, capture_output=True, text=True, check=True).stdout)
    finally:
        subprocess.run(["podman", "rm", "--force", "--time", "0", name], capture_output=True, check=True)
    what = f"a limit of {limit}, two bodies of 62 MB"
    yield Figure(f"{what}: times it was killed", count, "times")
    yield Figure(f"{what}: large requests answered", large.ends["200"], "of 2")
    yield Figure(f"{what}: small requests answered", client.ends["200"], "requests")
    for end in sorted(client.ends.keys() - {"200"}):
        yield Figure(f"{what}: small requests with {end}", client.ends[end], "requests")
    yield Figure(f"{what}: longest time without an answer", client.longest_gap, "s")


def _ready(address: str) -> None:
    def is_ready() -> bool:
        with urlopen(f"{address}/v2/health/ready", timeout=5) as answer:
            return bool(answer.status == 200)

    eventually(is_ready, "ready")


if __name__ == "__main__":
    main()
