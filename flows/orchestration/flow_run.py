"""Flow run of a run started by hand: inside Prefect if its API answers at once; otherwise Prefect
shows it afterwards, if its server comes up meanwhile.

Prefect is optional: without an API that answers, the line runs plainly and the run's outcome has a
note.
"""

from __future__ import annotations

import importlib
import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flows import local_stack, prefect_server
from flows.night import Night
from flows.protocol import Steps
from forecaster.config import Spec, credentials
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.errors import INTERRUPTED, TERMINATED, ForecasterError

Line = Callable[[Night, Steps], None]
_DID_NOT_COME_UP = N_("Prefect did not start; the run continued without it: {why}")
_begun: dict[str, BegunRun] = {}  # of this process, by run ID, during the flow


class BegunRun:
    """A run that this process began before its flow; the flow takes it over instead of beginning
    another one."""

    def __init__(self, night: Night) -> None:
        self.night = night
        self.error: Exception | None = None  # unexpected, of the line
        self._on_sigterm = signal.getsignal(signal.SIGTERM)

    def take(self, line: Callable[[], None]) -> None:
        """Run a line inside the flow; keep an unexpected error, so that the flow still reports the
        run."""
        try:
            with self._own_signals():
                self.night.run(line)
        except Exception as error:
            self.error = error

    @contextmanager
    def _own_signals(self) -> Iterator[None]:
        """Replace Prefect's SIGTERM handler by the process's own, so that the run ends in an
        outcome."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        of_prefect = signal.signal(signal.SIGTERM, self._on_sigterm)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, of_prefect)


def begun_here(run_id: str | None) -> BegunRun | None:
    """Return the run of this ID that this process began; None for a run begun by Prefect."""
    return _begun.get(run_id or "")


def run(night: Night, flow: str, line: Line) -> None:
    """Run a line once: as Prefect's flow if its API answers in time, otherwise plainly, and show it
    there afterwards."""
    spec = night.spec
    with prefect_server.running(local_stack.address(spec)) as ready:
        prefect = _Prefect(night, flow, ready)
        if prefect.answers(prefect_server.PATIENCE if needs_prefect(spec) else 0.0):
            prefect.run_flow()
        if night.outcome == "running":
            night.run(lambda: _run_unseen(night, line, prefect))
            if night.exit_code not in (INTERRUPTED, TERMINATED) and prefect.answers(prefect_server.PATIENCE):
                prefect.run_flow()
        if prefect.fault:
            night.progress.say(f"           Prefect does not show the run: {prefect.fault}")


def run_plainly(night: Night, line: Line) -> None:
    """Run a line without Prefect, whose blocks the digests need."""
    from flows import steps

    line(night, steps)
    _note_missed_digests(night)


def needs_prefect(spec: Spec) -> bool:
    """True if a step uses Prefect: its secret blocks or its task runners."""
    execution = spec.execution
    return any(credentials.secrets_in(json.dumps(spec.model_dump(mode="json")))) or (
        execution.runner != "threads" or execution.workers > 1
    )


class _Prefect:
    """Prefect's API for one run, and the reason why it does not show the run."""

    def __init__(self, night: Night, flow: str, ready: Callable[[float], str]) -> None:
        self.fault = ""
        self._night, self._flow, self._ready = night, flow, ready
        self._has_failed = False
        self._remark = ""  # on the server's version

    def answers(self, within: float) -> bool:
        """True if the API answers within these seconds of the run's start, and no flow has failed
        there."""
        if self._has_failed:
            return False
        try:
            self._remark, self.fault = self._ready(within), ""
        except ForecasterError as error:
            self.fault = str(error)
        return not self.fault

    def run_flow(self) -> None:
        """Call the flow, which runs the night's line, or shows it if it has ended."""
        night = self._night
        begun = _begun[night.run_id] = BegunRun(night)
        try:
            function = getattr(importlib.import_module(f"flows.{self._flow}"), self._flow)
            function(str(night.file), run_id=night.run_id, return_state=True)
        except KeyboardInterrupt as interrupt:
            night.run(lambda interrupt=interrupt: _raise(interrupt))  # type: ignore[misc]
        except BaseException as error:  # of any kind that a client may raise, including sys.exit of its settings
            self._has_failed, self.fault = True, _sentence(error, self._remark)
        finally:
            del _begun[night.run_id]
        if begun.error is not None:
            raise begun.error


def _run_unseen(night: Night, line: Line, prefect: _Prefect) -> None:
    """Run the line, and note in the outcome if Prefect is still unavailable."""
    from flows import steps

    line(night, steps)
    if not prefect.answers(prefect_server.PATIENCE):
        night.remark(sentence(_DID_NOT_COME_UP, why=prefect.fault))
        prefect.fault = ""  # already reported
        _note_missed_digests(night)


def _note_missed_digests(night: Night) -> None:
    if night.publication and night.spec.notify.digest:
        text = N_("notify.digest: not sent without Prefect; `forecaster digest {file} --send` sends them")
        night.remark(sentence(text, file=str(night.file)))


def _raise(error: BaseException) -> None:
    raise error


def _sentence(error: BaseException, remark: str) -> str:
    """Return the fault on one line, with the versions of both sides if they differ."""
    text = " ".join(str(error).partition("\n")[0].split())[:200]
    if not isinstance(error, ForecasterError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{text} ({remark})" if remark else text
