"""Run context: identity of a run, its state so far, and its end (outcome, exit code)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from flows.outcome.troubles import NightTroubles
from flows.outcome.verdict_lines import verdict_lines, verdict_row
from forecaster.config import Spec, load
from forecaster.core.forecast import CanaryOutcome, Scores, Verdict
from forecaster.core.knowledge import Finding, Knowledge, finding_of_row
from forecaster.core.language import N_
from forecaster.core.language.sentences import (
    as_argument,
    as_sentence,
    of_error,
    sentence,
    unpacked,
    without_start,
)
from forecaster.core.processes import parent_watch, resource_usage
from forecaster.core.processes.machine_samples import MachineSamples
from forecaster.core.progress import NightProgress as Progress
from forecaster.core.terminal import count
from forecaster.errors import (
    BUSY,
    DEGRADED,
    INTERRUPTED,
    NO_DATA,
    OUR_FAULT,
    PUBLISHED,
    ForecasterError,
    ForeignLake,
    LedgerError,
    LostLease,
    NoUsableData,
    TimeLimitExceeded,
)
from forecaster.lake import limits
from forecaster.ledger import run_start
from forecaster.ledger.publication import WITHOUT_OWN_MODEL
from forecaster.ledger.records import Kind, Outcome
from forecaster.ledger.store import GATE, Ledger
from forecaster.operations import due_nights, heartbeat, plan, retention
from forecaster.registry import outbox

if TYPE_CHECKING:
    from forecaster.demand.history.past_panels import Past

OUTCOMES: dict[int, Outcome] = {PUBLISHED: "published", DEGRADED: "degraded", NO_DATA: "no_data", OUR_FAULT: "failed"}
LONGEST_WITHOUT_TRAINING = 6 * 3600  # seconds until a run counts as hung, plus twice the maximum training time
PREDICTION = 3600.0  # seconds after which a prediction counts as hung, unless the night's window is shorter
WITHOUT_TRAINING: Mapping[Kind, tuple[str, ...]] = {"refresh": ("ingest", "predict"), "maintain": ("tidy",)}
"""Steps of the kinds of runs that never train."""


class Night:
    """Shared state of the steps of one run. A run row exists from the beginning, and always ends in
    an outcome."""

    def __init__(self, file: Path, spec: Spec, as_of: datetime, begun: datetime, ledger: Ledger, kind: Kind) -> None:
        self.file, self.spec, self.as_of, self.begun, self.kind = file, spec, as_of, begun, kind
        prefix = "" if kind == "night" else f"{kind}-"
        self.run_id = f"{as_of.astimezone(spec.zone):%Y-%m-%d}-{prefix}{uuid.uuid4().hex[:8]}"
        self.profile: Path | None = None
        self.trains = kind == "night"
        self.exit_code = OUR_FAULT
        self.outcome: Outcome = "running"
        self.publication: Mapping[str, Any] = {}  # report of the publication
        self.versions: dict[str, int] = {}
        self.knowledge: Knowledge | None = None  # the data as read; the fallback for a failed prediction
        self.past_panels: Past | None = None  # between training and backtest
        self.findings: list[Finding] = []
        self.verdict: Verdict | None = None
        self.promoted: str | None = None  # the bundle that became champion in this run
        self.prior_scores: Mapping[str, Scores] = {}  # of the prior, if it is published until there is a model
        self.preview: int | None = None  # the publication that stands until there is a model
        self.canary: CanaryOutcome | None = None  # result of the running canary
        self.waits = threading.Event()  # set once the run waits for another process
        self.progress = Progress(
            ledger.expected_timings(spec.name), run_id=self.run_id, stages=WITHOUT_TRAINING.get(kind)
        )
        self._ledger = ledger
        self._troubles = NightTroubles()
        self.machine = MachineSamples()
        self.measures: dict[str, Any] = {}  # of `metric_names.OF_RUNS`, so far
        self._is_deposed = False  # True once another run has taken the lease

    @classmethod
    def begin(
        cls,
        file: str,
        as_of: str | datetime | None = None,
        *,
        kind: Kind = "night",
        profile: bool = False,
        trains: bool | None = None,
    ) -> Self:
        """Open the run row and take the lease; with `profile` training leaves a trace.

        If another run is in progress, this one is over already, as `busy`. Raises SpecError for an
        invalid file, LedgerError for a ledger that cannot be written.
        """
        spec = load(file)
        begun = datetime.now(UTC)
        # A run that begins early is as of its scheduled instant, which at midnight changes its day.
        as_of = datetime.fromisoformat(as_of) if isinstance(as_of, str) else as_of
        instant = as_of or max(begun, due_nights.night_of(spec, begun))
        fault = run_start.lost_ledger(spec)
        night = cls(Path(file), spec, instant, begun, Ledger.open(spec.ledger_url), kind)
        limits.renew()
        night.profile = spec.paths.profiles / night.run_id if profile else None
        night.trains = night.trains if trains is None else trains
        scheduled = due_nights.night_of(spec, instant)
        start = run_start.begin(
            night._ledger, spec, run_id=night.run_id, kind=kind, as_of=instant, night=scheduled, now=begun
        )
        local = instant.astimezone(spec.zone)
        night.progress.say(f"{spec.name}: {kind} {night.run_id}, as of {local:%Y-%m-%d %H:%M} {spec.timezone}")
        if fault:
            night.remark(fault)
        if start.hung:
            night.progress.say(f"           {start.hung.sentence(spec.zone)}, hung, and was ended")
        for dead in start.closed_runs:
            night.progress.say(f"           run {dead} was killed, or its machine went down; it is closed")
        if start.closed_runs:
            with suppress(OSError):  # an error while cleaning up must not stop the run
                retention.sweep(spec)
        with suppress(OSError):  # without it, a plan reports that it cannot compare
            plan.save_spec(spec)
        if start.rival:
            night._ledger.close()
            night.exit_code, night.outcome = BUSY, "busy"
            rival = start.rival.sentence(spec.zone)
            night._troubles.add(rival)
            night.progress.say(f"not begun: {rival}")
        return night

    @property
    def message(self) -> str | None:
        return self._troubles.message

    @property
    def note_for_readers(self) -> str | None:
        """Note on the run so far, for the page."""
        return self._troubles.for_the_page(self.verdict)

    @property
    def longest_prediction(self) -> float:
        """Seconds until a prediction counts as hung: an hour, or until the deadline if sooner."""
        return min(PREDICTION, self.spec.schedule.window)

    def run(self, line: Callable[[], None]) -> Self:
        """Run the line, and end in an outcome; does nothing if the run is over already."""
        if self.outcome == "running":
            with self.ends_in_an_outcome():
                line()
        return self

    @contextmanager
    def ends_in_an_outcome(self) -> Iterator[None]:
        """Close the run row with an outcome, an exit code and a sentence, even after an error."""
        with ExitStack() as closing:
            closing.callback(self._ledger.close)
            closing.enter_context(self.progress.live_bar())
            longest = 2 * self.spec.schedule.max_training_hours * 3600 + LONGEST_WITHOUT_TRAINING
            closing.enter_context(self._renewed_lease(longest))
            if self.kind == "night":
                closing.enter_context(self.machine.taken())
                closing.push(self._tell_heartbeat(heartbeat.begin(self.spec)))
            try:
                yield
            except ForecasterError as error:
                self.exit_code = error.exit_code
                self._troubles.add_error(error)
            except KeyboardInterrupt as interrupt:
                self._interrupted_by(interrupt)
            except BaseException as error:
                self.exit_code = OUR_FAULT
                self._troubles.add_error(error)
                raise
            finally:
                self._end()
        self.progress.say(
            f"{self.outcome} in {self.progress.elapsed:.0f} s" + (f": {self.message}" if self.message else "")
        )

    def _renewed_lease(self, longest: float) -> AbstractContextManager[None]:
        """Renew the lease; end a run that lost it because a long pause made it seem dead."""

        def end() -> None:
            if self.outcome == "running" and callable(signal.getsignal(signal.SIGTERM)):
                self._is_deposed = True
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

        return run_start.lease_renewed(self._ledger, self.run_id, longest=longest, on_loss=end)

    def _tell_heartbeat(self, begun: Callable[[], None]) -> Callable[..., None]:
        """Return a function that reports the run's outcome to the heartbeat."""

        def tell(*_: object) -> None:
            begun()
            summary = f"{self.spec.name}, run {self.run_id}: {self.outcome}" + (
                f". {self.message}" if self.message else ""
            )
            if fault := heartbeat.send(self.spec, heartbeat.signal_of(self.exit_code), summary):
                self.progress.say(f"           {fault}")

        return tell

    def _interrupted_by(self, interrupt: KeyboardInterrupt) -> None:
        """Set the outcome of an interrupted run; only degraded once its forecast is published."""
        name = str(interrupt) or "Ctrl-C"
        if self._is_deposed:
            self.exit_code = OUR_FAULT
            deposed = N_("it was inactive for so long that another run took over its lease")
            self._troubles.add(sentence(deposed))
        elif self.publication:
            self.exit_code = DEGRADED
            self._troubles.add(sentence(N_("{signal} ended it after the forecast was out"), signal=name))
        else:
            self.exit_code = getattr(interrupt, "exit_code", INTERRUPTED)
            again = N_("{signal} ended it; the next run continues from the checkpoint")
            self._troubles.add(sentence(again, signal=name))

    def _end(self) -> None:
        self.outcome = OUTCOMES.get(self.exit_code, "failed")
        if self.kind == "maintain" and self.exit_code == PUBLISHED:
            self.outcome = "done"
        timings = {**self.progress.timings, "night": self.progress.elapsed}
        self.measure(resource_usage.usage("night"))
        try:
            self._ledger.note(self.run_id, timings=timings, measures=self.measures)
            self._ledger.finish_run(self.run_id, self.outcome, self.exit_code, self.message)
        except LedgerError as error:  # the next run closes the row
            self.exit_code, self.outcome = OUR_FAULT, "failed"
            self._troubles.add(f"the outcome could not be written down: {error}")

    @contextmanager
    def goes_on(self, without: str) -> Iterator[None]:
        """Record an error and continue, degraded; except for a foreign lake or a lost lease."""
        try:
            yield
        except (ForeignLake, LostLease):
            raise
        except Exception as error:
            self.trouble(sentence(N_("{what}: {why}"), what=as_sentence(without), why=of_error(error)), without)

    def trouble(self, text: str, for_readers: str) -> None:
        """Record an error, and its wording for the page; the run continues, degraded."""
        self._troubles.add(text, for_readers)
        if self.exit_code == PUBLISHED:  # settled already: the forecast is published
            self.exit_code = DEGRADED
        self.progress.say(f"           {text}")

    @contextmanager
    def lacks(self, without: str) -> Iterator[None]:
        """Record an error of a by-product: the run is degraded, without a note to the depots."""
        with self._troubles.of_by_products(), self.goes_on(without):
            yield

    def remark(self, text: str) -> None:
        """Record a fact that does not affect the forecast or the outcome."""
        self._troubles.remark(text)
        self.progress.say(f"           {text}")

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        with self.progress.stage(name):
            yield
        self.measure(resource_usage.usage("night"))
        self._ledger.note(self.run_id, timings={name: self.progress.timings[name]}, measures=self.measures)

    def measure(self, measures: Mapping[str, Any]) -> None:
        """Record `metric_names.OF_RUNS` for the run row, written at the end of the stage."""
        self.measures = resource_usage.merge(self.measures, dict(measures))

    def note(
        self,
        *,
        findings: Iterable[Finding] = (),
        lake_versions: Mapping[str, int] | None = None,
        message: str | None = None,
    ) -> None:
        """Write the results of a step into the run row."""
        findings = list(findings)
        self.versions |= lake_versions or {}
        self._ledger.note(self.run_id, findings=findings, lake_versions=lake_versions, message=message)
        self._keep_findings(findings)
        if message:
            self.progress.say(f"           {message}")

    def _keep_findings(self, findings: Iterable[Finding]) -> None:
        """Record findings and report each once."""
        for finding in findings:
            if finding not in self.findings:
                self.findings.append(finding)
                self.progress.say(f"           {finding.severity} {finding.rule} × {finding.count}: {finding.message}")

    def champion(self) -> Path | None:
        """Return the folder of the champion's bundle; None if there never was a champion."""
        reigning = self._ledger.champion(self.spec.name)
        return self.spec.paths.bundle(reigning.bundle_digest) if reigning else None

    def keep_verdict(self, verdict: Verdict) -> None:
        """Record the verdict, and report it."""
        self.verdict = verdict
        self._ledger.note(self.run_id, verdict=verdict_row(verdict))
        for line in verdict_lines(verdict):
            self.progress.say(line)

    def promote(self, bundle: str) -> None:
        """Make a bundle the champion; a current champion is confirmed by this run."""
        reason = self.verdict.sentence() if self.verdict else sentence(N_("promoted"))
        promotion = self._ledger.promote(
            self.spec.name, run_id=self.run_id, bundle_digest=bundle, by=GATE, reason=reason
        )
        self.promoted = bundle if promotion.previous_digest != bundle else None

    def name_versions(self, versions: Mapping[str, str]) -> None:
        """Record the versions assigned by the registry, by run; its aliases then follow the ledger."""
        self._ledger.name_versions(self.spec.name, versions)
        if (versions or self.canary) and (untold := outbox.align(self.spec, self._ledger)):
            self.note(message=sentence(N_("the registry's aliases are as they were: {why}"), why=untold))

    def predict_in_its_own_process(self) -> Mapping[str, Any]:
        """Run `forecaster predict` for this run; returns its report of the publication.

        Raises NoUsableData or ForecasterError with its sentence if it published nothing.
        """
        command = [sys.executable, "-m", "forecaster", "predict", str(self.file), "--json"]
        command += ["--as-of", self.as_of.isoformat(), "--run", self.run_id]
        command += ["--note", as_argument(self.note_for_readers)] if self.note_for_readers else []
        self.waits.set()
        try:
            process = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                timeout=self.longest_prediction,
                env=parent_watch.environment(),
            )
        except subprocess.TimeoutExpired:
            late = N_("the prediction took longer than {seconds} s and was ended")
            error = TimeLimitExceeded(sentence(late, seconds=f"{self.longest_prediction:g}"))
            return self._published_all_the_same(error)
        if process.returncode not in (PUBLISHED, DEGRADED):
            reason = process.stderr.strip()[-2000:].removeprefix("forecaster: ")
            kind = NoUsableData if process.returncode == NO_DATA else ForecasterError
            return self._published_all_the_same(kind(reason or f"the prediction ended with {process.returncode}"))
        return unpacked(json.loads(process.stdout))

    def _published_all_the_same(self, error: ForecasterError) -> Mapping[str, Any]:
        """Return the publication of a prediction that failed afterwards; raises its error if there
        is none."""
        head = self._ledger.current(self.spec.name)
        if head is None or head.run_id != self.run_id or head.publication_id == self.preview:
            raise error
        names = ("publication_id", "tier", "model", "bundle_digest", "note")
        return {
            **{name: getattr(head, name) for name in names},
            "cutoff": head.cutoff.isoformat(),
            "depots": len(self._ledger.depots(head.publication_id)),
            "trouble": sentence(N_("the steps after the publication failed: {why}"), why=of_error(error)),
        }

    def settle(self, report: Mapping[str, Any]) -> None:
        """Set tier and exit code."""
        self.publication = report
        self._keep_findings(map(finding_of_row, self._ledger.run(self.run_id).findings))  # of the prediction
        note, troubled = self.note_for_readers or "", self._troubles.concerns_readers
        remark = without_start(report["note"] or "", note)  # the prediction's own remark
        if report["trouble"]:
            self._troubles.add(report["trouble"])
        if report["remark"]:
            self._troubles.remark(report["remark"])
        self.exit_code = DEGRADED if report["tier"] in WITHOUT_OWN_MODEL or self._troubles else PUBLISHED
        self._ledger.note(self.run_id, tier=report["tier"], bundle_digest=report["bundle_digest"])
        if report["tier"] in WITHOUT_OWN_MODEL and (explanation := remark if troubled else report["note"]):
            self._troubles.add(explanation)
        self.progress.say(
            f"           {count(report['depots'], 'depot')} from {report['model']}, tier {report['tier']}, "
            + (f"as publication {report['publication_id']}" if report["publication_id"] else "in the archive")
        )
        if remark and report["tier"] not in WITHOUT_OWN_MODEL:
            self.progress.say(f"           {remark}")
