"""Publish: from the chosen bundle to what the depots read, by forecast, overrides, archive and
ledger.

The publication has priority over its by-products: steps that only explain or look back cannot block
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from sqlalchemy import Connection

from forecaster.config import Spec
from forecaster.core.forecast import Forecast
from forecaster.core.knowledge import Finding, Knowledge
from forecaster.core.language import N_
from forecaster.core.language.sentences import joined, sentence
from forecaster.core.marks import CLOSED_WEEKDAY
from forecaster.core.panel import Panel
from forecaster.demand.history.point_in_time import former_ids, read_as_of
from forecaster.demand.panel.panel_findings import panel_findings
from forecaster.errors import LakeError
from forecaster.lake import Lake
from forecaster.ledger.publication import Publication, PublishedChange, PublishedDepot
from forecaster.ledger.store import Ledger
from forecaster.ledger.week_plan import WeekPlan
from forecaster.planning import apply, refresh, saved_inputs, service
from forecaster.planning.overrides import Cell, Override, active_overrides, as_of_day
from forecaster.planning.refresh import BindingCrews
from forecaster.planning.saved_inputs import CanaryInputs, SavedInputs, SavedPanel
from forecaster.plugins import plugin
from forecaster.publishing import archive_rows, caveats, content, explain, listeners
from forecaster.publishing.caveats import Note
from forecaster.publishing.forecast import ForecastResult, ModelChoice, forecast
from forecaster.publishing.listeners import PublicationEvent
from forecaster.publishing.outcome import PublishedForecast, Troubles, kept
from forecaster.serving import keys, totals
from forecaster.staffing import rosters
from forecaster.staffing.changes import SET_FOR_OTHER_SHIFTS, PublishedCrews, other_shifts, published_crews
from forecaster.staffing.shift_values import ShiftShares


def publish(
    spec: Spec,
    choice: ModelChoice,
    *,
    as_of: datetime,
    run_id: str,
    note: str | None = None,
    show: bool = True,
    onto_page: bool = True,
    knowledge: Knowledge | None = None,
) -> PublishedForecast:
    """Forecast as of an instant, append to the archive in one commit, publish in one transaction.

    `knowledge` is what was known then; by default it is read from the lake. Without `show` only the
    archive is written; without `onto_page` the publication is kept behind the shown one. Raises
    NoUsableData if nothing is known by then or the data are too old, LakeError if the lake is
    unreadable, LedgerError if the ledger is not writable. If the archive fails, the forecast is
    still shown, and `trouble` states it. An unusable bundle is not an error here: the fallback is
    published, with the reason in the note.
    """
    knowledge = knowledge or read_as_of(spec, as_of=as_of)
    result, faulty = _forecast(spec, choice, knowledge)
    if show and (head := caveats.outdated_by(spec, result.panel.cutoff, as_of)):
        return kept(head, result.forecast, len(result.panel.depot_ids), result.notes)
    now = datetime.now(UTC)
    active = _active_overrides(spec, as_of) if show else {}
    overrides = _located(active, result)
    troubles, remarks = Troubles(knowledge.lacking), Troubles()
    went_back = faulty.tell(spec, run_id, now, troubles) if faulty else None
    # The archive comes first, so that all shown forecasts can be scored; a forecast for the archive
    # alone fails without it.
    with troubles.collect(LakeError, "the archive does not have these forecasts") if show else nullcontext():
        _archive(spec, result, overrides, run_id, now)
    number, notes = None, [*caveats.notes([note] if note else []), *result.notes]
    if show:
        draft = PublicationDraft(spec, knowledge, result, active, overrides, as_of, now, run_id, onto_page)
        publication, shares = draft.publication(notes, troubles)
        number = draft.write(publication, troubles)
        listeners.notify(PublicationEvent(spec, result.panel, run_id, shares), troubles, remarks)
    return PublishedForecast(
        number,
        result.choice.tier,
        result.choice.model,
        result.digest,
        result.panel.cutoff.isoformat(),
        len(result.panel.depot_ids),
        joined((note.text for note in notes), " "),
        result.forecast,
        troubles.summary,
        remarks.summary,
        went_back,
    )


def _archive(
    spec: Spec,
    result: ForecastResult,
    overrides: dict[tuple[int, int], Override],
    run_id: str,
    now: datetime,
) -> None:
    Lake.of(spec).append("forecasts", archive_rows.rows(result, overrides, run_id, now))
    if result.beside is not None:
        rows = archive_rows.canary_rows(result.digest, result.beside, run_id, now)
        Lake.of(spec).append("canary_forecasts", rows)


@dataclass(frozen=True)
class PublicationDraft:
    """A publication under construction. Nothing may block it before its transaction: errors of
    saved inputs, explanations and plans of the week go into `troubles`."""

    spec: Spec
    knowledge: Knowledge
    result: ForecastResult
    active: Mapping[Cell, Override]
    overrides: dict[tuple[int, int], Override]  # those at forecast depots, by the positions of depot and day
    as_of: datetime
    now: datetime
    run_id: str
    onto_page: bool

    def publication(self, notes: list[Note], troubles: Troubles) -> tuple[Publication, ShiftShares | None]:
        """Return the publication, and the shares of shifts used by its rosters; extend `notes`."""
        spec, result = self.spec, self.result
        decided = {*self.active, *self._binding_crews.by_hand, *self._binding_crews.scheduled}
        if self.onto_page and (trouble := caveats.decisions_elsewhere(decided, result.panel)):
            troubles.add(trouble)
        shares = None
        with troubles.collect(LakeError, "the shares of shifts are those of their hours"):
            if spec.learns_shares:
                shares = plugin("shifts.learning").learn(spec, self.knowledge, result.panel)
        notes += caveats.notes(caveats.shift_shares(shares))
        inputs_name, too_large = _save_inputs(result, spec, shares, troubles)
        notes += caveats.notes([too_large] if too_large else [])
        overridden = apply.apply_overrides(result.forecast, self.overrides)
        depots, plans = self._depots(overridden, shares, troubles)
        joint = totals.joint_totals(overridden, result.panel, spec.levels)
        publication = Publication(
            pipeline=spec.name,
            run_id=self.run_id,
            published_at=self.now,
            as_of=self.as_of,
            cutoff=result.panel.cutoff,
            horizon=result.panel.horizon,
            tier=result.choice.tier,
            model=result.choice.model,
            timezone=spec.timezone,
            levels=result.forecast.levels,
            depots=content.with_weeks(depots, result.panel, joint.depot_weeks),
            totals=content.published_totals(joint.of_groups, overridden.target_dates),
            bundle_digest=result.digest,
            note=joined((note.for_readers for note in notes), " "),
            desk=inputs_name,
            plans=plans,
        )
        return publication, shares

    def write(self, publication: Publication, troubles: Troubles) -> int:
        """Write the publication in one transaction, and return its id. Raises LedgerError."""
        spec, result = self.spec, self.result
        findings = panel_findings(self.knowledge, result.panel, spec)
        tiers = Counter(depot.tier or publication.tier for depot in publication.depots)
        with Ledger.open(spec.ledger_url) as ledger:
            ledger.note(
                self.run_id,
                findings=findings,
                lake_versions=self.knowledge.versions,
                computing=_computing(spec, result),
                measures={"depots": tiers},
            )
            tell_of_namesake(ledger, publication, troubles)
            return ledger.publish(
                publication,
                keep=spec.retention.publications,
                show=self.onto_page,
                beside=self._record_changes(publication),
                seal=keys.sealing(spec.paths.folder),
            )

    def _record_changes(self, publication: Publication) -> Callable[[Connection], None] | None:
        """Return the function that records changes of the published schedule; None if the
        publication is not shown."""
        if not self.onto_page:
            return None
        return lambda connection: refresh.record_changes(connection, publication, self.spec.staffing, self.now)

    def _depots(
        self, overridden: Forecast, shares: ShiftShares | None, troubles: Troubles
    ) -> tuple[tuple[PublishedDepot, ...], tuple[WeekPlan, ...]]:
        """Return the published depots, and the plans of the week."""
        spec, result = self.spec, self.result
        changes: dict[tuple[int, int], PublishedChange] = {}
        with (
            troubles.collect(Exception, "the reasons for changes are not computed"),
            Ledger.open(spec.ledger_url) as ledger,
        ):
            changes |= explain.explain_changes(ledger, spec, self.knowledge, result, overridden, self.as_of)
        crews = self._crews(overridden, troubles)
        depots = tuple(
            content.published_depots(
                overridden,
                result,
                spec,
                self.knowledge,
                self.overrides,
                changes,
                crews,
                self.now,
                shares,
            )
        )
        return self._plan_weeks(depots, crews, overridden, shares, troubles)

    @cached_property
    def _binding_crews(self) -> BindingCrews:
        """Crews of the published schedule and those set by hand; none if the publication is not
        shown. Raises LedgerError."""
        if not self.onto_page:
            return refresh.NOBODY
        spec, cutoff = self.spec, self.result.panel.cutoff
        with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
            return refresh.told_crews(connection, spec.name, spec.staffing, cutoff)

    def _crews(self, overridden: Forecast, troubles: Troubles) -> PublishedCrews | None:
        """Crews already published, today or in a schedule; None if changes are unrestricted. Raises
        LedgerError."""
        spec = self.spec
        if spec.staffing is None:
            return None
        before = _published_today(spec, self.as_of, self.run_id)
        crews = published_crews(before, overridden, spec.staffing, spec.timezone, self.now)
        if not self.onto_page:
            return crews
        binding, zones = self._binding_crews, content.depot_timezones(self.knowledge)
        if binding.scheduled and (trouble := plugin("notice").of_other_shifts(binding.scheduled, spec.staffing)):
            troubles.add(trouble)
        if trouble := other_shifts(SET_FOR_OTHER_SHIFTS, binding.by_hand, spec.staffing):
            troubles.add(trouble)
        return refresh.scheduled_crews(crews, binding, overridden, spec.staffing, zones, spec.timezone, self.as_of)

    def _plan_weeks(
        self,
        depots: tuple[PublishedDepot, ...],
        crews: PublishedCrews | None,
        overridden: Forecast,
        shares: ShiftShares | None,
        troubles: Troubles,
    ) -> tuple[tuple[PublishedDepot, ...], tuple[WeekPlan, ...]]:
        """Return the depots with the attending drivers, and the plans of the week. A publication to
        be shown builds on the shown plans."""
        spec = self.spec
        if spec.staffing is None or not spec.staffing.people:
            return depots, ()
        before: dict[str, WeekPlan] = {}
        by_people: dict[str, Any] = {}
        plans: list[WeekPlan] = []
        lacking = "the plans of the week do not know who worked before"
        with troubles.collect(Exception, lacking), Ledger.open(spec.ledger_url) as ledger:
            head = ledger.current(spec.name) if self.onto_page else None
            before |= {plan.depot_id: plan for plan in ledger.plans(head.publication_id)} if head else {}
            if head:
                read, cutoff = plugin("people.days").read_decisions, self.result.panel.cutoff
                with ledger.transaction() as connection:
                    by_people |= zip(("assigned", "wishes"), read(connection, spec.name, cutoff), strict=True)
        people: Sequence[Any] | None = () if spec.staffing.people_table is None else None
        if people is None:
            with troubles.collect(
                Exception, "the table of people cannot be read; the people of the previous plans are planned"
            ):
                people = _people(spec, self.result.panel, self.run_id)
        with troubles.collect(Exception, "no week is planned"):
            roster = rosters.plan(overridden, self.result.panel, spec, crews, shares)
            planned = plugin("people").plan_weeks(
                depots,
                roster,
                self.result.panel,
                spec.staffing,
                timezone=spec.timezone,
                at=self.now,
                before=before,
                people=people,
                **by_people,
            )
            plans += planned.plans
            for trouble in planned.troubles:
                troubles.add(trouble)
            depots = plugin("people.attendance").with_attendance(
                depots, planned.plans, roster, overridden, spec.staffing
            )
        return depots, tuple(plans)


def _forecast(spec: Spec, choice: ModelChoice, knowledge: Knowledge) -> tuple[ForecastResult, Any]:
    """Return the shown forecast, and the fault of a canary that takes no part in it."""
    if choice.trial is None:
        return forecast(spec, choice, knowledge), None
    result, faulty = plugin("canary.side_by_side").forecast_both(spec, choice, choice.trial, knowledge)
    return result, faulty


def tell_of_namesake(ledger: Ledger, publication: Publication, troubles: Troubles) -> None:
    """Report if the current publication has none of the depots of the new one: two pipelines of a
    ledger may have the same name by mistake, and each would take the other's page. Raises
    LedgerError."""
    head, ids = ledger.current(publication.pipeline), [depot.depot_id for depot in publication.depots]
    if head is None or ledger.depots(head.publication_id, ids[:50]) or ledger.depots(head.publication_id, ids):
        return
    template = N_(
        "the publication before it, by run {run}, has none of these depots: where another pipeline of this ledger is "
        "called {name}, too, give one of them a name of its own"
    )
    troubles.add(sentence(template, run=head.run_id, name=publication.pipeline))


def _published_today(spec: Spec, as_of: datetime, run_id: str) -> tuple[PublishedDepot, ...]:
    """Depots of the shown publication, if it was made as of the same local day, and not by this
    run: nobody has planned with the preview shown while it trained."""
    if spec.staffing is None or (spec.staffing.change_cost == 0 and spec.staffing.change_hour is None):
        return ()
    with Ledger.open(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        if head is None or head.run_id == run_id or as_of_day(head) != as_of.astimezone(spec.zone).date():
            return ()
        return ledger.whole(head).depots


def _computing(spec: Spec, result: ForecastResult) -> dict[str, object]:
    """Number of published forecasts (depot-days), and the declared cost of an hour of computing."""
    currency = spec.staffing.currency if spec.staffing else None
    forecasts = len(result.panel.depot_ids) * result.panel.horizon
    return {"forecasts": forecasts, "cost_per_hour": spec.execution.cost_per_hour, "currency": currency}


def _save_inputs(
    result: ForecastResult, spec: Spec, shares: ShiftShares | None, troubles: Troubles
) -> tuple[str | None, str | None]:
    """Name of the saved inputs, or the reason why a run with so many depots saves none."""
    lookback = result.lookback or saved_inputs.LOOKBACK
    panel = saved_inputs.trim_panel(result.panel, lookback)
    canary = _canary_inputs(result, panel, lookback)
    saved = SavedInputs(panel, result.digest, result.strangers, spec.staffing, shares, canary)
    if too_large := saved_inputs.too_large(saved):
        return None, sentence(N_("{sentence}."), sentence=too_large)
    name = None
    with troubles.collect(Exception, "planners cannot change this publication immediately"):
        name = saved_inputs.write(spec.paths.saved_inputs, saved)
    return name, None


def _canary_inputs(result: ForecastResult, panel: SavedPanel, lookback: int) -> CanaryInputs | None:
    """Inputs of a canary for its depots, which are the champion's if both have the same form."""
    if result.beside is None:
        return None
    canary = result.beside.canary
    its_lookback = canary.lookback or lookback
    if canary.panel is not result.panel or its_lookback != lookback:
        panel = saved_inputs.trim_panel(canary.panel, its_lookback)
    return CanaryInputs(panel, str(canary.digest), result.beside.cohort, canary.strangers)


def _people(spec: Spec, panel: Panel, run_id: str) -> Sequence[Any]:
    """People who work at the panel's depots by name; faults of the table become findings of the
    run."""
    findings = list[Finding]()
    people: Sequence[Any] = plugin("people.table").people(spec, panel.depot_ids, former_ids(spec), findings)
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.note(run_id, findings=findings)
    return people


def _active_overrides(spec: Spec, as_of: datetime) -> Mapping[Cell, Override]:
    """Planners' overrides in force on an instant's local day."""
    with Ledger.open(spec.ledger_url) as ledger:
        return active_overrides(service.list_overrides(ledger, spec.name), as_of.astimezone(spec.zone).date())


def _located(active: Mapping[Cell, Override], result: ForecastResult) -> dict[tuple[int, int], Override]:
    """Overrides of forecast depots, by the positions of depot and day."""
    marks, rows = result.panel.marks, {depot: row for row, depot in enumerate(result.panel.depot_ids)}

    def may_open(cell: Cell) -> bool:
        return any(mark.date == cell[1] and mark.kind == CLOSED_WEEKDAY for mark in marks.of(rows[cell[0]]))

    return apply.locate_overrides(result.forecast, active, may_open)
