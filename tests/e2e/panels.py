"""Grafana's queries against a real Prometheus that scrapes page and inference after a real run: no
panel is empty."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.e2e.on_call import ROOT, ask, eventually, running
from tests.ports import free_port

BOARDS = ROOT / "dashboards" / "grafana"
SCRAPES = """
global: {scrape_interval: 1s}
scrape_configs: [{job_name: forecaster, static_configs: [{targets: [TARGETS]}]}]
"""
RATE = "15s"  # period for rates: a dozen scrapes
PAGES = ("", "depot/NYC-01", "depot/NYC-01", "health", "wall", "wp-admin")
RIGHTLY_EMPTY = {  # metric → why a small run on a CPU lacks it
    "forecaster_device_memory_peak_bytes": "a processor has no memory of its own",
    "forecaster_device_memory_limit_bytes": "a processor has no memory of its own",
    "forecaster_device_utilisation_ratio": "it is asked of the driver of an accelerator",
    "forecaster_depots_drifted": "drift is told of depots of which 42 forecasts came true",
    "forecaster_depots_drift_tested": "drift is told of depots of which 42 forecasts came true",
    "forecaster_cities_drifted": "drift is told of depots of which 42 forecasts came true",
    "forecaster_network_drifted": "drift is told of depots of which 42 forecasts came true",
}
PATIENCE = 180.0  # seconds: a page writes the counts behind its promises once a minute


def all_but_devices_are_filled(file: Path, instant: str, folder: Path) -> None:
    """Check that every query of every panel has a number, except those in `RIGHTLY_EMPTY`."""
    if absent := [program for program in ("prometheus", "faketime") if shutil.which(program) is None]:
        pytest.skip(f"{', '.join(absent)} not installed: apt-get install prometheus faketime")
    pipeline = re.findall(r"(?m)^name: (\S+)", file.read_text("utf-8"))[0]
    with (
        _server("serve", "healthz", file, instant, folder) as (page, metrics),
        _server("infer", "v2/health/live", file, instant, folder) as (inference, others),
        _prometheus((metrics, others), folder) as prometheus,
    ):
        queries = set(_queries(pipeline))
        rightly_empty = {query for query in queries if set(re.findall(r"forecaster_\w+", query)) <= set(RIGHTLY_EMPTY)}
        empty, deadline = queries, time.monotonic() + PATIENCE
        while empty != rightly_empty and time.monotonic() < deadline:
            _read(page)
            _infer(inference)
            time.sleep(2)  # up to a minute passes until the page has written its counts
            empty = {query for query in empty if not _has_number(prometheus, query)}
        assert empty == rightly_empty, sorted(empty ^ rightly_empty)


def _queries(pipeline: str) -> Iterator[str]:
    """All queries, with values for Grafana's variables."""
    for board in sorted(BOARDS.glob("*.json")):
        for panel in json.loads(board.read_text("utf-8"))["panels"]:
            for target in panel.get("targets", ()):
                query = target["expr"].replace("$__rate_interval", RATE).replace("$pipeline", pipeline)
                assert "$" not in query, query
                yield query


def _has_number(prometheus: str, query: str) -> bool:
    answer = ask(f"{prometheus}/api/v1/query?{urlencode({'query': query})}")
    assert answer["status"] == "success", answer
    return any(not math.isnan(float(row["value"][1])) for row in answer["data"]["result"])


def _read(page: str) -> None:
    """Send requests of readers, and a rejected cross-origin write."""
    for path in PAGES:
        with suppress(urllib.error.HTTPError):
            urllib.request.urlopen(f"{page}/{path}", timeout=30).read()
    with suppress(urllib.error.HTTPError):
        ask(f"{page}/api/v1/overrides", {"depot_id": "NYC-01"})


def _infer(address: str) -> None:
    """Send requests of other programs: published forecasts, and a what-if, which runs the model."""
    days = ask(f"{address}/v1/forecast", {"depots": ["NYC-01"]})["dates"]
    ask(f"{address}/v1/forecast", {"depots": ["NYC-01"], "what_if": {"date": days[0], "kind": "closed"}})


@contextmanager
def _server(command: str, alive: str, file: Path, instant: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Serve the page or inference at an instant; yield its address and that of its metrics."""
    ports = [free_port(), free_port()]
    words = (sys.executable, "-m", "forecaster", command, str(file), "--port", str(ports[0]))
    with running(("faketime", instant, *words, "--metrics", f"127.0.0.1:{ports[1]}"), folder, command) as process:
        address = f"http://127.0.0.1:{ports[0]}"
        try:
            eventually(lambda: ask(f"{address}/{alive}"), command)
            yield address, f"127.0.0.1:{ports[1]}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)  # faketime does not forward the signal to the server
            eventually(lambda: _is_closed(ports[0]), f"the end of {command}")


def _is_closed(port: int) -> bool:
    with socket.socket() as listener:
        return listener.connect_ex(("127.0.0.1", port)) != 0


@contextmanager
def _prometheus(targets: Sequence[str], folder: Path) -> Iterator[str]:
    config, port = folder / "scrapes.yml", free_port()
    config.write_text(SCRAPES.replace("TARGETS", json.dumps(targets).strip("[]")), "utf-8")
    command = ("prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}")
    with running((*command, f"--web.listen-address=127.0.0.1:{port}"), folder):
        address = f"http://127.0.0.1:{port}"
        eventually(lambda: ask(f"{address}/-/ready"), "a Prometheus")
        yield address
