"""Measure cold starts: from a command to its first answer, with processor time and memory, of each form that serves.

make bench-cold-starts

Page, inference and prediction as processes of this machine; page and inference in the image `serve`, by podman and from
the manifests of `flows/kubernetes/single`, where `make images` has built it and this is root. The fleet has 64 depots
and a model of the sample's size. Inference is asked for quantiles of raw inputs, the page for its front page, again
and again from the start on; a prediction has answered when its forecast is on disk. Each starts once before, so that
what it imports is compiled and files are in memory; then the median of `TIMES`. Processor and memory are
those of the first process (`VmRSS`), of a prediction the most that it held.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import numpy as np

from tests import fleets
from tests.benchmarks.fleet_to_serve import NAME, published_fleet
from tests.benchmarks.report import ROOT, Figure, tell
from tests.benchmarks.serving import LAUNCHER
from tests.e2e.on_call import free_port
from tests.flows.containers.manifests import PODMAN, pid_of, playing

TIMES, DEPOTS, MB = 3, 64, 1e6
IMAGE = "localhost/forecaster:serve"
Started = tuple[float, str, Callable[[], int]]  # when it was begun, where it answers, and its process
Start = Callable[[], AbstractContextManager[Started]]


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="bench-cold-starts-"))
    try:
        tell("cold_starts", list(_figures(folder)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _figures(folder: Path) -> Iterator[Figure]:
    file, inputs = published_fleet(folder / "fleet", DEPOTS)
    asking = {"infer": (f"/v2/models/{NAME}/infer", raw_request(inputs)), "serve": ("/", Request)}
    for command, (path, request) in asking.items():
        what = {"infer": "inference", "serve": "page"}[command]
        forms: dict[str, Start] = {"as a process": functools.partial(_process, command, file)}
        if has_image():
            forms["in the image `serve`, by podman"] = functools.partial(_container, command, file)
            forms["as a pod, by `podman play kube`"] = functools.partial(_pod, what, file, folder)
        for form, start in forms.items():
            yield from _measured(f"{what} {form}", start, path, request)
    yield from _prediction(folder)


def _measured(what: str, start: Start, path: str, request: Callable[[str], Request]) -> Iterator[Figure]:
    rows = []
    for _ in range(1 + TIMES):
        with start() as (begun, address, process):
            _answered(request(f"{address}{path}"))
            rows.append((time.perf_counter() - begun, *_spent(process())))
    yield from _told(what, "memory", rows[1:])


def _told(what: str, held: str, rows: Sequence[tuple[float, float, float]]) -> Iterator[Figure]:
    wall, cpu, memory = (statistics.median(values) for values in zip(*rows, strict=True))
    for figure in (
        Figure(f"{what}: first answer", wall, "s", n=TIMES),
        Figure(f"{what}: of a processor until then", cpu, "s", n=TIMES),
        Figure(f"{what}: {held}", memory / MB, "MB", n=TIMES),
    ):
        print(f"{figure.figure}: {figure.value:.3g} {figure.unit}", flush=True)
        yield figure


def _prediction(folder: Path) -> Iterator[Figure]:
    file = fleets.build_fleet(folder / "fleet").file
    rows = []
    for _ in range(1 + TIMES):
        predict = [sys.executable, "-m", "forecaster", "predict", str(file), "--out", "parquet"]
        with (folder / "forecast.parquet").open("wb") as out:
            launched = [sys.executable, "-c", LAUNCHER, *predict]
            process = subprocess.run(launched, cwd=ROOT, stdout=out, stderr=subprocess.PIPE, check=True)
        cpu, wall, kilobytes = map(float, process.stderr.split()[-3:])
        rows.append((wall, cpu, kilobytes * 1024))
    yield from _told("prediction of a small fleet as a process", "most memory", rows[1:])


# --- forms ------------------------------------------------------------------------------------------------------------


@contextmanager
def _process(command: str, file: Path) -> Iterator[Started]:
    port = free_port()
    words = [sys.executable, "-m", "forecaster", command, str(file), "--port", str(port)]
    begun = time.perf_counter()
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield begun, f"http://127.0.0.1:{port}", lambda: process.pid
        finally:
            process.kill()


@contextmanager
def _container(command: str, file: Path) -> Iterator[Started]:
    port = free_port()
    name = f"forecaster-bench-{port}"
    words = [*PODMAN, "run", "--rm", "--detach", "--name", name, "--network", "host", "--read-only", "--tmpfs", "/tmp"]
    words += ["--user", "0:0", "--cap-drop", "all", "--memory", "512m", "--volume", f"{file.parent}:/srv/forecaster"]
    words += [IMAGE, command, f"/srv/forecaster/{file.name}", "--port", str(port)]
    begun = time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    try:
        yield begun, f"http://127.0.0.1:{port}", lambda: pid_of(name)
    finally:
        subprocess.run(["podman", "rm", "--force", "--time", "0", name], capture_output=True, check=True)


@contextmanager
def _pod(what: str, file: Path, folder: Path) -> Iterator[Started]:
    name = f"forecaster-{what}"
    with playing(folder, file.parent, {}, only=[name], host="127.0.0.1") as played:
        yield played[name].begun, played[name].address, played[name].pid


def has_image() -> bool:
    """Whether `make images` has built what serves, and it can be run."""
    return shutil.which("podman") is not None and not subprocess.call(["podman", "image", "exists", IMAGE])


# --- questions --------------------------------------------------------------------------------------------------------


def raw_request(inputs: Mapping[str, Any]) -> Callable[[str], Request]:
    """URL → a request with raw inputs."""
    tensors = [
        {"name": name, "shape": x.shape, "datatype": {"f": "FP32", "i": "INT32"}[x.dtype.kind]}
        | {"parameters": {"binary_data_size": x.nbytes}}
        for name, x in inputs.items()
    ]
    head = json.dumps({"inputs": tensors, "parameters": {"binary_data_output": True}}).encode()
    content = b"".join([head, *(np.ascontiguousarray(x).tobytes() for x in inputs.values())])
    headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
    return functools.partial(Request, data=content, headers={**headers, "X-Deadline-Ms": "30000"})


def _answered(request: Request) -> None:
    until = time.perf_counter() + 60
    while time.perf_counter() < until:
        try:
            with urlopen(request, timeout=10) as answer:
                answer.read()
            return
        except (URLError, OSError):
            time.sleep(0.01)
    raise SystemExit(f"{request.full_url} did not answer within a minute")


def _spent(process: int) -> tuple[float, float]:
    """Seconds of a processor, and the bytes that a process holds."""
    times = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[11:13]
    status = Path(f"/proc/{process}/status").read_text("utf-8")
    [kilobytes] = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK"), int(kilobytes) * 1024.0


if __name__ == "__main__":
    main()
