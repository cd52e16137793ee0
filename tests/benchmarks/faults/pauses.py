"""SIGSTOP past the lease while a second night runs, then SIGCONT: the second publishes, the first must not any more."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from forecaster.config import load
from forecaster.errors import LedgerError
from forecaster.ledger import lease, tables
from forecaster.ledger.store import Ledger
from tests.benchmarks.faults import kills
from tests.benchmarks.faults.installation import LIMIT, TONIGHT, ending, forecaster, put_in_place, start

PLACES = ("here", "elsewhere")
"""Where the paused night runs, as the second sees it: on its own machine, where it is ended, or on another one."""
PATIENCE = 120.0  # seconds within which a continued night that lost its lease has to end
AT_WORK, WROTE, WITHOUT, OVER = "at work", "while it wrote", "without the lease", "over by then"
"""What a night was at: one that is stopped without the lease has not begun, or has ended but for its process."""
WRITING = "another program has been writing to it"
SENTENCES = "taken for dead; another run|not for run .* any more"


def one_trial(
    template: Path, folder: Path, twin: kills.Twin, mode: str, place: str, instant: float
) -> tuple[str, list[str]]:
    """What the night was at when it was stopped, and what was wrong afterwards, in sentences."""
    file = put_in_place(template, folder)
    words = ["run", str(file), "--plain", "--as-of", TONIGHT]
    first, said = start(folder, *words)
    time.sleep(instant)
    send = os.killpg if mode == "group" else os.kill
    lives = first.poll() is None
    if lives:
        send(first.pid, signal.SIGSTOP)
    try:
        had_lease = lives and _outlasts_its_lease(file, elsewhere=place == "elsewhere")
    except LedgerError:  # it was stopped while it wrote, and holds the ledger for itself
        return WROTE, _goes_on_after(first, send, file, words, twin)
    said = said.rename(folder / "said by the first")
    second = forecaster(folder, *words)
    faults = [f"{fault}; the first is process {first.pid}" for fault in kills._faults_of_ending(second, (0,))]
    if first.poll() is None:
        send(first.pid, signal.SIGCONT)
    # Waited for in any case: it would go on in the installation of the next trial.
    code = _code(first, faults, PATIENCE if had_lease else LIMIT)
    if had_lease:
        faults += _faults_of_first(first.pid, said, code, place)
    elif lives:
        faults += [f"the first ended with {code}: {ending(said, code, 0).sentence}"] if code != 0 else []
    faults += kills.compare(file, twin)
    faults += ["the first has left children"] if not had_lease and kills._group_lives(first.pid) else []
    return AT_WORK if had_lease else WITHOUT if lives else OVER, faults


def _goes_on_after(
    first: subprocess.Popen[bytes], send: Callable[[int, int], None], file: Path, words: list[str], twin: kills.Twin
) -> list[str]:
    """Who was stopped while it wrote keeps all others from writing: they say so, and it goes on as if nothing were."""
    second = forecaster(file.parent, *words)
    faults = [] if re.search(WRITING, second.err) else [f"the second said nothing of it: {second.sentence}"]
    send(first.pid, signal.SIGCONT)
    code = _code(first, faults, LIMIT)
    faults += [f"the first ended with {code}"] if code not in (0, 3) else []
    return faults + kills.compare(file, twin)


def _code(process: subprocess.Popen[bytes], faults: list[str], patience: float) -> int:
    try:
        return process.wait(patience)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        faults.append(f"the first had not ended after {patience:g} s")
        return process.wait()


def _faults_of_first(pid: int, said: Path, code: int, place: str) -> list[str]:
    end = ending(said, code, 0)
    faults = [f"a traceback of the first: {end.err[-2000:]}"] if "Traceback" in end.err else []
    if place == "elsewhere" and len(re.findall(SENTENCES, end.err)) != 1:
        faults.append(f"the first ended with {code} and no sentence: {end.sentence}")
    faults += [f"the first ended with {code}"] if code in (0, 3) else []
    faults += ["the first has left children"] if kills._group_lives(pid) else []
    return faults


def _outlasts_its_lease(file: Path, *, elsewhere: bool) -> bool:
    """Let the lease expire at once, as of a holder on another machine where wanted; whether there was one."""
    spec = load(file)
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        current = lease.read_lease(connection, spec.name)
        if current is None:
            return False
        _, rest = current.holder.split(" ", 1)
        holder = f"elsewhere {rest}" if elsewhere else current.holder
        expired = datetime.now(UTC) - timedelta(seconds=1)
        connection.execute(sa.update(tables.lease).values(holder=holder, expires_at=expired))
    return True
