"""Commands for on-call staff: their output and exit codes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from forecaster.config import load
from forecaster.ledger.store import Ledger
from tests.calls import Call
from tests.monitoring.conftest import file as file
from tests.monitoring.conftest import ledger as ledger
from tests.monitoring.conftest import spec as spec


def test_metrics_are_printed_or_written(call: Call, file: Path, ledger: Ledger) -> None:
    code, out, err = call("metrics", file)
    assert (code, err) == (0, "")
    assert 'forecaster_compile_cache_hits{pipeline="harbor-fleet"} 19.0\n' in out
    path = file.with_name("forecaster.prom")
    assert call("metrics", file, "--textfile", path) == (0, "", "")
    assert 'forecaster_ledger_readable{pipeline="harbor-fleet"} 1.0\n' in path.read_text("utf-8")


def test_errors_have_an_exit_code(call: Call, file: Path) -> None:
    code, _, err = call("metrics", file)
    assert (code, err.startswith("forecaster: there is no ledger at ")) == (2, True)
    code, _, err = call("metrics", file, "--port", "1", "--textfile", "x.prom")
    assert (code, err) == (2, "forecaster: found --port and --textfile, wanted only one of them\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = call("metrics", file, "--port", port)
    assert (code, f"--port: cannot listen on 127.0.0.1 port {port}: Address already in use" in err) == (2, True)


@pytest.mark.parametrize("address", ["9464", "127.0.0.1:http"])
def test_invalid_metrics_address_is_reported_before_serving(call: Call, file: Path, address: str) -> None:
    code, out, err = call("serve", file, "--port", "0", "--metrics", address)
    assert (code, out) == (2, "")
    assert err == f"forecaster: --metrics: found '{address}', wanted HOST:PORT, as in 127.0.0.1:9464\n"


def test_page_writes_its_answer_counts_on_termination(file: Path, ledger: Ledger) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "forecaster", "serve", str(file), "--port", "0", "--metrics", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        text=True,
    ) as page:
        try:
            assert page.stdout is not None
            [url] = [line.split()[-1] for _, line in zip(range(2), page.stdout, strict=False) if "metrics:" not in line]
            for _ in range(50):
                with suppress(httpx.TransportError):
                    assert httpx.get(f"{url}accuracy").status_code == 200
                    break
                time.sleep(0.2)
            page.send_signal(signal.SIGTERM)
            assert page.wait(60) == -signal.SIGTERM
        finally:
            page.kill()
    [counts] = load(file).paths.page_answers.glob("*.json")
    assert sum(total for total, _, _ in json.loads(counts.read_text("utf-8")).values()) == 1


def test_slo_lists_promises_and_a_broken_one_sets_the_exit_code(call: Call, file: Path, ledger: Ledger) -> None:
    code, out, err = call("slo", file)
    assert (code, err) == (0, "")
    assert "S2  unknown   97.0% of depot-nights by a model: not measured yet; budget –\n" in out
    assert out.endswith(
        "The pipeline file has no section slo: these are its defaults, and nothing follows from them.\n"
    )
    file.write_text(file.read_text("utf-8") + "slo: {bias: 0.01}\n", "utf-8")
    code, out, _ = call("slo", file)
    assert (code, "S9  broken    off by at most 1.0% in sum: -1.5%; budget -50% left, burns at 1.5\n" in out) == (
        3,
        True,
    )
    assert "promotions are frozen; missed objectives: " in out
    code, out, _ = call("slo", file, "--json")
    content = json.loads(out)
    assert (code, len(content["promises"]), content["promises"][-1]["state"]) == (3, 11, "broken")
    assert content["frozen"].startswith("promotions are frozen; missed objectives: ")
