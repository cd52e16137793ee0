"""A step that is handed over is done once, by one side, and its own error is told from Prefect's."""

from __future__ import annotations

import threading
import time

import pytest

from flows.orchestration.step_call import PrefectTrouble, StepCall, TakenBack, claimed, set_current


def in_thread(work: object) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def test_the_result_is_the_steps_as_soon_as_it_is_there_whatever_prefect_does_afterwards() -> None:
    call = StepCall("panel", ())
    in_thread(lambda: call.run(lambda: 7))  # and never settled
    assert call.outcome(begun_within=5, retried_within=5) == 7


def test_a_step_that_is_not_taken_up_is_the_nights_and_never_prefects_afterwards() -> None:
    call = StepCall("panel", ())
    with pytest.raises(PrefectTrouble, match="the step panel was not taken up within 0 s"):
        call.outcome(begun_within=0, retried_within=5)
    with pytest.raises(TakenBack):
        call.run(lambda: pytest.fail("done twice"))


def test_what_prefect_raises_around_a_step_that_was_not_begun_is_told_as_prefects() -> None:
    call = StepCall("panel", ())
    call.settle(ConnectionError("gone"))
    with pytest.raises(PrefectTrouble, match="ConnectionError: gone"):
        call.outcome(begun_within=5, retried_within=5)


def test_a_steps_own_error_comes_through_once_prefect_tries_no_more() -> None:
    call = StepCall("ingest", ())

    def prefect() -> None:
        with pytest.raises(OSError, match="away"):
            call.run(away)
        time.sleep(0.05)
        call.settle(OSError("away"))

    in_thread(prefect)
    with pytest.raises(OSError, match="away"):
        call.outcome(begun_within=5, retried_within=60)


def test_a_second_try_may_mend_what_the_first_met() -> None:
    call = StepCall("ingest", ())

    def prefect() -> None:
        with pytest.raises(OSError, match="away"):
            call.run(away)
        time.sleep(0.05)
        call.run(lambda: "read")

    in_thread(prefect)
    assert call.outcome(begun_within=5, retried_within=60) == "read"


def test_a_second_try_that_never_comes_is_not_waited_for() -> None:
    call = StepCall("ingest", ())
    with pytest.raises(OSError, match="away"):
        call.run(away)
    with pytest.raises(OSError, match="away"):
        call.outcome(begun_within=5, retried_within=0)
    with pytest.raises(TakenBack):
        call.run(lambda: pytest.fail("done after the night had gone on"))


def test_a_step_outside_of_a_call_just_runs() -> None:
    double = claimed(lambda number: 2 * number)
    assert double(4) == 8
    call = StepCall("double", (4,))
    set_current(call)
    try:
        assert double(4) == 8
    finally:
        set_current(None)
    assert call.outcome(begun_within=0, retried_within=0) == 8


def away() -> None:
    raise OSError("away")
