"""The lake has a share of the nightly run's time, and errors state what was waited for."""

from __future__ import annotations

import threading
import time

import pytest

from forecaster.core.time_limits import Budget
from forecaster.errors import LakeSilent, TimeLimitExceeded
from forecaster.lake.limits import Waits, storage_options

never = threading.Event()


def test_client_waits_half_a_minute_per_request_and_less_in_a_short_window() -> None:
    tries = {"max_retries": "1000", "backoff_config.max_backoff": "5s"}  # the time limit ends them, not the number
    expected = {"timeout": "30s", "connect_timeout": "5s", "retry_timeout": "180s", **tries}
    assert storage_options("s3://bucket/lake", 2 * 3600.0) == expected
    short = {"timeout": "5s", "connect_timeout": "5s", "retry_timeout": "5s", **tries}  # a twelfth of a minute
    assert storage_options("s3://bucket/lake", 60.0) == short
    assert storage_options("/var/lake", 60.0) is None
    assert storage_options("s3://bucket/lake", None) is None


def test_each_call_may_take_half_of_the_remaining_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    limits, clock = list[float](), [0.0]

    def call_within(seconds: float, *_: object) -> None:
        limits.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr("forecaster.core.time_limits.call_within", call_within)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    budget = Budget(16.0)
    for _ in range(6):
        budget.call(int, "nobody")
    assert limits == [8.0, 4.0, 2.0, 1.0, 1.0, 1.0]  # never less than a second
    budget.renew()
    budget.call(int, "nobody")
    assert limits[-1] == 8.0


def test_error_names_the_hanging_lake_its_table_and_the_waiting_time() -> None:
    waits = Waits("s3://bucket/hangs", 6.0)  # a third of it is two seconds, the half of that one
    with pytest.raises(LakeSilent, match=r"the lake at s3://bucket/hangs did not answer within 1 s \(table 'demand'\)"):
        waits.call(never.wait, "demand")
    assert issubclass(LakeSilent, TimeLimitExceeded)
    assert waits.call(lambda: 7, "demand") == 7


@pytest.mark.parametrize(
    ("sentence", "is_silence"),
    [
        ("Generic S3 error: … in 6.2s - HTTP error\n ↳ error sending request\n  ↳ operation timed out", True),
        ("Generic S3 error: … in 5.0s - HTTP error: error sending request", False),  # at once: rejected
    ],
)
def test_timeout_of_the_client_is_reported_as_a_silent_lake(sentence: str, is_silence: bool) -> None:
    def fail() -> None:
        raise OSError(sentence)

    with pytest.raises(LakeSilent if is_silence else OSError):
        Waits("s3://bucket/late", 60.0).call(fail, "demand")
