"""What a flood costs the page: large bodies of people who may and may not write, for minutes.

Fifty bodies of 300 MB, as viewers and as planners, with and without their length declared, again and again from a
process of their own; a reader asks for pages meanwhile. A body that is refused while
it comes ends there: what was sent of it is told.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import numpy as np

from tests.benchmarks.page import child, memory
from tests.benchmarks.report import ROOT, Figure, below, tell
from tests.dashboards.guests import SECRET
from tests.dashboards.seed import fill, publication

BODIES, BODY_MEGABYTES = 50, 300
SECONDS = 600
EVERY = 0.1  # seconds between the reader's questions
PATHS = ("/", "/depot/BOS-01", "/roster?city=Boston", "/wall", "/api/v1/depots/NYC-01", "/healthz", "/readyz")
MEGABYTE = bytes(1 << 20)
SERVER = """
import sys, socket, uvicorn
from pathlib import Path
from dashboards.ops.http.listening import config, quick
from forecaster.config import load
from tests.dashboards.guests import declared, house
quick()
limits = {"reads": "100000/minute", "writes": "100000/minute", "strangers": "100000/minute"}
app = house(sys.argv[1], declared(proxies=["127.0.0.1/32"], url=None, limits=limits), spec=load(Path(sys.argv[2])))
listener = socket.create_server(("127.0.0.1", 0), backlog=2000)
print(listener.getsockname()[1], flush=True)
uvicorn.Server(config(app)).run(sockets=[listener])
"""


@dataclass
class Flood:
    """What was sent: megabytes and bodies."""

    megabytes: float = 0.0
    bodies: int = 0
    whole_bodies: int = 0


async def _send_bodies(port: int, number: int, until: float, token: str, flood: Flood) -> None:
    """One body after the other: every second of a planner, every second of these chunked."""
    planner, chunked = number % 2 == 0, number % 4 < 2
    head = "POST /api/v1/overrides HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += f"X-Forwarded-User: {'paula' if planner else 'vic'}\r\nX-CSRF-Token: {token}\r\n"
    head += "X-Forwarded-Groups: planners\r\n" if planner else ""
    head += "Transfer-Encoding: chunked\r\n\r\n" if chunked else f"Content-Length: {BODY_MEGABYTES << 20}\r\n\r\n"
    part = b"%x\r\n%b\r\n" % (len(MEGABYTE), MEGABYTE) if chunked else MEGABYTE
    while time.monotonic() < until:
        flood.bodies += 1
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head.encode())
            for _ in range(BODY_MEGABYTES):
                if time.monotonic() > until:
                    break
                writer.write(part)
                await writer.drain()
                flood.megabytes += 1
            else:
                flood.whole_bodies += 1
            writer.transport.abort()
        except OSError:  # refused while it came
            await asyncio.sleep(0.05)


async def _flood(port: int, seconds: float, token: str) -> Flood:
    until, flood = time.monotonic() + seconds, Flood()
    bodies = [_send_bodies(port, number, until, token, flood) for number in range(BODIES)]
    await asyncio.gather(*bodies)
    return flood


def _read_meanwhile(port: int, server: int, flooding: subprocess.Popen[str]) -> tuple[list[float], int, list[float]]:
    """Seconds of each answer to a reader, how many were none, and the server's megabytes each second."""
    latencies, errors, megabytes, number = list[float](), 0, list[float](), 0
    while flooding.poll() is None:
        due, path = time.perf_counter() + EVERY, PATHS[number % len(PATHS)]
        try:
            begun = time.perf_counter()
            answer = httpx.get(f"http://127.0.0.1:{port}{path}", headers={"X-Forwarded-User": "vic"}, timeout=30)
            latencies.append(time.perf_counter() - begun)
            errors += answer.status_code != 200
        except httpx.HTTPError as error:
            errors += 1
            print(f"{path}: {type(error).__name__}: {error}", file=sys.stderr)
        if number % 10 == 0:
            megabytes.append(memory(server))
        number += 1
        time.sleep(max(due - time.perf_counter(), 0))
    return latencies, errors, megabytes


def measure(folder: Path, seconds: float) -> list[Figure]:
    url, file = f"sqlite:///{folder / 'ledger.db'}", folder / "pipeline.yaml"
    fill(url, publication(64))
    source = "demand: {source: {kind: csv, path: demand.csv}}"
    file.write_text(f"name: harbor-fleet\n{source}\nstate: .\nledger: {url}\n", "utf-8")
    os.environ["PAGE_SECRET"] = SECRET
    with child(SERVER, url, str(file)) as (server, port):
        paula = {"X-Forwarded-User": "paula", "X-Forwarded-Groups": "planners"}
        token = httpx.get(f"http://127.0.0.1:{port}/api/v1/me", headers=paula, timeout=30).json()["csrf"]
        for path in PATHS:
            httpx.get(f"http://127.0.0.1:{port}{path}", headers={"X-Forwarded-User": "vic"}, timeout=60)
        before = memory(server.pid)
        command = [sys.executable, "-m", "tests.benchmarks.page_flood", "--port", port, "--token", token]
        with subprocess.Popen(
            [*command, "--seconds", str(seconds)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as flooding:
            latencies, errors, megabytes = _read_meanwhile(int(port), server.pid, flooding)
            assert flooding.stdout is not None
            sent = json.loads(flooding.stdout.read())
        time.sleep(5)
        after = memory(server.pid)
    p50, p95 = np.percentile(latencies, [50, 95])
    return [
        Figure("sent of bodies", sent["megabytes"] / 1000, "GB", n=sent["bodies"]),
        Figure("bodies that were sent whole", sent["whole_bodies"], f"of {BODY_MEGABYTES} MB"),
        Figure("answers to a reader: p50", 1000 * p50, "ms", n=len(latencies)),
        Figure("answers to a reader: p95", 1000 * p95, "ms", n=len(latencies)),
        Figure("the slowest answer to a reader", 1000 * max(latencies), "ms", n=len(latencies)),
        below("questions of a reader without an answer", errors, "", 1),
        Figure("memory before", before, "MB"),
        Figure("memory at most", max(megabytes), "MB", n=len(megabytes)),
        below("memory more after it than before", after - before, "MB", 20),
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=SECONDS)
    arguments.add_argument("--port", type=int, help="of a page that is flooded from here; the figures are not taken")
    arguments.add_argument("--token", default="")
    options = arguments.parse_args()
    if options.port is not None:
        print(json.dumps(asdict(asyncio.run(_flood(options.port, options.seconds, options.token)))))
        return
    with tempfile.TemporaryDirectory() as folder:
        tell("page_flood", measure(Path(folder), options.seconds))


if __name__ == "__main__":
    main()
