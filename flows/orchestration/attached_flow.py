"""Attached flow: Prefect beside a line, which begins at once and hands its steps over as soon as the server answers.

Prefect shows a run, tries again what reaches out, and tells whom it concerns. It is no condition: whatever its API does
(refuses, hangs, is of another version, dies in the middle), steps go on plainly, and the run's outcome has a note.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import threading
import time
from dataclasses import dataclass
from typing import Any, cast

from flows import local_stack, prefect_server
from flows.night import Night
from flows.orchestration.step_call import PrefectTrouble, StepCall, may_recover, set_current
from flows.protocol import Steps
from forecaster.config import Spec, credentials
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.errors import INTERRUPTED, TERMINATED, ForecasterError

HANDOVER = 10.0  # seconds that Prefect may take to begin a step
IMPORTING = 60.0  # seconds for which an import is waited for at most when a run is over
FAREWELL = 30.0  # seconds, after the run, to show it and to tell whom it concerns
DIGESTS = 70.0  # further seconds for morning digests, which take 60 at the most
_DID_NOT_COME_UP = N_("Prefect did not come up, and the run went on without it: {why}")
_LOST_ON_THE_WAY = N_("Prefect was lost on the way, and the run went on without it: {why}")
_TRIED_AGAIN = ("ingest", "register")  # what reaches out
_flows: dict[str, AttachedFlow] = {}  # of this process, by run


@dataclass(frozen=True)
class PlainStep:
    """A step that was done before Prefect was there, and is shown afterwards."""

    name: str
    seconds: float
    error: BaseException | None = None


class AttachedFlow:
    """Prefect's flow of one run, in a thread of its own; `steps` is what the line calls.

    Steps run plainly until the flow has begun, then as its tasks, and plainly again once Prefect is lost.
    """

    def __init__(self, night: Night, flow: str) -> None:
        self.night, self._name = night, flow
        self.steps = cast(Steps, _HandedOver(self))
        self._past: list[PlainStep] = []
        self._calls = queue.SimpleQueue[StepCall | None]()
        self._lock = threading.Lock()
        self._ready = self._over = self._is_hurried = False
        self._lost: str | None = None
        self._settled, self._finished, self._imported = threading.Event(), threading.Event(), threading.Event()
        self._deadline = time.monotonic() + prefect_server.PATIENCE + HANDOVER
        _flows[night.run_id] = self
        threading.Thread(target=self._follow, name="prefect", daemon=True).start()

    def take(self, name: str, *arguments: Any) -> Any:
        """Do a step: as a task where Prefect is there, plainly where it isn't (yet)."""
        if _asks_prefect(name, self.night.spec):
            self.wait()
        if not self._ready:
            try:
                return self._plainly(name, arguments)
            except Exception as error:
                if name not in _TRIED_AGAIN or self._lost or not may_recover(error):
                    raise
                self.wait()  # for Prefect's retries
                if not self._ready:
                    raise
        if self._lost:
            return self._plainly(name, arguments)
        call = StepCall(name, arguments)
        self._calls.put(call)
        pause = float(os.environ.get("FORECASTER_PAUSE", "2"))
        try:
            return call.outcome(begun_within=HANDOVER, retried_within=HANDOVER + 24 * pause)
        except PrefectTrouble as trouble:
            self._lose(sentence(_LOST_ON_THE_WAY, why=str(trouble)))
            return self._plainly(name, arguments)

    def wait(self) -> None:
        """Until Prefect is there, or is known not to come."""
        if not self._settled.wait(max(0.0, self._deadline - time.monotonic())):
            nothing = sentence(N_("nothing within {seconds} s"), seconds=str(_patience()))
            self._lose(sentence(_DID_NOT_COME_UP, why=nothing))

    @property
    def is_lost(self) -> bool:
        """Whether the run went on without Prefect."""
        return self._lost is not None

    def close(self) -> None:
        """The run is over: Prefect shows it and tells whom it concerns, or is left behind; but not while it is being
        imported, as a process that ends in the middle of that may be aborted (SIGABRT)."""
        self._is_hurried = self._lost is not None or self.night.exit_code in (INTERRUPTED, TERMINATED)
        self._over = True
        self._calls.put(None)
        self._imported.wait(IMPORTING)
        farewell = FAREWELL + (DIGESTS if self.night.spec.notify.digest else 0.0)
        if not self._finished.wait(0 if self._is_hurried else farewell) and not self._is_hurried:
            self.night.progress.say(f"           Prefect did not take down the run's end within {farewell:.0f} s")

    def serve(self) -> None:
        """Inside the flow: show what is done already, then take the steps up as tasks until the run is over."""
        from flows import tasks

        with self._lock:
            if self._lost:
                raise PrefectTrouble(self._lost)  # the run went on without it, and is not begun anew
            self._ready = True
        self._settled.set()
        for past in self._past:
            tasks.show_past(past.name, past.seconds, past.error)
        while (call := self._calls.get()) is not None:
            set_current(call)
            try:
                getattr(tasks, call.name)(*call.arguments)
            except BaseException as error:
                call.settle(error)
            else:
                call.settle()
            finally:
                set_current(None)

    def _follow(self) -> None:
        """Prefect's thread: its server, then the flow."""
        remark = ""
        try:
            with prefect_server.running(local_stack.address(self.night.spec)) as ready:
                flow = getattr(importlib.import_module(f"flows.{self._name}"), self._name)
                self._imported.set()
                if self._is_hurried:
                    return
                remark = ready()
                flow(str(self.night.file), run_id=self.night.run_id, return_state=True)
                if not self._ready:
                    raise PrefectTrouble("its flow ended before it had begun")
        except BaseException as error:  # of whatever kind a client may raise, sys.exit of its settings included
            why = _sentence(error, remark)
            self._lose(sentence(_LOST_ON_THE_WAY if self._ready else _DID_NOT_COME_UP, why=why))
        finally:
            _flows.pop(self.night.run_id, None)
            self._imported.set()  # or it never will be
            self._finished.set()
            self._settled.set()

    def _plainly(self, name: str, arguments: tuple[Any, ...]) -> Any:
        from flows import steps

        begun, error = time.monotonic(), None
        try:
            return getattr(steps, name)(*arguments)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._past.append(PlainStep(name, time.monotonic() - begun, error))

    def _lose(self, summary: str) -> None:
        with self._lock:
            if self._lost or self._over:
                return
            self._lost = summary
        self._settled.set()
        self.night.remark(summary)


class _HandedOver:
    """The steps of a line (`flows.protocol.Steps`), each handed over where Prefect is there."""

    def __init__(self, attached: AttachedFlow) -> None:
        self._attached = attached

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self._attached.take(name, *arguments)


def of_run(run_id: str | None) -> AttachedFlow | None:
    """The flow that this process attached to a run; None for a run that Prefect itself begins."""
    return _flows.get(run_id or "")


def _asks_prefect(step: str, spec: Spec) -> bool:
    """A step that Prefect has something for: its secret blocks, its task runners."""
    if step == "ingest":
        return any(credentials.secrets_in(json.dumps(spec.model_dump(mode="json"))))
    is_shared_out = step == "backtest" or (step == "predict" and spec.execution.depots_at_a_time is not None)
    return is_shared_out and (spec.execution.runner != "threads" or spec.execution.workers > 1)


def _patience() -> int:
    return int(prefect_server.PATIENCE + HANDOVER)


def _sentence(error: BaseException, remark: str) -> str:
    """What went wrong with Prefect on one line, with the versions of both sides where they differ."""
    text = " ".join(str(error).partition("\n")[0].split())[:200]
    if not isinstance(error, (ForecasterError, PrefectTrouble)):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{text} ({remark})" if remark else text
