"""Entry points of runs: first the run row, then the line, as a Prefect flow run or without Prefect."""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from flows import catch_up, environment, lines, local_stack, prefect_server
from flows.night import Night
from flows.orchestration import flow_run
from flows.protocol import Steps
from forecaster.config import DigestReceiver, Spec
from forecaster.errors import PUBLISHED, TERMINATED, MissingExtra

REQUIRED = ("prefect", "jax", "flax", "optax", "jax2onnx", "mlflow", "matplotlib")
HEAVY = ("forecaster.training.export",)  # JAX and onnxruntime
# MLflow and Matplotlib
LATER = ("forecaster.registry.mlflow_registry", "forecaster.reports.run_figures")


def nightly(
    file: Path,
    spec: Spec,
    as_of: datetime | None = None,
    *,
    profile: bool = False,
    plain: bool = False,
    due: bool = False,
    past: int = 0,
) -> int:
    """Run tonight's line for a pipeline file; returns the exit code. `profile` leaves a trace of
    training.

    With `past`, up to that many earlier nights are published too, if missing. With `due` it runs
    only if tonight's forecasts are missing, and afterwards the missed nights before it. Raises
    MissingExtra if a package is not installed.
    """
    _require_packages(REQUIRED[1:] if plain else REQUIRED)
    if due and not catch_up.missing_nights(str(file)):
        sys.stderr.write("nothing is due: every night has its forecasts\n")
        return PUBLISHED
    night = Night.begin(str(file), as_of, profile=profile)
    _run(night, "nightly", lines.nightly, spec, plain=plain, heavy=HEAVY, later=LATER)
    if past and night.publication:
        catch_up.publish_past_nights(night, past)
    if due and night.outcome != "busy":
        catch_up.catch_up_missed(str(file), _plain_steps())
    return night.exit_code


def refresh(file: Path, spec: Spec, as_of: datetime | None = None, *, plain: bool = False) -> int:
    """Forecast with the champion, including late data; returns the exit code."""
    _require_packages(() if plain else ("prefect",))
    night = Night.begin(str(file), as_of, kind="refresh")
    return _run(night, "predict_only", lines.predict_only, spec, plain=plain).exit_code


def maintain(file: Path, spec: Spec, *, plain: bool = False) -> int:
    """Clean up after the runs; returns the exit code."""
    _require_packages(() if plain else ("prefect",))
    night = Night.begin(str(file), kind="maintain")
    return _run(night, "maintain", lines.maintain, spec, plain=plain).exit_code


def backfill(
    file: Path, spec: Spec, first: date, last: date, *, trains: bool = False, again: bool = False, plain: bool = False
) -> int:
    """Forecast past dates into the archive, oldest first; returns the most serious exit code.

    Raises SpecError if no night of these days is past.
    """
    _require_packages(REQUIRED[1:] if trains else ())
    # Prefect would not show an error about the dates
    nights = catch_up.scheduled_nights(spec, first, last)
    remaining = len(nights if again else catch_up.without_forecasts(spec, nights))
    sentences = [f"nights to forecast: {remaining}"]
    if remaining < len(nights):
        sentences.append(f"{len(nights) - remaining} have forecasts already, which --again makes anew")
    if last > nights[-1].date():
        sentences.append(f"no night after {nights[-1]:%Y-%m-%d} is past")
    sys.stderr.write("; ".join(sentences) + "\n")
    if not remaining:
        return PUBLISHED
    parameters = {"first": first.isoformat(), "last": last.isoformat(), "trains": trains, "again": again}
    if not plain and (code := _backfill_in_prefect(str(file), spec, parameters)) is not None:
        return code
    finished = catch_up.backfill_dates(str(file), steps=_plain_steps(), **parameters)  # type: ignore[arg-type]
    return max((night.exit_code for night in finished), default=PUBLISHED)


def _backfill_in_prefect(file: str, spec: Spec, parameters: Mapping[str, Any]) -> int | None:
    """Return the exit code of the backfill as a flow; None if Prefect failed."""
    _require_packages(("prefect",))
    environment.prepare(spec.paths.folder)
    with prefect_server.running(local_stack.address(spec)) as ready:
        flow, view = _flow("backfill")
        try:
            ready(prefect_server.PATIENCE)
            return int(view.exit_code(flow(file, **parameters, return_state=True)))
        except Exception as error:  # of any kind that a client may raise
            sentence = str(error).partition("\n")[0][:200] or type(error).__name__
            sys.stderr.write(f"Prefect failed, and the dates are forecast without it: {sentence}\n")
            return None


def notify_blocks(spec: Spec, occasion: str, sentence: str) -> int:
    """Notify the blocks of `notify` about a command; returns their number. Raises SpecError as
    `send` does."""
    _require_packages(("prefect",))
    environment.prepare(spec.paths.folder)
    with prefect_server.running(local_stack.address(spec)) as ready:
        notify = importlib.import_module("flows.notify")
        ready(prefect_server.PATIENCE)
        return int(notify.send(spec, occasion, sentence))


def send_digests(spec: Spec, receivers: Sequence[DigestReceiver], *, again: bool) -> tuple[str, tuple[str, ...]]:
    """Send morning digests for the command; returns a sentence about the number sent, and the
    failures. With `again` also to receivers who have today's. Raises LedgerError if nothing has
    been published."""
    _require_packages(("prefect",))
    environment.prepare(spec.paths.folder)
    with prefect_server.running(local_stack.address(spec)) as ready:
        sending = importlib.import_module("flows.digests.sending")
        ready(prefect_server.PATIENCE)
        result = sending.send(spec, receivers, datetime.now(UTC), again=again)
        return result.sentence(), result.faults


def _run(
    night: Night,
    name: str,
    line: Callable[[Night, Steps], None],
    spec: Spec,
    *,
    plain: bool,
    heavy: tuple[str, ...] = (),
    later: tuple[str, ...] = (),
) -> Night:
    """Run a line, plainly or as a Prefect flow run."""
    if night.outcome != "running":
        return night
    if threading.current_thread() is threading.main_thread():  # signal handlers can only be set there
        # SIGTERM ends a run as Ctrl-C does: with an outcome, and with its child processes.
        signal.signal(signal.SIGTERM, _terminate)
    with _imported_ahead(heavy, later if plain else (*later, f"flows.{name}"), night.waits):
        if plain:
            return night.run(lambda: flow_run.run_plainly(night, line))
        environment.prepare(spec.paths.folder)
        for setting, value in environment.IMPATIENT.items():
            os.environ.setdefault(setting, value)
        flow_run.run(night, name, line)
        return night


def _terminate(number: int, frame: object) -> None:
    raise Terminated("SIGTERM")


class Terminated(KeyboardInterrupt):
    """The run was asked to stop, by the system or a container's end."""

    exit_code = TERMINATED


def _flow(name: str) -> tuple[Any, Any]:
    """Import a flow, and the module that reads its state; late, since Prefect reads the environment
    on import."""
    return getattr(importlib.import_module(f"flows.{name}"), name), importlib.import_module("flows.prefect_view")


def _plain_steps() -> Steps:
    from flows import steps

    return steps


def _require_packages(names: tuple[str, ...]) -> None:
    if absent := [name for name in names if importlib.util.find_spec(name) is None]:
        raise MissingExtra(
            f"a night needs {', '.join(absent)}, not installed here: pip install 'harbor-forecaster[train,flows]'"
        )


@contextmanager
def _imported_ahead(
    names: tuple[str, ...], later: tuple[str, ...] = (), waits: threading.Event | None = None
) -> Iterator[None]:
    """Import modules in the background of a line, which needs them later: some at once, and the
    `later` ones when it first `waits` for another process, since before that the two would only
    compete. At the end, an import in progress is awaited: a process that ends in the middle of
    importing JAX ends with a traceback, or is aborted (SIGABRT)."""
    is_over, waits = threading.Event(), waits or threading.Event()

    def import_modules() -> None:
        # the user of the module imports it again, and reports the error
        with suppress(Exception):
            for number, name in enumerate((*names, *later)):
                if number == len(names):
                    waits.wait()
                if not is_over.is_set():
                    importlib.import_module(name)

    thread = threading.Thread(target=import_modules, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        waits.set()
        thread.join()
