"""Replan the week for the depots of a publication whose crews an override has changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from forecaster.core.forecast import Forecast
from forecaster.ledger.publication import Publication
from forecaster.ledger.week_plan import WeekPlan
from forecaster.planning.people.person_days import Assigned, Wishes
from forecaster.planning.saved_inputs import SavedInputs
from forecaster.staffing.newsvendor import Roster
from forecaster.staffing.people import week_plans
from forecaster.staffing.people.attendance import with_attendance


def replanned(
    before: Publication,
    after: Publication,
    roster: Roster | None,
    forecast: Forecast,
    inputs: SavedInputs,
    at: datetime,
    assigned: Assigned = week_plans.NOT_BY_HAND,
    wishes: Wishes = week_plans.NO_WISHES,
) -> tuple[Publication, str | None]:
    """Return the publication `after` with replanned weeks and their attending drivers, and a remark
    on what could not be planned.

    `assigned` are shifts set by hand.
    """
    plans, remark = replan(before, after, roster, inputs, at, assigned, wishes)
    changed = {depot.depot_id for was, depot in zip(before.depots, after.depots, strict=True) if was != depot}
    changed |= reassigned(before, assigned, wishes)
    of_changed = [plan for plan in plans if plan.depot_id in changed]
    attended = with_attendance(after.depots, of_changed, roster, forecast, inputs.staffing)
    return replace(after, depots=attended, plans=plans), remark


def replan(
    before: Publication,
    after: Publication,
    roster: Roster | None,
    inputs: SavedInputs,
    at: datetime,
    assigned: Assigned = week_plans.NOT_BY_HAND,
    wishes: Wishes = week_plans.NO_WISHES,
) -> tuple[tuple[WeekPlan, ...], str | None]:
    """Return the plans of a changed publication, and why some could not be replanned; those stay
    unchanged.

    A person who keeps a shift keeps the instant since which it is planned.
    """
    old, moved = {plan.depot_id: plan for plan in before.plans}, reassigned(before, assigned, wishes)
    changed = tuple(
        depot
        for was, depot in zip(before.depots, after.depots, strict=True)
        if depot.depot_id in old and (was.days != depot.days or depot.depot_id in moved)
    )
    planned = week_plans.plan_weeks(
        changed,
        roster,
        inputs.panel,
        inputs.staffing,
        timezone=after.timezone,
        at=at,
        before=old,
        assigned=assigned,
        wishes=wishes,
    )
    new = {plan.depot_id: plan for plan in planned.plans}
    return tuple({**old, **new}.values()), "; ".join(planned.troubles) or None


def reassigned(publication: Publication, assigned: Assigned, wishes: Wishes) -> set[str]:
    """Depots whose plans follow shifts set by hand, or wishes, other than these."""
    depots, days = set(), {day.target_date for depot in publication.depots[:1] for day in depot.days}
    for plan in publication.plans:
        by_hand, wished = assigned.get(plan.depot_id, {}), wishes.get(plan.depot_id, {})
        for who in plan.positions:
            if days & {*who.wishes} != days & {*wished.get(who.name, ())} or who.assigned != tuple(
                shift for shift in by_hand.get(who.name, ()) if shift[0] in days
            ):
                depots.add(plan.depot_id)
    return depots
