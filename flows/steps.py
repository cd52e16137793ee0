"""The steps of a line (`flows.protocol.Steps`) as plain functions, which keep the run's records and
do not depend on a scheduler.

Each calls a module of its name for its work. `flows.tasks` wraps them with Prefect's policies;
`forecaster run --plain` calls them directly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from flows.night import Night
from forecaster.config import credentials
from forecaster.core.forecast import Candidate, Scores, Verdict
from forecaster.core.knowledge import Knowledge
from forecaster.core.language import N_
from forecaster.core.language.sentences import as_sentence, joined, of_error, sentence
from forecaster.core.panel import Panel
from forecaster.core.parallel import Fan, in_turn
from forecaster.core.terminal import count
from forecaster.core.time_limits import call_within
from forecaster.demand import arrangement, doubts
from forecaster.demand import ingest as demand_ingest
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.errors import ForecasterError, NoUsableData
from forecaster.plugins import optional, plugin

REGISTRY_SECONDS = 180.0  # for all pending records to reach the registry

if TYPE_CHECKING:
    from forecaster.demand.history.past_panels import Past
    from forecaster.training.export import ExportedBundle


def ingest(night: Night) -> None:
    """Ingest the declared sources into the lake."""
    with night.stage("ingest"):
        if any(credentials.secrets_in(json.dumps(night.spec.model_dump(mode="json")))):
            from flows import secrets  # imports Prefect

            secrets.provide(night.spec)
        # Arrival time is the run's start, so that a run as of now includes the data it has just
        # read.
        batch = demand_ingest.ingest(
            night.spec, now=night.begun, on_rows=lambda rows: night.progress.advance(0, f"{count(rows, 'row')} read")
        )
    night.note(findings=batch.findings, lake_versions=batch.versions)
    night.measure({"rows": {name: getattr(batch, name) for name in ("accepted", "unchanged", "quarantined")}})
    night.progress.say(
        f"           {count(batch.read, 'row')} read: {batch.accepted:,} accepted, {batch.unchanged:,} unchanged, "
        f"{batch.quarantined:,} quarantined"
    )
    if batch.stopped:
        for_readers = N_("the newest readings were quarantined and do not count")
        stopped = N_("the batch was stopped and is in quarantine: {finding}")
        night.trouble(sentence(stopped, finding=batch.stopped), for_readers)
    elif doubt := doubts.of(batch):
        night.progress.say(f"           usable, but {doubt}")
    arrangement.refuse_unknown_covariates(night.spec)


def panel(night: Night) -> tuple[Knowledge, Panel]:
    """Return the data known as of tonight, as dense arrays."""
    from forecaster.demand.panel.build import build
    from forecaster.demand.panel.panel_findings import panel_findings

    with night.stage("panel"):
        night.knowledge = knowledge = read_as_of(night.spec, as_of=night.as_of)
        built = build(knowledge, night.spec)
    night.note(findings=panel_findings(knowledge, built, night.spec), lake_versions=knowledge.versions)
    night.progress.say(
        f"           {count(len(built.depot_ids), 'depot')}, {count(built.history, 'day')} up to {built.cutoff}, "
        f"{len(built.encoding.covariates)} known-future covariates"
    )
    return knowledge, built


def judge(night: Night, panel: Panel) -> None:
    """Judge the running canary, if any: it is promoted, rolled back or continued."""
    from forecaster.ledger.store import Ledger
    from forecaster.monitoring import slo

    with Ledger.open(night.spec.ledger_url) as ledger:
        with ledger.transaction() as connection:
            running = plugin("canary.ledger").running(connection, night.spec.name)
        if running is None:
            return
        with night.stage("judge"):
            freeze = slo.freeze(night.spec, ledger, night.as_of)
            frozen = freeze.sentence if freeze else None
            now = datetime.now(UTC)
            night.canary = plugin("canary").look(night.spec, ledger, panel, run_id=night.run_id, now=now, frozen=frozen)
    if night.canary is not None:
        night.remark(night.canary.sentence)


def preview(night: Night, panel: Panel, knowledge: Knowledge) -> None:
    """Publish the prior's forecast during training, if there is no usable champion and the prior is
    better than the seasonal naive."""
    from forecaster.publishing import forecast

    previews, champion = optional("prior.preview"), night.champion()
    if previews is None or not night.spec.model.is_of_prior:
        return
    if champion is not None and forecast.is_usable(night.spec, champion):
        return
    from forecaster.lake import Lake
    from forecaster.publishing import publish
    from forecaster.training import score_rows
    from forecaster.training.backtest import PRIOR

    with night.stage("preview"):
        try:
            result = previews.make(panel, knowledge, night.spec, panel_at=_past_panels(night, panel, knowledge))
        except ForecasterError as error:  # the run is not worse without it
            night.remark(sentence(N_("the prior does not forecast: {why}"), why=of_error(error)))
            return
        night.progress.say(f"           {result.sentence(night.spec.gate.metric)}")
        prior_scores = {PRIOR: result.scores[PRIOR]}
        with night.lacks("the lake does not have the prior's scores"):
            score_rows.append_scores(
                prior_scores,
                Lake.of(night.spec),
                run_id=night.run_id,
                now=datetime.now(UTC),
            )
        if result.exported is None:
            return
        night.prior_scores = prior_scores
        published = publish.publish(
            night.spec,
            forecast.of_prior(result.exported.folder),
            as_of=night.as_of,
            run_id=night.run_id,
            knowledge=knowledge,
        )
        night.preview = published.publication_id
    night.progress.say(f"           {published.sentence().splitlines()[0]}, until tonight's model is there")


def weigh(night: Night, panel: Panel, knowledge: Knowledge) -> bool:
    """Return whether tonight's training is worth its cost; True if that cannot be determined."""
    from forecaster.ledger.store import Ledger

    worthwhile = plugin("worthwhile")
    with night.stage("weigh"), Ledger.open(night.spec.ledger_url) as ledger:
        try:
            past_panels = _past_panels(night, panel, knowledge)
            decision = worthwhile.weigh(night.spec, ledger, panel, past_panels, night.as_of)
        except Exception as error:  # a run trains rather than fails
            why = f"what the last trainings gained cannot be weighed: {of_error(error)}"
            decision = worthwhile.Decision(True, why)
    if decision.trains:
        night.progress.say(f"           it trains: {decision.reason}")
    else:
        night.past_panels = None
        night.remark(sentence(N_("training skipped: {reason}"), reason=decision.reason))
    return bool(decision.trains)


def train(night: Night, panel: Panel, knowledge: Knowledge) -> Candidate:
    """Fit and calibrate tonight's candidate, in a process that may die or be ended without ending
    the run."""
    from forecaster.training.train import fit_in_child_process

    hosts = night.spec.training.hosts
    other_hosts: AbstractContextManager[Any] = (
        nullcontext() if hosts is None else plugin("hosts").other_hosts(night.spec, night.file)
    )
    with night.stage("train"), other_hosts as start_others:

        def on_begin() -> None:
            night.waits.set()
            if hosts is not None:
                start_others()
                night.progress.say(f"           {hosts.wait_of(0)}")

        candidate = fit_in_child_process(
            panel,
            night.spec,
            night.file,
            panel_at=_past_panels(night, panel, knowledge),
            profile=night.profile,
            on_epoch=lambda e: night.progress.advance(
                e["number"] / e["of"],
                f"epoch {e['number']}/{e['of']}  loss {e['loss']:.4f}  validation {e['validation']:.4f}  "
                f"{e['depot_days_a_second']:,.0f} depot-days/s",
            ),
            on_trouble=lambda message: night.note(message=message),
            on_measures=night.measure,
            on_begin=on_begin,
        )
    if night.profile is not None:
        location = sentence(N_("the trace of training is in {folder}"), folder=str(night.profile))
        missing = sentence(N_("the trace of training is missing: fewer than two epochs were left to train"))
        night.note(message=location if night.profile.exists() else missing)
    return candidate


def backtest(
    night: Night, candidate: Candidate, panel: Panel, knowledge: Knowledge, *, fan: Fan = in_turn
) -> tuple[Candidate, dict[str, Scores]]:
    """Score candidate, champion and baselines on the same unseen days, and use these days to
    calibrate the candidate too."""
    from forecaster.lake import Lake
    from forecaster.training import backtest as model_backtest
    from forecaster.training import fit_candidate, score_rows

    with night.stage("backtest"):
        past_panels = _past_panels(night, panel, knowledge)
        candidate_forecaster = fit_candidate.rolling_forecaster(candidate, panel, night.spec, panel_at=past_panels)
        scores, troubles = model_backtest.backtest(
            {model_backtest.CANDIDATE: candidate_forecaster},
            night.champion(),
            panel,
            knowledge,
            night.spec,
            panel_at=past_panels,
            on_model=lambda name: night.progress.advance(0, name),
            fan=fan,
        )
        with night.lacks("the lake does not have tonight's scores"):
            score_rows.append_scores(
                scores,
                Lake.of(night.spec),
                run_id=night.run_id,
                now=datetime.now(UTC),
            )
    night.past_panels = None  # may be large, and is no longer needed
    if troubles:
        night.note(message=joined(troubles))
    return fit_candidate.calibrated_after_backtest(candidate, candidate_forecaster, panel), scores


def _past_panels(night: Night, panel: Panel, knowledge: Knowledge) -> Past:
    """Return past panels by cutoff; all versions are read once per run."""
    from forecaster.demand.history.past_panels import Past

    night.past_panels = night.past_panels or Past(knowledge, panel, night.spec)
    return night.past_panels


def gate(night: Night, scores: Mapping[str, Scores]) -> Verdict:
    """Judge whether the candidate may be published in place of the forecast without it."""
    from forecaster.training.gate import judge

    with night.stage("gate"):
        verdict = judge({**scores, **night.prior_scores}, night.spec)
    night.keep_verdict(verdict)
    return verdict


def export(
    night: Night, candidate: Candidate, panel: Panel, scores: Mapping[str, Scores], knowledge: Knowledge
) -> ExportedBundle:
    """Export to ONNX, compared with NumPy and JAX before any promotion."""
    from flows.outcome.night_facts import measured_drift
    from forecaster.training.export import to_bundle

    with night.stage("export"):
        exported = to_bundle(candidate, panel, scores, knowledge, night.spec, drift=measured_drift(night))
    parity = exported.parity.largest
    night.measure({"parity": parity})
    night.progress.say(f"           bundle {exported.folder.name}, within {parity:.1e} of JAX and NumPy")
    return exported


def record(
    night: Night,
    candidate: Candidate,
    panel: Panel,
    scores: Mapping[str, Scores],
    verdict: Verdict,
    exported: ExportedBundle | None,
) -> None:
    """Write the run's record for the registry, and the report of it."""
    from flows.outcome.night_facts import night_facts
    from forecaster.reports.html import write_atomically
    from forecaster.training.record import record

    with night.stage("record"):
        page = record(candidate, panel, scores, verdict, exported, night.spec, night_facts(night))
        with night.lacks("the report of tonight's model was not written"):
            # served by the page
            write_atomically(night.spec.paths.report_of(night.run_id), page)
            # for users without a registry at hand
            write_atomically(night.spec.paths.run_report, page)


def promote(night: Night, exported: ExportedBundle, panel: Panel) -> None:
    """Move the champion in the ledger, which is authoritative, or start a canary; not while an
    accuracy objective is broken."""
    from forecaster.ledger.store import Ledger
    from forecaster.monitoring import slo

    bundle, start = exported.folder.name, None
    with night.stage("promote"):
        with Ledger.open(night.spec.ledger_url) as ledger:
            champion = ledger.champion(night.spec.name)
            freeze = slo.freeze(night.spec, ledger, night.as_of)
            is_confirmed = champion is not None and champion.bundle_digest == bundle
            if freeze is None and not is_confirmed and night.spec.canary is not None:
                start = plugin("canary").start(
                    night.spec, ledger, panel, run_id=night.run_id, bundle=bundle, now=datetime.now(UTC)
                )
        if start is not None:
            night.remark(start.sentence)
        if is_confirmed or (start.promotes if start is not None else freeze is None):
            night.promote(bundle)
    if freeze is not None and not is_confirmed:
        frozen = N_("not promoted: {why}; `forecaster promote FILE {bundle} --reason …` lets it forecast")
        for_readers = N_("a new model waits until somebody says that it may forecast")
        night.trouble(sentence(frozen, why=freeze.sentence, bundle=bundle), for_readers)


def register(night: Night) -> None:
    """Send this run's record, and earlier unsent ones, to the registry; its aliases follow the
    ledger."""
    from forecaster.registry import outbox

    with night.stage("register"):
        night.name_versions(call_within(REGISTRY_SECONDS, lambda: outbox.send(night.spec), _registry(night)))


def _registry(night: Night) -> str:
    return f"the registry at {credentials.hide(night.spec.registry_url)}"


def predict(night: Night, *, fan: Fan = in_turn) -> None:
    """Forecast on CPU and publish: by groups of depots in parallel, if `execution.depots_at_a_time`
    is set, otherwise in a separate process that never imports JAX."""
    with night.stage("predict"):
        try:
            published = _by_groups(night, fan) or night.predict_in_its_own_process()
        except NoUsableData:
            raise
        except ForecasterError as error:
            published = _predict_here(night, error)
    night.settle(published)


def _by_groups(night: Night, fan: Fan) -> Mapping[str, Any] | None:
    """Return the publication by groups of depots; None if it must be done whole."""
    published: Mapping[str, Any] | None = None
    if night.spec.execution.depots_at_a_time is not None:
        published = plugin("groups").predict(night, fan)
    return published


def _predict_here(night: Night, error: ForecasterError) -> Mapping[str, Any]:
    """Forecast from the data that the run has read, after its prediction failed or timed out, such
    as for an unresponsive lake, within the same time limit. Raises the error of that prediction if
    this fails too."""
    from forecaster.publishing import predict as prediction

    if night.knowledge is None:
        raise error
    predict = partial(
        prediction.predict,
        night.spec,
        as_of=night.as_of,
        bundle=None,
        run_id=night.run_id,
        note=None,
        knowledge=night.knowledge,
    )
    try:
        published = call_within(night.longest_prediction, predict, "the prediction")
    except Exception as again:
        raise error from again
    without = N_("the prediction failed, and was made from what the night had read before")
    night.trouble(sentence(N_("{what}: {why}"), what=as_sentence(without), why=of_error(error)), without)
    return published.report()


def archive(night: Night, exported: ExportedBundle | None = None) -> None:
    """Forecast as of a past date into the lake's archive; the page stays unchanged.

    Uses the given model, else the champion of that date, since a later one has seen the actuals.
    """
    from forecaster.publishing.predict import archive as archive_forecast

    with night.stage("predict"):
        bundle = exported.folder if exported else None
        publication = archive_forecast(night.spec, as_of=night.as_of, run_id=night.run_id, bundle=bundle)
    night.settle(publication.report())


def tidy(night: Night) -> None:
    """Remove data past the declared retention."""
    from forecaster.operations import retention

    with night.stage("tidy"):
        night.note(message=retention.tidy(night.spec, now=night.begun, keep=night.run_id).sentence())
    night.exit_code = 0
