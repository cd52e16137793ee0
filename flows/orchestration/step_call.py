"""Hand-over of one step to Prefect's thread: begun by whoever claims it first, never lost, never done twice."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any, Literal, ParamSpec, TypeVar, cast

from forecaster.errors import MissingExtra, NoUsableData, SourceUnreachable, SpecError, TimeLimitExceeded

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Claimant = Literal["prefect", "night"]

_of_thread = threading.local()  # the call that Prefect's thread is at


class TakenBack(Exception):
    """The night did not wait any longer, and does the step itself."""


class PrefectTrouble(Exception):
    """Prefect did not take the step up, or failed around it; the step itself was not begun."""


class StepCall:
    """A step with its arguments, waiting for Prefect's thread.

    One side claims it before the step's body begins. Prefect may begin it again (a retry) as long as the night has not
    taken it back.
    """

    def __init__(self, name: str, arguments: tuple[Any, ...]) -> None:
        self.name, self.arguments = name, arguments
        self._changed = threading.Condition()
        self._claimant: Claimant | None = None
        self._runs = False
        self._result: tuple[Any] | None = None
        self._error: BaseException | None = None
        self._settled = False
        self._engine_error: BaseException | None = None

    def run(self, body: Callable[[], Result]) -> Result:
        """Do the step, in Prefect's thread. Raises TakenBack when the night does it already."""
        with self._changed:
            if self._claimant == "night":
                raise TakenBack(self.name)
            self._claimant, self._runs = "prefect", True
            self._changed.notify_all()
        try:
            result = body()
        except BaseException as error:
            self._set(error=error)
            raise
        self._set(result=(result,))
        return result

    def settle(self, error: BaseException | None = None) -> None:
        """Prefect is through with it: no further try comes."""
        with self._changed:
            self._settled, self._engine_error = True, error
            self._changed.notify_all()

    def outcome(self, *, begun_within: float, retried_within: float) -> Any:
        """The step's result, once there is one, or its own error; seconds without a limit while the step runs.

        Raises PrefectTrouble where its body was not begun in `begun_within` seconds, or never: it is the caller's then.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._claimant is not None or self._settled, begun_within)
            if self._claimant is None:
                self._claimant = "night"
                raise PrefectTrouble(
                    f"{type(self._engine_error).__name__}: {self._engine_error}"
                    if self._engine_error
                    else f"the step {self.name} was not taken up within {begun_within:.0f} s"
                )
            failed_at: float | None = None
            while self._result is None:
                if self._runs:
                    failed_at = None
                    self._changed.wait()
                    continue
                failed_at = failed_at or time.monotonic()
                left = failed_at + retried_within - time.monotonic()
                if self._settled or left <= 0:
                    self._claimant = "night"
                    raise cast(BaseException, self._error)
                self._changed.wait(left)
            return self._result[0]

    def _set(self, *, result: tuple[Any] | None = None, error: BaseException | None = None) -> None:
        with self._changed:
            self._runs, self._result, self._error = False, result, error
            self._changed.notify_all()


def may_recover(error: Exception) -> bool:
    """A wrong file stays wrong, and what hung has had its time; a busy disk or a network may have recovered, a missing
    export may be there by then.
    """
    lost_for_tonight = SpecError, NoUsableData, MissingExtra, TimeLimitExceeded
    return isinstance(error, SourceUnreachable) or not isinstance(error, lost_for_tonight)


def set_current(call: StepCall | None) -> None:
    """The call that tasks of this thread belong to from now on."""
    _of_thread.call = call


def claimed(step: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A step that claims its call before it begins; one that belongs to no call just begins."""

    @functools.wraps(step)
    def body(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        call: StepCall | None = getattr(_of_thread, "call", None)
        return step(*arguments, **named) if call is None else call.run(lambda: step(*arguments, **named))

    return body
