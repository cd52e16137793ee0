"""Train in a child process, so that a training that hangs, or that the kernel kills for lack of
memory, does not end the night.

The child reads the panel from its standard input and returns the model as bytes, which are cached
next to the checkpoints: a night with the same panel and pipeline file trains nothing. With
`training.hosts` the process is one of several; if one of them dies, JAX ends all of them, but not
the night.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import traceback
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import IO, Any

from forecaster import __version__
from forecaster.config import Spec, load
from forecaster.core import artifact
from forecaster.core.forecast import Candidate
from forecaster.core.language import N_
from forecaster.core.language.sentences import amount, as_argument, from_argument, of_error, sentence
from forecaster.core.panel import Panel
from forecaster.core.processes import garbage, parent_watch, resource_usage
from forecaster.errors import ForecasterError, NoUsableData, TrainingError
from forecaster.plugins import plugin
from forecaster.training import device_utilisation

TRAINED = "trained-"  # prefix of the file with the model of a completed training
OnEpoch = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Listeners:
    """Receivers of a training process's messages."""

    on_epoch: OnEpoch
    on_trouble: Callable[[str], None]
    on_measures: OnEpoch
    on_begin: Callable[[], None] = lambda: None  # called when the process has started


def fit_in_child_process(
    panel: Panel,
    spec: Spec,
    file: Path,
    *,
    panel_at: Callable[[date], Panel] | None = None,
    on_epoch: OnEpoch | None = None,
    on_trouble: Callable[[str], None] | None = None,
    on_measures: OnEpoch | None = None,
    on_begin: Callable[[], None] | None = None,
    profile: Path | None = None,
) -> Candidate:
    """Return the candidate of `fit_candidate.train_and_calibrate`, trained in a child process.

    `file` is the spec's file, `panel_at` returns the panel as of a cutoff. `on_measures` receives
    the resources that the process has used so far (`metric_names.OF_RUNS`), after each epoch and at
    the end, also for a training that is killed later; `on_begin` is called at the start. A cached
    model uses no resources: no receiver is called, and its summary has zeros. Raises NoUsableData
    as `train_and_calibrate` does, and TrainingError also if the process was killed or took longer
    than `schedule.max_training_hours`; the next training then resumes from its last checkpoint.
    """
    from forecaster.model.export import serialization
    from forecaster.model.fitting import jax_setup
    from forecaster.model.fitting.distributed import panel_to_bytes
    from forecaster.training import fit_candidate

    jax_setup.configure_for(spec)
    before = (panel_at or panel.at)(fit_candidate.first_cutoff(panel, spec))
    spec = fit_candidate.spec_to_train(spec, before, panel_at or panel.at)
    content = panel_to_bytes(before)
    cache = cached_model_path(content, spec)
    if profile is None and (candidate := _cached_model(cache)) is not None:
        candidate = _remembered(candidate)
        return fit_candidate.calibrated_before_backtest(candidate, before, panel_at)
    # a training that dies would leave checkpoints that do not match an older model
    for stale in cache.parent.glob(f"{TRAINED}*"):
        stale.unlink(missing_ok=True)
    hears = Listeners(on_epoch or _ignore, on_trouble or _ignore, on_measures or _ignore, on_begin or _nothing)
    with _prepared_meanwhile(before, spec, hears) as listeners, device_utilisation.sampled() as utilisation:
        model = _run_child(content, spec, file, profile, listeners)
    if by_device := utilisation():
        hears.on_measures({"device_utilisation": by_device})
    with suppress(OSError):
        artifact.write(cache, model)
    return fit_candidate.calibrated_before_backtest(serialization.from_bytes(model), before, panel_at)


def one_epoch_in_child_process(before: Panel, spec: Spec, file: Path, hears: Listeners) -> Candidate:
    """Return the candidate after one epoch of the training of a panel that ends at the cutoff. It
    compiles all programs of a whole training, and leaves nothing else. Raises what
    `fit_in_child_process` raises."""
    from forecaster.model.export import serialization
    from forecaster.model.fitting.distributed import panel_to_bytes

    return serialization.from_bytes(_run_child(panel_to_bytes(before), spec, file, None, hears, epochs=1))


def _remembered(candidate: Candidate) -> Candidate:
    """Return a model of an earlier training, with zeros for seconds and programs that this run did
    not use."""
    from forecaster.model.export.to_onnx import VARYING

    summary = {name: 0 if name in VARYING else value for name, value in candidate.summary.items()}
    measured = [dict.fromkeys(epoch, 0) for epoch in candidate.summary.get("measured", ())]
    return replace(candidate, summary={**summary, "measured": measured})


def is_cached(panel: Panel, spec: Spec, panel_at: Callable[[date], Panel] | None = None) -> bool:
    """Return True if a training of this panel, with this pipeline file and version, has completed
    and is cached."""
    from forecaster.model.fitting.distributed import panel_to_bytes
    from forecaster.training import fit_candidate

    before = (panel_at or panel.at)(fit_candidate.first_cutoff(panel, spec))
    spec = fit_candidate.spec_to_train(spec, before, panel_at or panel.at)
    return cached_model_path(panel_to_bytes(before), spec).exists()


def _cached_model(cache: Path) -> Candidate | None:
    """Return the cached model; None if there is none, or it cannot be read."""
    from forecaster.model.export import serialization

    try:
        return serialization.from_bytes(cache.read_bytes())
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None


def cached_model_path(panel: bytes, spec: Spec) -> Path:
    """Return the path of the cached model of a panel, this version and the file's training
    settings."""
    reports = sorted(spec.calendar.lead_error.items())
    settings = repr((__version__, spec.model, spec.training, spec.backtest.days, spec.horizon, *reports)).encode()
    if spec.training.start == "prior":
        settings += plugin("prior").digest().encode()
    return spec.paths.checkpoints / f"{TRAINED}{hashlib.sha256(settings + panel).hexdigest()[:32]}.npz"


def _run_child(
    panel: bytes, spec: Spec, file: Path, profile: Path | None, hears: Listeners, epochs: int | None = None
) -> bytes:
    """Train in a child process, and pass on its messages; return the model."""
    lead_error = dict(spec.calendar.lead_error)
    options = {"--profile": profile, "--epochs": epochs, "--lead-error": json.dumps(lead_error) if lead_error else None}
    arguments = [word for name, value in options.items() if value for word in (name, str(value))]
    command = [sys.executable, "-m", "forecaster.training.train", str(file), *arguments]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=parent_watch.environment())
    assert process.stdin
    assert process.stdout
    assert process.stderr
    timed_out = threading.Event()

    def end() -> None:
        timed_out.set()
        process.kill()

    # All three pipes are served at once: a full one would block both processes.
    limit = threading.Timer(spec.schedule.max_training_hours * 3600, end)
    complaints: list[bytes] = []
    listening = threading.Thread(target=_collect_lines, args=(process.stderr, complaints), daemon=True)
    sending = threading.Thread(target=_send, args=(process.stdin, panel), daemon=True)
    limit.daemon = True  # an interrupted process must not wait for it
    try:
        for thread in (limit, listening, sending):
            thread.start()
        hears.on_begin()
        model, fault = _messages(process.stdout, hears)
    finally:
        limit.cancel()
        if sys.exc_info()[0] is not None:
            process.kill()
        code = process.wait()
        if listening.ident is not None:
            listening.join()
    if timed_out.is_set():
        raise TrainingError(_late_message(spec.schedule.max_training_hours))
    if fault is not None:
        raise fault
    if code:
        raise TrainingError(_death_message(code, b"".join(complaints), several=spec.training.hosts is not None))
    return model


def _late_message(hours: float) -> str:
    template = N_(
        "training took longer than schedule.max_training_hours ({hours}) and was stopped; the next training "
        "continues from its checkpoint"
    )
    return sentence(template, hours=amount(hours, "g"))


@contextmanager
def _prepared_meanwhile(before: Panel, spec: Spec, hears: Listeners) -> Iterator[Listeners]:
    """Yield listeners that prepare the steps after the training once it has started (`_prepare`).

    In a separate thread, because a signal that arrives while JAX compiles may be lost; the thread
    is joined, because a process that ends during a compilation is aborted (SIGABRT).
    """
    preparation = threading.Thread(target=_prepare, args=(before, spec))

    def begin() -> None:
        hears.on_begin()
        preparation.start()

    try:
        yield replace(hears, on_begin=begin)
    finally:
        if preparation.ident is not None:
            preparation.join()


def _prepare(before: Panel, spec: Spec) -> None:
    """Compile and export the steps after the training, without the weights, while the child still
    imports and compiles. Errors are ignored: the later step repeats the work and reports them."""
    with suppress(Exception):
        from forecaster.training import fit_candidate

        fit_candidate.compile_ahead(before, spec)
    with suppress(Exception):
        from forecaster.model.fitting import train
        from forecaster.training import onnx_cache

        onnx_cache.template(train.blank(before, spec), spec)


def _messages(pipe: IO[bytes], hears: Listeners) -> tuple[bytes, ForecasterError | None]:
    """Read the child's lines of JSON to their end: return the model, empty if there is none, and
    the final error."""
    model = b""
    fault: ForecasterError | None = None
    with pipe:
        for line in pipe:
            kind, value = json.loads(line)
            if kind == "epoch":
                hears.on_epoch(value)
            elif kind == "trouble":
                hears.on_trouble(from_argument(value))
            elif kind == "measures":
                hears.on_measures(value)
            elif kind == "fault":
                fault = (NoUsableData if value[0] == NoUsableData.__name__ else TrainingError)(from_argument(value[1]))
            else:
                model = base64.b64decode(value)
    return model, fault


def _death_message(code: int, complaints: bytes, *, several: bool) -> str:
    if several:
        template = N_(
            "another of training.hosts died or did not connect: the training process ended with {code}; start "
            "`forecaster assist` on each of them, and the next training continues from the last checkpoint"
        )
        return sentence(template, code=code)
    if code < 0:
        template = N_(
            "the training process was killed (signal {signal}), as the system does when memory runs out; fewer "
            "training.members or a smaller training.batch_depots need less, and the next training continues from "
            "its checkpoint"
        )
        return sentence(template, signal=-code)
    lines = complaints.decode("utf-8", "replace").strip().splitlines() or ["nothing"]
    template = N_("the training process ended with exit code {code} and printed: {words}")
    return sentence(template, code=code, words=lines[-1][:500])


def _collect_lines(pipe: IO[bytes], lines: list[bytes]) -> None:
    with pipe:
        for line in pipe:
            lines.append(line)
            del lines[:-50]


def _send(pipe: IO[bytes], content: bytes) -> None:
    try:
        with pipe:
            pipe.write(content)
    except OSError:  # the process ended without reading, and reports the reason itself
        return


def _ignore(_: object) -> None:
    pass


def _nothing() -> None:
    pass


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line of the process."""
    parser = argparse.ArgumentParser(prog="forecaster.training.train", allow_abbrev=False)
    parser.add_argument("file", type=Path)
    parser.add_argument("--profile", type=Path, help="a folder for a trace of two epochs")
    parser.add_argument("--epochs", type=int, help="train no longer, from nothing, and keep no checkpoint")
    parser.add_argument("--lead-error", type=json.loads, default={}, help="errors of reports, by covariate")
    return parser.parse_args(arguments)


def _epoch_json(epoch: Any) -> dict[str, Any]:
    return {**asdict(epoch), "depot_days_a_second": epoch.depot_days_a_second}


# --- the process ------------------------------------------------------------------------------------------------------


def main() -> None:
    """Run the child process: `python -m forecaster.training.train FILE [OPTIONS]`, with a panel on
    its standard input.

    Writes one line of JSON, [kind, value], for each message.
    """
    garbage.look_seldom()
    from forecaster.model.export import serialization
    from forecaster.model.fitting import device_measures
    from forecaster.model.fitting.distributed import panel_from_bytes
    from forecaster.training import fit_candidate

    parent_watch.end_with_parent()
    options = _options(sys.argv[1:])
    spec = load(options.file).with_lead_error(options.lead_error)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # other output must not appear between the lines

    def tell(kind: str, value: Any) -> None:
        out.write(json.dumps([kind, value]) + "\n")

    def after_epoch(epoch: Any) -> None:
        tell("measures", resource_usage.usage("training"))
        tell("epoch", _epoch_json(epoch))

    # Checkpoints of an unfinished training must not lie where a night looks for its own.
    folder = tempfile.TemporaryDirectory() if options.epochs else nullcontext(None)
    try:
        with folder as elsewhere:
            candidate = fit_candidate.train_uncalibrated(
                panel_from_bytes(sys.stdin.buffer.read()),
                spec,
                profile=options.profile,
                on_epoch=after_epoch,
                on_trouble=lambda text: tell("trouble", as_argument(text)),
                checkpoints=Path(elsewhere) if elsewhere else None,
                epochs=options.epochs,
            )
    except ForecasterError as error:
        tell("fault", [type(error).__name__, as_argument(of_error(error))])
        return
    except Exception:
        if spec.training.hosts is None:
            raise
        traceback.print_exc()
        os._exit(1)  # JAX would first wait for the host that is gone
    tell("measures", {**device_measures.of_training(candidate.summary), **resource_usage.usage("training")})
    tell("model", base64.b64encode(serialization.to_bytes(candidate)).decode())


if __name__ == "__main__":
    main()
