"""Write publications in processes that are killed: one for each line of standard input, a run's name and the seconds
that it may write after its first publication.

Called by tests as a program of its own: children are forked from it before any thread runs.
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
    """Usage: killed_writers.py URL. After each line, how the process ended."""
    url = sys.argv[1]
    sa.make_url(url).get_dialect().import_dbapi()  # so that what a connection needs is there before the first fork
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
