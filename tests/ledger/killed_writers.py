"""Write publications in processes that are then killed: one per line of standard input, with a
run's name and the seconds that it may write after its first publication.

Tests start this as a separate program: it forks children before any thread runs.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial

import sqlalchemy as sa

from forecaster.ledger.store import Ledger
from tests.forked import end
from tests.forked import start as fork
from tests.ledger.publications import publication, start


def write(url: str, run: str, ready: int) -> None:
    ledger = Ledger.open(url)
    start(ledger, run)
    for step in range(10_000):
        ledger.publish(publication(run, orders=100.0 + step, depots=40))
        if step == 0:  # however slow the machine, each writer leaves a publication
            os.write(ready, b".")


def main() -> None:
    """Usage: killed_writers.py URL. Print the exit status of the process after each line."""
    url = sys.argv[1]
    sa.make_url(url).get_dialect().import_dbapi()  # imports the driver before the first fork
    for line in sys.stdin:
        run, seconds = line.split()
        readable, writable = os.pipe()
        pid = fork(partial(write, url, run, writable))
        os.close(writable)
        os.read(readable, 1)
        os.close(readable)
        time.sleep(float(seconds))
        os.kill(pid, signal.SIGKILL)
        print(end(pid), flush=True)


if __name__ == "__main__":
    main()
