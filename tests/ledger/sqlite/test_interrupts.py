"""An interrupt while SQLite asks for checksums is no damage, and is not lost."""

from __future__ import annotations

import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from forecaster.ledger import tables
from forecaster.ledger.sqlite import interrupts
from forecaster.ledger.store import Ledger
from tests.ledger.publications import start


class Stopped(KeyboardInterrupt):
    pass


@pytest.fixture
def raises() -> Iterator[None]:
    handler, hook = signal.getsignal(signal.SIGUSR1), sys.unraisablehook
    interrupts.raise_on(signal.SIGUSR1, Stopped)
    yield
    signal.signal(signal.SIGUSR1, handler)
    sys.unraisablehook = hook


def test_a_signal_that_comes_inside_sqlite_is_raised_after_it_and_no_row_is_taken_for_damaged(
    raises: None, tmp_path: Path
) -> None:
    main = threading.main_thread().ident
    assert main is not None
    with Ledger.open(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        for number in range(20):
            start(ledger, f"night-{number}")
        pairs = sa.select(sa.func.count()).select_from(tables.runs.join(tables.runs.alias("other"), sa.true()))
        for trial in range(5):
            with pytest.raises(Stopped):  # noqa: PT012
                threading.Timer(0.004 * trial, signal.pthread_kill, (main, signal.SIGUSR1)).start()
                while True:
                    with ledger.transaction() as connection:
                        assert connection.execute(pairs).scalar() == (20 + trial) ** 2
            start(ledger, f"after-{trial}")  # which no open transaction keeps from being written
            assert len(ledger.runs()) == 21 + trial


def test_a_signal_that_python_ignores_since_it_came_in_a_callback_is_sent_again(raises: None) -> None:
    referred = Stopped()
    reference = weakref.ref(referred, lambda _: signal.raise_signal(signal.SIGUSR1))
    del referred
    with pytest.raises(Stopped):
        time.sleep(30)
    assert reference() is None


def test_set_again_a_signal_is_heard_by_one_hook(raises: None) -> None:
    hook = sys.unraisablehook
    interrupts.raise_on(signal.SIGUSR1, Stopped)
    assert sys.unraisablehook is hook
