"""Time limits of a run's access to the lake: limits of the object store's client, and one budget
around everything.

Both are shares of the time between `schedule.cron` and `schedule.deadline`. The client retries
rejected or unanswered requests by itself; the budget ends what it does not notice (a network
folder, an answer at a byte per second).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from forecaster.core.time_limits import Budget
from forecaster.errors import LakeSilent, TimeLimitExceeded
from forecaster.lake.faults import is_timeout

Result = TypeVar("Result")

WAITING = 1 / 3  # share of the nightly run's time that one process may wait for the lake in total
# maximum seconds for a request, a connection and all retries
REQUEST, CONNECTING, TRYING = 30.0, 5.0, 180.0
# By default the client gives up after ten tries, which a store that rejects at once (503) uses up
# within seconds. Maximum number of tries, and maximum seconds between two of them: the time limit
# ends them first.
TRIES, BETWEEN = 1000, 5.0
TRIED = 1 / 12  # share of the nightly run's time, if that is less
_budgets: dict[tuple[str, float], Budget] = {}


def storage_options(url: str, window: float | None) -> dict[str, str] | None:
    """Limits of the client in the form that delta-rs passes to object_store; None for a folder,
    which has no client."""
    if window is None or "://" not in url:
        return None
    limits = {"timeout": REQUEST, "connect_timeout": CONNECTING, "retry_timeout": TRYING}
    options = {name: f"{max(1, round(min(limit, window * TRIED)))}s" for name, limit in limits.items()}
    return options | {"max_retries": f"{TRIES}", "backoff_config.max_backoff": f"{BETWEEN:g}s"}


class Waits:
    """Calls to one lake within this process's time budget; unlimited without one."""

    def __init__(self, url: str, window: float | None) -> None:
        self._url, self._window = url, window
        self._request = 0.0 if window is None else min(REQUEST, window * TRIED)
        self._budget = None if window is None else _budgets.setdefault((url, window), Budget(window * WAITING))

    def call(self, call: Callable[[], Result], table: str) -> Result:
        """Result of a call. Raises LakeSilent, which states the table and the waiting time."""
        if self._budget is None:
            return call()
        begun = time.monotonic()
        try:
            return self._budget.call(call, self._url)
        except TimeLimitExceeded as error:
            raise self._silent(table, begun) from error
        except Exception as error:  # delta-rs wraps its client's errors in many types
            if is_timeout(error, time.monotonic() - begun, self._request):
                raise self._silent(table, begun) from error
            raise

    def _silent(self, table: str, begun: float) -> LakeSilent:
        return LakeSilent(
            f"the lake at {self._url} did not answer within {time.monotonic() - begun:.0f} s (table '{table}'), of the "
            f"{self._window:.0f} s between schedule.cron and schedule.deadline; wanted a store that answers"
        )


def renew() -> None:
    """Reset the budget of every lake: another run of this process begins."""
    for budget in _budgets.values():
        budget.renew()
