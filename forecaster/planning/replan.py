"""Plan the week anew for the depots of a publication whose crews a planner's override has
changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from forecaster.core.forecast import Forecast
from forecaster.ledger.publication import Publication
from forecaster.ledger.week_plan import WeekPlan
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
) -> tuple[Publication, str | None]:
    """The publication `after` with its plans made anew and the drivers who come by them; and what
    could not be done."""
    plans, remark = replan(before, after, roster, inputs, at)
    changed = {depot.depot_id for was, depot in zip(before.depots, after.depots, strict=True) if was != depot}
    of_changed = [plan for plan in plans if plan.depot_id in changed]
    attended = with_attendance(after.depots, of_changed, roster, forecast, inputs.staffing)
    return replace(after, depots=attended, plans=plans), remark


def replan(
    before: Publication, after: Publication, roster: Roster | None, inputs: SavedInputs, at: datetime
) -> tuple[tuple[WeekPlan, ...], str | None]:
    """The plans of a publication with other numbers in it, and why some could not be made anew:
    they stay as they were.

    Whoever keeps a shift keeps the instant since which it is planned.
    """
    old = {plan.depot_id: plan for plan in before.plans}
    changed = tuple(
        depot
        for was, depot in zip(before.depots, after.depots, strict=True)
        if depot.depot_id in old and was.days != depot.days
    )
    planned = week_plans.plan_weeks(
        changed, roster, inputs.panel, inputs.staffing, timezone=after.timezone, at=at, before=old
    )
    new = {plan.depot_id: plan for plan in planned.plans}
    return tuple({**old, **new}.values()), "; ".join(planned.troubles) or None
