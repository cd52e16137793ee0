"""One page over many pipelines of one PostgreSQL: how soon it is up, what it holds, and who sees which of them."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx

from tests.benchmarks.page import memory
from tests.benchmarks.pipelines import connections
from tests.benchmarks.report import ROOT, Figure, below, tell, working_folder
from tests.dashboards.seed import fill, publication
from tests.databases import postgres_server
from tests.e2e.on_call import free_port

ASKED = 20  # times that the front page is asked for, and pipelines whose pages are
PIPELINE = """
name: {name}
demand: {{source: {{kind: csv, path: demand.csv}}}}
ledger: {ledger!r}
page:
  access:
    sign_in: header
    url: http://127.0.0.1
    proxies: [127.0.0.1]
    secret: ${{PAGE_SECRET}}
    limits: {{reads: 100000/minute}}
    roles: {{viewer: [of-{name}], admin: [ada]}}
    cities: {{"*": ["*"]}}
"""


def write(folder: Path, ledger: str, count: int) -> list[Path]:
    """A pipeline file each, with a publication in the ledger; of each one reader, and ada is everybody's admin."""
    now = datetime.now(UTC)
    files = []
    for number in range(count):
        name = f"fleet-{number}"
        file = folder / name / "pipeline.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(PIPELINE.format(name=name, ledger=ledger), "utf-8")
        files.append(file)
    whole = publication(6)
    fill(
        ledger,
        *(
            replace(whole, pipeline=f"fleet-{n}", run_id=f"night-{n}", title=f"Fleet {n}", published_at=now, as_of=now)
            for n in range(count)
        ),
    )
    return files


@contextmanager
def served(files: Sequence[Path], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """`forecaster serve` of all files."""
    words = [sys.executable, "-m", "forecaster", "serve", *map(str, files), "--port", str(port)]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def ask(client: httpx.Client, who: str, path: str) -> httpx.Response:
    return client.get(path, headers={"X-Forwarded-User": who, "Remote-User": who, "X-Forwarded-Email": who})


def strangers(client: httpx.Client, count: int) -> list[str]:
    """What somebody sees that is not theirs, or does not see that is, a sentence each."""
    faults = []
    for number in range(count):
        name = f"fleet-{number}"
        who, other = f"of-{name}", f"/p/fleet-{(number + 1) % count}/"
        rows = ask(client, who, "/api/v1/pipelines").json()["rows"]
        if [row["name"] for row in rows] != [name]:
            faults.append(f"{who} sees {[row['name'] for row in rows]}")
        if (status := ask(client, who, other).status_code) != 404:
            faults.append(f"{who} is answered {status} at {other}")
    return faults


def processor(pid: int) -> float:
    """Seconds of a processor that a process has used."""
    words = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def measure(folder: Path, count: int) -> list[Figure]:
    """All figures of one page over so many pipelines."""
    os.environ["PAGE_SECRET"] = "s" * 40
    with postgres_server() as server:
        files = write(folder, server.url().render_as_string(hide_password=False), count)
        port, begun = free_port(), time.monotonic()
        with served(files, port) as process, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
            _until_up(client, process)
            up, empty, used = time.monotonic() - begun, memory(process.pid), processor(process.pid)
            begun = time.monotonic()
            whole = ask(client, "ada", "/").raise_for_status()
            first = time.monotonic() - begun
            time.sleep(3)
            begun = processor(process.pid)
            for _ in range(ASKED):
                whole = ask(client, "ada", "/").raise_for_status()
            each = (processor(process.pid) - begun) / ASKED
            faults = strangers(client, count)
            for number in range(0, count, max(1, count // ASKED)):
                ask(client, "ada", f"/p/fleet-{number}/").raise_for_status()
            for fault in faults:
                print("FAULT", fault)
            seen = len(ask(client, "ada", "/api/v1/pipelines").json()["rows"])
            return [
                Figure(f"{count} pipelines: until it answers", up, "s"),
                Figure("processor until then", used, "s"),
                Figure("the first front page of all", first, "s"),
                Figure("the front page of all, of a processor", each, "s", n=ASKED),
                Figure("bytes of it", len(whole.content), ""),
                Figure("compressed", float(whole.headers.get("content-length", 0)), ""),
                Figure("memory before anybody asks", empty, "MB"),
                Figure("memory after all that was asked here", memory(process.pid), "MB"),
                Figure("connections of PostgreSQL in use", connections(server), ""),
                Figure("pipelines that the admin of all sees", seen, "", f"{count}", seen == count),
                below("readers of one who see more or less than theirs", len(faults), "", 1),
            ]


def _until_up(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    while True:
        try:
            client.get("/healthz").raise_for_status()
            return
        except httpx.HTTPError:
            assert process.poll() is None, "the page stopped"
            time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipelines", type=int, default=200)
    with working_folder(None, "pipeline-page-") as folder:
        tell("pipeline_page", measure(folder, parser.parse_args().pipelines))


if __name__ == "__main__":
    main()
