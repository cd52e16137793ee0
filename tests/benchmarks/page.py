"""Measure the page: start, memory, bytes, and latency under load while publications arrive.

The load is open: requests are sent on schedule, whether or not earlier ones were answered, so that
queueing counts. If the client itself is late, for lack of a processor, that counts too, and is
reported. Every page is requested once before the load: the time of a first answer is a separate
figure.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import gzip
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np

from dashboards.ops.http.response_cache import STALE_SECONDS
from tests.benchmarks.page_memory import memory
from tests.benchmarks.page_mixed import mixed
from tests.benchmarks.report import ROOT, Figure, below, write_report
from tests.dashboards.seed import NOON, fill, publication

RATE = 500  # requests a second
SECONDS = 30
CONNECTIONS = 32
EVERY = 10  # seconds between publications
PATHS = ("/", "/", "/", "/depot/BOS-01", "/?city=Boston", "/?city=Boston&sort=city", "/wall", "/api/v1/depots/NYC-01")
SERVER = """
import sys, socket, uvicorn
from datetime import datetime
from dashboards.ops.app import create_app
from dashboards.ops.http.listening import config, quick
quick()
app = create_app(sys.argv[1], clock=lambda: datetime.fromisoformat(sys.argv[2]))
listener = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
uvicorn.Server(config(app)).run(sockets=[listener])
"""
PUBLISHER = """
import sys, time
from tests.dashboards.seed import fill, publication
depots, every, count = map(int, sys.argv[2:])
ready = [publication(depots, run_id=f"later-{i}") for i in range(count)]
print("ready", flush=True)
for each in ready:
    time.sleep(every)
    fill(sys.argv[1], each)
"""


@contextmanager
def child(code: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield a process and the first line of its output."""
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.terminate()


async def load(port: int) -> tuple[np.ndarray, np.ndarray]:
    """Return milliseconds from when each request was due until its whole answer arrived, and until
    it could be sent."""
    free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        free.put_nowait(await asyncio.open_connection("127.0.0.1", port))
    latencies: list[float] = []
    late: list[float] = []
    gc.disable()  # collecting the garbage of thousands of requests would delay the client
    begun = time.perf_counter() + 1  # by then all requests are scheduled

    async def timed_request(number: int) -> None:
        due = begun + number / RATE
        await asyncio.sleep(max(due - time.perf_counter(), 0))
        late.append(1000 * (time.perf_counter() - due))
        reader, writer = await free.get()
        path = PATHS[number % len(PATHS)]
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = re.search(rb"content-length: (\d+)", head)
        assert length is not None
        await reader.readexactly(int(length[1]))
        free.put_nowait((reader, writer))
        latencies.append(1000 * (time.perf_counter() - due))

    await asyncio.gather(*(timed_request(number) for number in range(RATE * SECONDS)))
    gc.enable()
    return np.array(latencies), np.array(late)


def first_view_kilobytes(address: str) -> float:
    """Return the kilobytes of a first view: the page and its static files, compressed."""
    page = httpx.get(address + "/", headers={"Accept-Encoding": "gzip"})
    static_files = set(re.findall(r'"(/static/[^"]+)"', page.text))
    return (
        int(page.headers["content-length"])
        + sum(len(gzip.compress(httpx.get(address + b).content)) for b in static_files)
    ) / 1000


def first_answer(address: str, path: str) -> float:
    """Return the milliseconds of a page that was not requested before."""
    begun = time.perf_counter()
    httpx.get(address + path, timeout=60).raise_for_status()
    return 1000 * (time.perf_counter() - begun)


def shown_after(url: str, address: str, depots: int) -> float:
    """Return the seconds from a publication until the page shows it."""
    fill(url, publication(depots, run_id="last", model="the last one"))
    published = time.perf_counter()
    while "the last one" not in httpx.get(address + "/", timeout=60).text:
        time.sleep(0.02)
    return time.perf_counter() - published


def measure(depots: int, folder: Path) -> list[Figure]:
    """Return all figures for a number of depots."""
    url = f"sqlite:///{folder / f'{depots}.db'}"
    fill(url, publication(depots))
    label = f"{depots:,} depots"
    begun = time.perf_counter()
    with child(SERVER, url, NOON.isoformat()) as (server, address):
        httpx.get(address + "/", timeout=60).raise_for_status()
        start = time.perf_counter() - begun
        figures = [
            Figure(f"{label}: cold start to the first page", start, "s"),
            below(f"{label}: first view, compressed", first_view_kilobytes(address), "kB", 50),
            below(f"{label}: memory after the first view", memory(server.pid), "MB", 60),
            Figure(f"{label}: PSS after the first view", memory(server.pid, "Pss"), "MB"),
        ]
        firsts = [first_answer(address, path) for path in sorted(set(PATHS))]
        with child(PUBLISHER, url, str(depots), str(EVERY), str(SECONDS // EVERY - 1)):
            took = time.perf_counter()
            waited, late = asyncio.run(load(int(address.rsplit(":", 1)[1])))
            took = time.perf_counter() - took - 1
        megabytes = memory(server.pid)
        p50, p95, p99 = np.percentile(waited, [50, 95, 99])
        return [
            *figures,
            Figure(f"{label}: slowest first answer of a page", max(firsts), "ms", n=len(firsts)),
            Figure(f"{label}: throughput", len(waited) / took, "requests/s", n=len(waited)),
            Figure(f"{label}: p50", p50, "ms", n=len(waited)),
            Figure(f"{label}: p95", p95, "ms", n=len(waited)),
            below(f"{label}: p99 at {RATE} requests/s", p99, "ms", 25),
            Figure(f"{label}: delay of the client, p99", float(np.percentile(late, 99)), "ms", n=len(late)),
            below(f"{label}: memory after the load", megabytes, "MB", 60),
            below(f"{label}: a publication is shown after", shown_after(url, address, depots), "s", STALE_SECONDS),
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mixed", type=float, metavar="MINUTES", help="measure mixed use of the sample instead")
    parser.add_argument(
        "--depots",
        type=int,
        help="with --mixed: number of generated depots instead of the sample, without people and what-ifs",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.mixed:
            name = f"page_mixed_{options.depots or 'sample'}"
            write_report(name, mixed(options.depots, options.mixed, Path(folder)))
            return
        for depots in (64, 5000):
            write_report(f"page_{depots}", measure(depots, Path(folder)))


if __name__ == "__main__":
    main()
