"""Other servers of the Open Inference Protocol give the same numbers for the same bundle and
request.

They need other versions than this product, so each has its own environment, named by
MLSERVER_PYTHON and KSERVE_PYTHON:

    uv venv /tmp/mlserver && uv pip install --python /tmp/mlserver/bin/python mlserver onnxruntime
    uv venv /tmp/kserve && uv pip install --python /tmp/kserve/bin/python kserve onnxruntime
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from forecaster.config import load
from tests.benchmarks.inference import RUNTIME
from tests.dashboards.inference.conftest import INFER, as_binary, as_json, python_of, read_binary, run, serving, window
from tests.ports import free_port

pytestmark = pytest.mark.long

KSERVE = """
import sys
import onnxruntime
from kserve import InferOutput, InferResponse, Model, ModelServer

class Graph(Model):
    def __init__(self, name, path):
        super().__init__(name)
        self.session = onnxruntime.InferenceSession(path)
        self.names = {node.name for node in self.session.get_inputs()}
        self.ready = True

    def predict(self, payload, headers=None, response_headers=None):
        arrays = {x.name: x.as_numpy() for x in payload.inputs if x.name in self.names}
        answer = self.session.run(None, arrays)[0]
        output = InferOutput(name="quantiles", shape=list(answer.shape), datatype="FP32")
        output.set_data_from_numpy(answer, binary_data=False)
        return InferResponse(response_id=payload.id, model_name=self.name, infer_outputs=[output])

ModelServer(http_port=int(sys.argv[2]), enable_grpc=False, workers=1).start([Graph("small", sys.argv[1])])
"""


@contextmanager
def mlserver(folder: Path, model: Path) -> Iterator[str]:
    python = python_of("MLSERVER_PYTHON")
    (folder / "graph.py").write_text(RUNTIME, "utf-8")
    ports = {name: free_port() for name in ("http_port", "grpc_port", "metrics_port")}
    (folder / "settings.json").write_text(json.dumps({"parallel_workers": 0, "host": "127.0.0.1", **ports}), "utf-8")
    settings = {"name": "small", "implementation": "graph.Graph", "parameters": {"uri": str(model)}}
    (folder / "model-settings.json").write_text(json.dumps(settings), "utf-8")
    command = [str(python.with_name("mlserver")), "start", str(folder)]
    with _process(command, folder):
        yield f"http://127.0.0.1:{ports['http_port']}"


@contextmanager
def kserve(folder: Path, model: Path) -> Iterator[str]:
    python, port = python_of("KSERVE_PYTHON"), free_port()
    (folder / "server.py").write_text(KSERVE, "utf-8")
    with _process([str(python), "server.py", str(model), str(port)], folder):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _process(command: list[str], folder: Path) -> Iterator[None]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def ready(client: httpx.Client) -> bool:
    try:
        return client.get("/v2/models/small/ready").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("server", [mlserver, kserve], ids=["MLServer", "KServe"])
def test_another_server_gives_the_same_numbers(server: Any, published: Path, tmp_path: Path) -> None:
    spec = load(published)
    arrays = window(spec, 0, 1, 2)
    # Unknown values have no JSON form that all of them read.
    arrays["demand"] = np.nan_to_num(arrays["demand"])
    [bundle] = spec.paths.bundles.iterdir()
    ours: list[Any] = []

    async def body() -> None:
        async with serving(spec) as served:
            content, headers = as_binary(arrays)
            ours.append(read_binary(await served.client.post(INFER, content=content, headers=headers)))

    run(body)
    with server(tmp_path, bundle / "model.onnx") as address, httpx.Client(base_url=address, trust_env=False) as client:
        until = time.monotonic() + 120
        while not ready(client):
            assert time.monotonic() < until, (tmp_path / "log").read_text("utf-8", "replace")[-2000:]
            time.sleep(0.1)
        bodies: list[tuple[bytes, dict[str, str]]] = [(json.dumps(as_json(arrays, id="1")).encode(), {})]
        if server is kserve:  # MLServer accepts no raw tensors over HTTP
            bodies.append(as_binary(arrays, id="1"))
        for content, headers in bodies:
            asked = content.replace(b'"binary_data_output": true', b'"binary_data_output":false')
            kind = "application/octet-stream" if headers else "application/json"
            answer = client.post(INFER, content=asked, headers={"Content-Type": kind, **headers}, timeout=60)
            assert answer.status_code == 200, answer.text
            [output] = answer.json()["outputs"]
            theirs = np.array(output["data"], np.float32).reshape(output["shape"])
            np.testing.assert_allclose(theirs, ours[0], rtol=1e-6)
