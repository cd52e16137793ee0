"""One night's run: who it is, what it has learned so far, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from forecaster.errors import DEGRADED, NO_DATA, OUR_FAULT, PUBLISHED, ForecasterError, NoUsableData
from forecaster.ledger import Ledger
from forecaster.progress import Night as Progress
from forecaster.spec import Spec, load
from forecaster.stages import remember
from forecaster.telemetry import METRICS
from forecaster.values import Verdict

OUTCOMES = {PUBLISHED: "published", DEGRADED: "degraded", NO_DATA: "no_data", OUR_FAULT: "failed"}


class Night:
    """What the stages of one night share. A run row exists from the first moment, and always ends in an outcome."""

    def __init__(self, file: Path, spec: Spec, as_of: datetime, begun: datetime, ledger: Ledger) -> None:
        self.file, self.spec, self.as_of, self.begun = file, spec, as_of, begun
        self.run_id = f"{as_of.astimezone(spec.zone):%Y-%m-%d}-{uuid.uuid4().hex[:8]}"
        self.profile: Path | None = None
        self.exit_code = OUR_FAULT
        self.versions: dict[str, int] = {}
        self.progress = Progress(ledger.expected_timings(spec.name))
        self._ledger = ledger
        self._troubles: list[str] = []
        self._verdict: Verdict | None = None

    @classmethod
    def begin(cls, file: str, as_of: str | None, *, profile: bool = False) -> Self:
        """Open the run row; with `profile` training leaves a trace.

        Raises SpecError for a wrong file, LedgerError for a ledger that cannot be written.
        """
        spec = load(file)
        begun = datetime.now(UTC)
        instant = datetime.fromisoformat(as_of) if as_of else begun
        night = cls(Path(file), spec, instant, begun, Ledger.open(spec.ledger_url))
        night.profile = spec.state_folder / "profiles" / night.run_id if profile else None
        night._ledger.start_run(night.run_id, pipeline=spec.name, as_of=instant, spec_digest=spec.digest)
        local = instant.astimezone(spec.zone)
        night.progress.say(f"{spec.name}: night {night.run_id}, as of {local:%Y-%m-%d %H:%M} {spec.timezone}")
        return night

    @contextmanager
    def ends_in_an_outcome(self) -> Iterator[None]:
        """Whatever happens inside, the run row is closed with an outcome, an exit code and a sentence."""
        with ExitStack() as closing:
            closing.callback(self._ledger.close)
            closing.enter_context(self.progress.shown())
            try:
                yield
            except ForecasterError as error:
                self.exit_code = error.exit_code
                self._troubles.append(str(error))
            except BaseException as error:
                self.exit_code = OUR_FAULT
                self._troubles.append(f"{type(error).__name__}: {error}")
                raise
            finally:
                message = "; ".join(self._troubles) or None
                outcome = OUTCOMES.get(self.exit_code, "failed")
                self._ledger.note(self.run_id, timings={**self.progress.timings, "night": self.progress.elapsed})
                self._ledger.finish_run(self.run_id, outcome, self.exit_code, message)  # type: ignore[arg-type]
        self.progress.say(f"{outcome} in {self.progress.elapsed:.0f} s" + (f": {message}" if message else ""))

    @contextmanager
    def goes_on(self, without: str) -> Iterator[None]:
        """What fails inside is kept for the outcome; the night goes on, degraded."""
        try:
            yield
        except Exception as error:
            told = str(error) if isinstance(error, ForecasterError) else f"{type(error).__name__}: {error}"
            self.trouble(f"{without}: {told}")

    def trouble(self, sentence: str) -> None:
        """Keep what went wrong for the outcome; the night goes on, degraded."""
        self._troubles.append(sentence)
        self.progress.say(f"           {sentence}")

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        with self.progress.stage(name):
            yield
        self._ledger.note(self.run_id, timings={name: self.progress.timings[name]})

    def note(
        self,
        *,
        findings: Iterable[Any] = (),
        lake_versions: Mapping[str, int] | None = None,
        message: str | None = None,
    ) -> None:
        """Keep what a stage learned in the run row."""
        findings = list(findings)
        self.versions |= lake_versions or {}
        self._ledger.note(self.run_id, findings=findings, lake_versions=lake_versions, message=message)
        for finding in findings:
            self.progress.say(f"           {finding.severity} {finding.rule} × {finding.count}: {finding.message}")
        if message:
            self.progress.say(f"           {message}")

    def champion(self) -> Path | None:
        """The reigning bundle's folder, None when no model ever reigned."""
        reigning = self._ledger.champion(self.spec.name)
        return self.spec.state_folder / "bundles" / reigning.bundle_digest if reigning else None

    def judged(self, verdict: Verdict) -> None:
        """Keep the verdict, and tell of it."""
        self._verdict = verdict
        compared = {
            model: {key: value if value == value else None for key, value in metrics.items() if key in METRICS}
            for model, metrics in verdict.compared.items()
        }
        row = {"admitted": verdict.admitted, "objections": list(verdict.objections), "compared": compared}
        self._ledger.note(self.run_id, verdict=row)
        for model, metrics in verdict.compared.items():
            self.progress.say(
                f"           {model:15} MAPE {metrics['mape']:6.1%}  WAPE {metrics['wape']:6.1%}  "
                f"MASE {metrics['mase']:.3f}  bias {metrics['bias']:+.1%}  80 % covers {metrics['coverage']:.1%}"
            )
        self.progress.say(f"           candidate {verdict.sentence()}")

    def promote(self, bundle: str, version: str | None) -> None:
        """Make a bundle the champion; one that reigns already goes on, confirmed by this run."""
        reason = self._verdict.sentence() if self._verdict else "promoted"
        self._ledger.promote(
            self.spec.name, run_id=self.run_id, bundle_digest=bundle, by="gate", reason=reason, model_version=version
        )
        if version is not None:
            self.align()

    def align(self) -> None:
        """Let the registry's aliases name whom the ledger names."""
        if untold := remember.align(self.spec, self._ledger):
            self.note(message=f"the registry's aliases are as they were: {untold}")

    def predict_in_its_own_process(self) -> Mapping[str, Any]:
        """Run `forecaster predict` for this night; returns what it says it published.

        Raises NoUsableData or ForecasterError with its sentence when it published nothing.
        """
        command = [sys.executable, "-m", "forecaster", "predict", str(self.file), "--json"]
        command += ["--as-of", self.as_of.isoformat(), "--run", self.run_id]
        note = self._note_for_the_page()
        done = subprocess.run(
            [*command, *(["--note", note] if note else [])], capture_output=True, text=True, check=False
        )
        if done.returncode not in (PUBLISHED, DEGRADED):
            raise (NoUsableData if done.returncode == NO_DATA else ForecasterError)(done.stderr.strip()[-2000:])
        found: Mapping[str, Any] = json.loads(done.stdout)
        return found

    def published(self, what: Mapping[str, Any]) -> None:
        """Settle tier and exit code."""
        self.exit_code = DEGRADED if what["tier"] == "fallback" or self._troubles else PUBLISHED
        self._ledger.note(self.run_id, tier=what["tier"], bundle_digest=what["bundle_digest"])
        if what["tier"] == "fallback" and what["note"]:
            self._troubles.append(what["note"])
        self.progress.say(
            f"           {what['depots']:,} depots from {what['model']}, tier {what['tier']}, "
            f"as publication {what['publication_id']}"
        )

    def _note_for_the_page(self) -> str | None:
        if self._troubles:
            return f"Tonight {self._troubles[0]}."
        if self._verdict is not None and not self._verdict.admitted:
            return f"Tonight's model was {self._verdict.sentence()}."
        return None
