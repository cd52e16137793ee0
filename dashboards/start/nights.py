"""First run of a project: a separate process, whose progress is read from its log and the ledger."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from dashboards.ops.formatting import display
from dashboards.ops.formatting.retelling import told_objections
from dashboards.ops.views.accuracy import COMPARED, TIERS
from dashboards.ops.views.money.value import TITLES
from forecaster.check import dry_run
from forecaster.check.dry_run import DryRun
from forecaster.cli.options import instant
from forecaster.config import Spec
from forecaster.core.language import N_, _
from forecaster.core.metric_names import STAGES
from forecaster.core.progress import LOG
from forecaster.errors import NoLedger
from forecaster.ledger.records import Head, Run
from forecaster.ledger.store import Ledger
from forecaster.ledger.value import LAST_WEEK, PUBLISHED
from forecaster.operations.commands import NightProcess
from forecaster.publishing import caveats
from forecaster.staffing import value_account

PAST = 14  # past days that are published as well, to show accuracy and value
_WEEKS = 26
_WAYS = {
    **COMPARED,
    "candidate": N_("your model"),
    "prior": TIERS["prior"],
    "seasonal_window_average": N_("mean of the last same weekdays"),
}
_EXPECTED = ("ingest", "panel", "preview", "train", "backtest", "export", "predict")  # usual stages of a run
_TAIL = 6  # lines of a log that explain a failed run


@dataclass(frozen=True)
class StageState:
    """A stage of a run: `state` is "done", "now" or "next"; `message` is its latest message."""

    name: str
    meaning: str
    state: str
    message: str


@dataclass(frozen=True)
class NightState:
    """Progress of the first run: running or not, its stages, the publication, and its known value.

    `accuracy` and `value` are pairs of a name and an amount; `fault` explains why a run ended
    without forecasts.
    """

    runs: bool
    stages: tuple[StageState, ...] = ()
    tier: str = ""
    cutoff: date | None = None  # cutoff of the published forecast
    fault: str = ""
    objections: str = ""  # to the model
    days: int = 0  # held out
    accuracy: tuple[tuple[str, str], ...] = ()
    value: tuple[tuple[str, str], ...] = ()


def as_of(spec: Spec, cutoff: date, now: datetime) -> str | None:
    """Return the option `--as-of` of a run: the day after the last reading of an archive, None for
    a live feed."""
    local = now.astimezone(spec.zone).date()
    return (cutoff + timedelta(days=1)).isoformat() if caveats.is_archive(cutoff, local) else None


def checked(spec: Spec, now: datetime) -> DryRun:
    """Return the dry run; for an archive, as of the day after it. Raises as `dry_run.check` does."""
    outcome = dry_run.check(spec, now=now)
    day = as_of(spec, outcome.profile.cutoff, now) if outcome.profile else None
    return dry_run.check(spec, now=now, as_of=instant(day, spec)) if day else outcome


class FirstNight(NightProcess):
    """The run started by the guide, one at a time. Thread-safe."""

    def start(self, file: Path, spec: Spec, day: str | None) -> None:
        """Start a run of this pipeline file, unless one is in progress."""
        options = ["--plain", "--past", str(min(PAST, spec.backtest.days)), *(["--as-of", day] if day else [])]
        self.begin(file, _log(spec), *options, environment={LOG: "json"})

    def state(self, spec: Spec) -> NightState:
        """Return the progress of the run, or the result of the last one."""
        lines, runs = _lines(_log(spec)), self.runs
        run, head, account = _ledger(spec)
        failed = self._process is not None and not runs and head is None
        return NightState(
            runs,
            tuple(_stages(lines, runs)) if self._process is not None else (),
            head.tier if head else "",
            head.cutoff if head else None,
            _fault(run, lines) if failed else "",
            *_verdict(run),
            account,
        )


def _log(spec: Spec) -> Path:
    return spec.paths.guide_log


def _lines(log: Path) -> list[dict[str, Any]]:
    """Return the lines of the log: the run's objects, and other lines as text."""
    try:
        texts = log.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    lines = []
    for text in texts:
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        lines.append(line if isinstance(line, dict) else {"stage": None, "message": text})
    return lines


def _stages(lines: Sequence[Mapping[str, Any]], runs: bool) -> list[StageState]:
    """Return the stages that have begun, and the expected ones after them."""
    order, messages = list[str](), dict[str, str]()
    for line in lines:
        stage = line.get("stage")
        if stage in STAGES:
            order += [stage] if not order or (order[-1] != stage and stage not in order) else []
            messages[stage] = str(line.get("message", ""))
    current = order[-1] if order and runs else None
    expected = [stage for stage in _EXPECTED if stage not in order]
    names = [*order, *(expected if runs else [])]
    return [
        StageState(
            stage,
            STAGES[stage].meaning,
            "now" if stage == current else "done" if stage in order else "next",
            messages.get(stage, ""),
        )
        for stage in names
    ]


def _ledger(spec: Spec) -> tuple[Run | None, Head | None, tuple[tuple[str, str], ...]]:
    """Return the last run, the current publication, and the costs of rosters."""
    try:
        with Ledger.open_reader(spec.ledger_url) as ledger:
            runs = ledger.runs(spec.name, limit=1, nights=True)
            head = ledger.current(spec.name)
            with ledger.transaction() as connection:
                account = value_account.account(connection, spec.name, _WEEKS) if spec.staffing else None
    except NoLedger:
        return None, None, ()
    ways = account.whole.ways if account is not None and account.first is not None else ()
    selected_ways = (way for way in ways if way.way in (PUBLISHED, LAST_WEEK))
    costs = tuple(
        (_(TITLES[way.way]), display.money(way.cost.amount, account.currency if account else None))
        for way in selected_ways
    )
    return (runs[0] if runs else None), head, costs


def _verdict(run: Run | None) -> tuple[str, int, tuple[tuple[str, str], ...]]:
    """Return objections to the model, the number of held-out depot-days, and each method's error on
    them."""
    if run is None or run.verdict is None:
        return "", 0, ()
    compared: Mapping[str, Mapping[str, float]] = run.verdict["compared"]
    rows = tuple((_(_WAYS.get(name, name)), display.percent(metrics["wape"])) for name, metrics in compared.items())
    days = max((int(metrics["days"]) for metrics in compared.values()), default=0)
    objections = display.clauses(*told_objections(run.verdict)) if run.verdict["objections"] else ""
    return objections, days, rows


def _fault(run: Run | None, lines: Sequence[Mapping[str, Any]]) -> str:
    if run is not None and run.message:
        return run.message
    return os.linesep.join(str(line["message"]) for line in lines[-_TAIL:])
