"""Measure the inference service: throughput, latency, start and memory, without batches and against
MLServer.

    make bench-inference

The model has the size of the sample's (two layers of 32, two members), untrained, and is signed.
Each request has the raw inputs of one depot, with the binary tensor extension. Clients are
connections of one process on the same machine, which send the next request when the last is
answered; the rate of the second part is half of what they reached. Everything shares the same
cores, so a server gets what the clients leave.

MLServer accepts no raw tensors over HTTP (1.7.1 answers 500), so it gets JSON; ours is measured
with both. MLServer is measured if MLSERVER_PYTHON names a Python with it (in a separate
environment: it needs an older FastAPI). Its runtime is a dozen lines around onnxruntime, in the
server's process, without a request log, and its adaptive batching has our settings.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np

from tests.benchmarks.fleet_to_serve import AS_OF, NAME, published_fleet
from tests.benchmarks.report import ROOT, Figure, below, write_report

CLIENTS, SECONDS = 32, 6.0
LARGE = 10_000  # depots of one large request
TIMES = 3.0  # aim, relative to MLServer's throughput
MLSERVER, JSON = "MLSERVER_PYTHON", "application/json"
RUNTIME = """
import numpy as np, onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse

class Graph(MLModel):
    async def load(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = onnxruntime.InferenceSession(self.settings.parameters.uri, options)
        self.names = {node.name for node in self.session.get_inputs()}
        return True

    async def predict(self, payload):
        arrays = {x.name: NumpyCodec.decode_input(x) for x in payload.inputs if x.name in self.names}
        answer = self.session.run(None, arrays)[0]
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("quantiles", answer)])
"""


@dataclass(frozen=True)
class Load:
    """Measurements of the clients: answers per second, milliseconds of each, and rejected requests."""

    rate: float
    took: list[float]
    rejected: int

    def p(self, percent: float) -> float:
        return float(np.percentile(self.took, percent))


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="bench-inference-"))
    try:
        figures = []
        for figure in _figures(folder):
            print(f"{figure.figure}: {figure.value:.4g} {figure.unit}", flush=True)
            figures.append(figure)
        write_report("inference", figures)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _figures(folder: Path) -> Iterator[Figure]:
    file, body = published_fleet(folder / "small", 64)
    request = _http(body)
    with _ours(file):
        pass  # compiles the imports
    with _ours(file) as (port, process, begun):
        yield below("from the start of the process to the first answer", _first_answer(port, request) - begun, "s", 1.5)
        batched = asyncio.run(_closed_loop(port, request))
        in_json = asyncio.run(_closed_loop(port, _json_http(body)))
        half = asyncio.run(_open_loop(port, request, batched.rate / 2))
        yield below("memory of the process after the load", _memory(process), "MB", 250)
    with _ours(file, "--batch-rows", "1") as (port, _, _):
        _first_answer(port, request)
        unbatched = asyncio.run(_closed_loop(port, request))
    yield Figure(f"{CLIENTS} clients, one depot each: throughput", batched.rate, "1/s")
    yield Figure(f"{CLIENTS} clients, one depot each: p95", batched.p(95), "ms", n=len(batched.took))
    yield Figure(f"{CLIENTS} clients, one depot each, in JSON: throughput", in_json.rate, "1/s")
    yield Figure(f"{CLIENTS} clients, one depot each, in JSON: p95", in_json.p(95), "ms", n=len(in_json.took))
    yield Figure("without batches: throughput", unbatched.rate, "1/s")
    yield Figure("without batches: p95", unbatched.p(95), "ms", n=len(unbatched.took))
    yield Figure("throughput with batches relative to without", batched.rate / unbatched.rate, "times")
    yield below(f"at half of that rate ({batched.rate / 2:.0f}/s): p95", half.p(95), "ms", 50)
    yield Figure("at half of that rate: p50", half.p(50), "ms", n=len(half.took))
    yield Figure("at half of that rate: rejected", half.rejected, "requests")
    yield from _against_mlserver(folder, file, body, batched, in_json)
    yield from _large(folder / "large")


def _against_mlserver(folder: Path, file: Path, body: Mapping[str, Any], ours: Load, in_json: Load) -> Iterator[Figure]:
    python = os.environ.get(MLSERVER)
    if python is None:
        print(f"MLServer is skipped: {MLSERVER} names no Python with it")
        return
    [bundle] = (file.parent / "var" / "bundles").iterdir()
    with _ours(file) as (port, _, _):
        _first_answer(port, _json_http(body))
        expected = _quantiles(port, body)
    with _mlserver(folder / "mlserver", Path(python), bundle / "model.onnx") as (port, process):
        _first_answer(port, _json_http(body))
        np.testing.assert_allclose(_quantiles(port, body), expected, rtol=1e-4, atol=1e-3)
        theirs = asyncio.run(_closed_loop(port, _json_http(body)))
        yield Figure("MLServer: throughput", theirs.rate, "1/s")
        yield Figure("MLServer: p95", theirs.p(95), "ms", n=len(theirs.took))
        yield Figure("MLServer: memory", _memory(process), "MB")
    ratio = ours.rate / theirs.rate
    yield Figure("our throughput relative to MLServer's", ratio, "times", f">= {TIMES:g}", bool(ratio >= TIMES))
    yield Figure("the same, ours in JSON as well", in_json.rate / theirs.rate, "times")


def _large(folder: Path) -> Iterator[Figure]:
    """Request all depots of a large fleet at once by depot: computed, cached, and after a
    correction."""
    file, _ = published_fleet(folder, LARGE)
    with _ours(file) as (port, process, _):

        def seconds(depots: bytes) -> tuple[float, bytes]:
            request = Request(f"http://127.0.0.1:{port}/v1/forecast", depots, {"X-Deadline-Ms": "60000"})
            begun = time.perf_counter()
            with urlopen(request) as answer:
                content: bytes = answer.read()
            return time.perf_counter() - begun, content

        figures = [seconds(depots)[0] for depots in (b'{"depots": ["D0"]}', *[b"{}"] * 6)]
        _correct(file)
        ahead = _until_computed(port, 2 * LARGE)
        after, content = seconds(b"{}")
        answers = json.loads(content)["depots"]
        assert len(answers) == LARGE
        assert answers[0]["overridden"][0]
        of_all = f"{LARGE:,} depots in one request"
        yield Figure(f"fleet of {LARGE:,} depots: first depot, for which the publication is read", figures[0], "s")
        yield below(f"{of_all}, computed", figures[1], "s", 1.0)
        yield below(f"{of_all}, cached, median", float(np.median(figures[2:])), "s", 1.0)
        yield Figure("after a correction, until all are read and computed without a request", ahead, "s")
        yield below(f"{of_all}, first request after a correction", after, "s", 1.0)
        yield Figure(f"{LARGE:,} depots: size of the answer", len(content) / 1e6, "MB")
        yield Figure(f"{LARGE:,} depots: memory of the process", _memory(process), "MB")


def _correct(file: Path) -> None:
    """Save an override, which publishes again with a planner's number of orders."""
    from forecaster.config import load
    from forecaster.ledger.store import Ledger
    from forecaster.planning import service
    from forecaster.planning.overrides import ProposedOverride

    spec = load(file)
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        assert head is not None
        day = ledger.whole(head).depots[0].days[0].target_date
    service.save(spec, ProposedOverride("D0", day, 7, "weather", "bench", "storm"), now=AS_OF)


def _until_computed(port: int, rows: int) -> float:
    """Return the seconds until a given number of rows was computed since the start."""
    begun = time.perf_counter()
    while True:
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            [computed] = re.findall(r"(?m)^forecaster_inference_batch_rows_sum\{.*\} (\S+)$", answer.read().decode())
        if float(computed) >= rows:
            return time.perf_counter() - begun
        if time.perf_counter() - begun > 120:
            raise TimeoutError(f"{computed} rows were computed, wanted {rows}")
        time.sleep(0.1)


# --- servers ----------------------------------------------------------------------------------------------------------


@contextmanager
def _ours(file: Path, *options: str) -> Iterator[tuple[int, subprocess.Popen[str], float]]:
    """Run the service of a pipeline; yield its port, its process and its start time."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "forecaster", "infer", str(file), "--port", "0", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
            assert address is not None, "the service did not start"
            yield int(address[1]), process, begun
        finally:
            process.kill()


@contextmanager
def _mlserver(folder: Path, python: Path, model: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    from tests.ports import free_port

    folder.mkdir(parents=True)
    (folder / "graph.py").write_text(RUNTIME, "utf-8")
    ports = {name: free_port() for name in ("http_port", "grpc_port", "metrics_port")}
    (folder / "settings.json").write_text(
        json.dumps({"parallel_workers": 0, "debug": False, "host": "127.0.0.1", **ports}), "utf-8"
    )
    settings = {"name": NAME, "implementation": "graph.Graph", "parameters": {"uri": str(model)}}
    settings |= {"max_batch_size": 64, "max_batch_time": 0.005}
    (folder / "model-settings.json").write_text(json.dumps(settings), "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [str(python.with_name("mlserver")), "start", str(folder)]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            yield ports["http_port"], process
        finally:
            process.terminate()
            process.wait(20)


def _memory(process: subprocess.Popen[Any]) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text("utf-8")
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) * 1024 / 1e6


# --- clients ----------------------------------------------------------------------------------------------------------


def _tensor(name: str, x: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "shape": x.shape, "datatype": {"f": "FP32", "i": "INT32"}[x.dtype.kind], **more}


def _http(body: Mapping[str, Any]) -> bytes:
    """Return a whole request with raw tensors."""
    inputs = [_tensor(name, x, parameters={"binary_data_size": x.nbytes}) for name, x in body.items()]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    content = b"".join([head, *(np.ascontiguousarray(x).tobytes() for x in body.values())])
    return _request(content, "application/octet-stream", f"Inference-Header-Content-Length: {len(head)}")


def _in_json(body: Mapping[str, Any]) -> bytes:
    return json.dumps({"inputs": [_tensor(name, x, data=x.ravel().tolist()) for name, x in body.items()]}).encode()


def _json_http(body: Mapping[str, Any]) -> bytes:
    """Return the same request in JSON."""
    return _request(_in_json(body), JSON)


def _request(content: bytes, kind: str, *more: str) -> bytes:
    lines = [
        f"POST /v2/models/{NAME}/infer HTTP/1.1",
        "Host: 127.0.0.1",
        f"Content-Type: {kind}",
        "X-Deadline-Ms: 30000",
    ]
    return "\r\n".join([*lines, *more, f"Content-Length: {len(content)}", "", ""]).encode() + content


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> tuple[int, bytes]:
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(re.search(rb"(?im)^content-length: (\d+)", head)[1])  # type: ignore[index]
    return int(head[9:12]), await reader.readexactly(size)


def _first_answer(port: int, request: bytes) -> float:
    """Send the request until it is answered, and return the time of the first answer."""

    async def once() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        status, _ = await _exchange(reader, writer, request)
        writer.close()
        return status

    until = time.perf_counter() + 60
    while time.perf_counter() < until:
        try:
            if asyncio.run(once()) == 200:
                return time.perf_counter()
        except (OSError, asyncio.IncompleteReadError):
            pass
        time.sleep(0.01)
    raise SystemExit("no answer within a minute")


async def _closed_loop(port: int, request: bytes) -> Load:
    """Run `CLIENTS` connections that send the next request after each answer; the first second does
    not count."""
    took: list[float] = []
    rejected = 0
    begin = time.perf_counter() + 1
    end = begin + SECONDS

    async def client() -> None:
        nonlocal rejected
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (begun := time.perf_counter()) < end:
            status, _ = await _exchange(reader, writer, request)
            if begun >= begin:
                took.append(1e3 * (time.perf_counter() - begun))
                rejected += status != 200
        writer.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    if rejected:
        raise SystemExit(f"{rejected} of {len(took)} requests were rejected")
    return Load(len(took) / SECONDS, took, rejected)


async def _open_loop(port: int, request: bytes, rate: float) -> Load:
    """Send `rate` requests per second, whether or not earlier ones are answered; each is timed from
    when it was due."""
    took: list[float] = []
    rejected = 0
    free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    for _ in range(4 * CLIENTS):
        free.put_nowait(await asyncio.open_connection("127.0.0.1", port))
    begin = time.perf_counter()

    async def timed_request(due: float) -> None:
        nonlocal rejected
        connection = await free.get()
        status, _ = await _exchange(*connection, request)
        took.append(1e3 * (time.perf_counter() - due))
        rejected += status != 200
        free.put_nowait(connection)

    async with asyncio.TaskGroup() as tasks:
        for number in range(int(rate * SECONDS)):
            due = begin + number / rate
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            tasks.create_task(timed_request(due))
    return Load(rate, took, rejected)


def _quantiles(port: int, body: Mapping[str, Any]) -> Any:
    """Return a server's forecast of a depot, requested in JSON."""
    request = Request(f"http://127.0.0.1:{port}/v2/models/{NAME}/infer", _in_json(body), {"Content-Type": JSON})
    with urlopen(request) as answer:
        return np.array(json.load(answer)["outputs"][0]["data"], np.float32).ravel()


if __name__ == "__main__":
    main()
