"""HTTP routes for planners: what-if (scenarios), overrides and their value, as pages and as JSON.

Every reader may ask what-if, which stores nothing; planners save and withdraw. People find only the
depots of their own cities; the value of overrides is shown only to people who see all cities.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from dashboards.ops.access import Person, audit, csrf_token, person, planner, require
from dashboards.ops.access.context import access_context
from dashboards.ops.access.roles import RoleFirst
from dashboards.ops.formatting import csv, display
from dashboards.ops.http.render import HTML, JSON, RenderPage, attached
from dashboards.ops.reading.editions import Edition
from dashboards.ops.reading.header import cell_href
from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.reading.what_if_cache import WhatIfCache
from dashboards.ops.routes.api import AS_CSV, GONE, LARGEST_ID, TROUBLE, Format, sorry
from dashboards.ops.routes.depots import depot_content, with_day_in_front
from dashboards.ops.routes.errors import Refuse
from dashboards.ops.routes.planning_requests import (
    Body,
    GroupIn,
    WishForm,
    WishIn,
    WithdrawalForm,
    WithdrawalIn,
    described,
    fields,
    form_day,
    form_number,
    mistake,
    supposition,
)
from dashboards.ops.views.api_schema import to_json
from dashboards.ops.views.planning.override_book import GroupOut, OverridesOut, SavedOut, book, worth_sheet
from dashboards.ops.views.planning.plan_day import (
    ALONE,
    CITY,
    PlanOptions,
    kind_and_value,
    plan_page,
    what_if_sheet,
)
from forecaster.config import Spec
from forecaster.core.language import ENGLISH, _, use_language
from forecaster.errors import BundleError, DeskError, ForecasterError, OverrideError
from forecaster.ledger.publication import PublishedDay
from forecaster.planning import accepted_crews, service
from forecaster.planning.override_groups import OverrideGroup
from forecaster.planning.overrides import Override, ProposedOverride, shown
from forecaster.planning.scenario import WhatIfAnswer
from forecaster.planning.value_added import Account, account

Change = service.OverrideChange | service.GroupChange
Answer = Callable[[Change], Response]

UNANSWERED: dict[int | str, dict[str, Any]] = {
    409: sorry("The stored inputs of the night, or its model, cannot answer this")
}
Planner = Annotated[Person, Depends(require("planner"))]
Number = Annotated[int, Path(ge=1, le=LARGEST_ID)]


def router(spec: Spec, store: PublicationStore, page: RenderPage, refuse: Refuse) -> APIRouter:
    """Return the planners' routes for a pipeline; `page` renders a template, `refuse` answers with
    a plain sentence."""
    planning = PlanningRoutes(spec, store, page, refuse)
    routes = APIRouter(responses=TROUBLE | GONE | UNANSWERED, route_class=RoleFirst)

    def add_page(path: str, endpoint: Callable[..., Any], method: str) -> None:
        routes.add_api_route(path, endpoint, methods=[method], include_in_schema=False)

    def add_api(path: str, endpoint: Callable[..., Any], method: str, answer: type, **options: Any) -> None:
        routes.add_api_route(path, endpoint, methods=[method], response_model=answer, tags=["planning"], **options)

    add_page("/day/{day}/{depot_id:path}", planning.plan_of_day, "GET")
    add_page("/overrides", planning.book_page, "GET")
    add_page("/overrides", planning.save_form, "POST")
    add_page("/overrides/{number}/withdrawal", planning.withdraw_form, "POST")
    add_api("/api/v1/what-if", planning.what_if, "GET", WhatIfAnswer, responses=AS_CSV)
    add_api("/api/v1/overrides", planning.overrides, "GET", OverridesOut, responses=AS_CSV)
    add_api("/api/v1/overrides/worth", planning.worth, "GET", Account, responses=AS_CSV)
    wish, group, withdrawal = described(WishIn), described(GroupIn), described(WithdrawalIn)
    add_api("/api/v1/overrides", planning.save, "POST", SavedOut, status_code=201, openapi_extra=wish)
    add_api("/api/v1/overrides/group", planning.save_group, "POST", GroupOut, status_code=201, openapi_extra=group)
    add_api("/api/v1/overrides/{number}/withdrawal", planning.withdraw, "POST", SavedOut, openapi_extra=withdrawal)
    return routes


class PlanningRoutes:
    """The endpoints for planners of one pipeline, with their shared helpers.

    Names and docstrings of the endpoints under /api/v1 appear in the API's schema.
    """

    def __init__(self, spec: Spec, store: PublicationStore, page: RenderPage, refuse: Refuse) -> None:
        self._spec, self._store, self._page, self._refuse = spec, store, page, refuse
        self._what_ifs = WhatIfCache(spec)

    # --- pages --------------------------------------------------------------------------------------------------------

    def plan_of_day(
        self,
        request: Request,
        depot_id: str,
        day: date,
        kind: str = "",
        value: Annotated[str, Query(max_length=40)] = "",
        last: Annotated[str, Query(max_length=40)] = "",
        scope: Annotated[str, Query(max_length=40)] = ALONE,
        others: Annotated[list[str], Query()] = [],  # noqa: B006 -- FastAPI copies it
        as_of: Annotated[str | None, Query(max_length=64)] = None,
    ) -> Response:
        """Show a depot's day: the forecast with its reasons, a what-if, and the form that saves it
        as an override."""

        def make() -> Response:
            edition = self._store.edition(person(request).cities, as_of=as_of)
            published = edition.depot(depot_id)
            with_day_in_front(edition.front, day)
            if edition.past:
                return Response(depot_content(edition, depot_id, self._page, day=day, as_of=as_of), media_type=HTML)
            forecast = next(published_day for published_day in published.days if published_day.target_date == day)
            neighbours = planner.neighbours(edition, published)
            question = None
            if kind:
                choice, number = kind_and_value(kind, form_number(value))
                further = neighbours if scope == CITY else tuple(filter(None, others))
                question = supposition(edition, depot_id, day, choice, number, further, form_day(last))
            state = self._what_ifs.answer(edition, question)
            options = PlanOptions(
                state.kinds,
                state.yes_or_no,
                self._spec.overrides.reasons,
                neighbours,
                published.attributes.get("city", ""),
                len(neighbours) + 1,
                scope,
            )
            some = edition.cities is not None
            missing = _told(request, state.missing) if state.missing else None
            plan = plan_page(published, forecast, edition.head.levels, options, missing, state.answer, some)
            who = form_context(request)
            with edition.ledger.transaction() as connection:
                accepted = accepted_crews.read_accepted(connection, edition.head.pipeline, day).get((depot_id, day))
            saved = forecast.override
            book = self._visible(edition) if saved else ()
            who |= {"together": len(service.saved_together(book, saved.id)) if saved else 0}
            who |= {"crew": forecast.drivers if forecast.open else None, "accepted": accepted, **_crew(forecast)}
            body = depot_content(edition, depot_id, self._page, day=day, plans=True, plan=plan, who=who)
            return Response(body, media_type=HTML)

        return self._or_refused(request, make)

    def book_page(self, request: Request) -> Response:
        """Show every override, and the value of those for past days."""
        edition = self._edition(request)
        view = book(self._visible(edition), self._account(edition), edition.head)
        body = self._page("overrides.html", front=edition.front, book=view, who=form_context(request))
        return Response(body, media_type=HTML)

    async def save_form(self, request: Request, by: Planner, content: Body) -> Response:
        """Save the overrides of a form, and redirect to its day."""

        def make() -> Response:
            return self._save_group(request, by, content, partial(_to_day, request), self._form_group)

        return await run_in_threadpool(self._or_refused, request, make)

    async def withdraw_form(self, request: Request, number: Number, by: Planner, content: Body) -> Response:
        """Withdraw an override by a form, and redirect to its day."""

        def make() -> Response:
            return self._withdraw(request, by, number, content, partial(_to_day, request))

        return await run_in_threadpool(self._or_refused, request, make)

    # --- API ----------------------------------------------------------------------------------------------------------

    def what_if(
        self,
        request: Request,
        depot: Annotated[list[str], Query(min_length=1, description="The depot; repeat for several")],
        day: Annotated[date, Query(alias="date")],
        kind: Annotated[str, Query(description="orders, percent, closed, open, or a covariate such as promo")],
        value: Annotated[
            float | None, Query(description="Orders, per cent, or the covariate's value; not for closed and open")
        ] = None,
        last: Annotated[date | None, Query(description="Last day of a range that begins with date")] = None,
        format: Format = "json",
    ) -> Response:
        """Forecast of a depot's day, or of several depots' days, with one thing changed; as CSV one
        row per number, before and after."""
        edition = self._edition(request)

        def make() -> Response:
            question = supposition(edition, depot[0], day, kind, value, tuple(depot[1:]), last)
            answer = self._what_ifs.answer(edition, question).answer
            assert answer is not None
            if format == "csv":
                return attached(what_if_sheet(answer).csv(), "what-if")
            return Response(to_json(answer), media_type=JSON)

        return self._or_refused(request, make)

    def overrides(self, request: Request, format: Format = "json") -> Response:
        """Every override, including withdrawn ones, oldest first."""
        rows = self._visible(self._edition(request))
        if format == "csv":
            return attached(csv.sheet(Override, rows).csv(), "overrides")
        return Response(to_json(OverridesOut(list(rows))), media_type=JSON)

    def worth(self, request: Request, format: Format = "json") -> Response:
        """Value of overrides: the model's errors in orders less those of the planners; of all
        cities or of none. As CSV in total, then by reason, then by planner."""
        worth = self._account(self._edition(request))
        if format == "csv":
            return attached(worth_sheet(worth).csv(), "overrides-worth")
        return Response(to_json(worth), media_type=JSON)

    async def save(self, request: Request, by: Planner, content: Body) -> Response:
        """Save an override: depot_id, target_date, orders, reason, note, until, and, without
        sign-in, by."""

        def make() -> Response:
            return self._save(request, by, content, partial(_as_json, 201))

        return await run_in_threadpool(self._or_refused, request, make)

    async def save_group(self, request: Request, by: Planner, content: Body) -> Response:
        """Save an override for each open day of several depots or days, all or none."""

        def make() -> Response:
            return self._save_group(request, by, content, partial(_as_json, 201), self._api_group)

        return await run_in_threadpool(self._or_refused, request, make)

    async def withdraw(self, request: Request, number: Number, by: Planner, content: Body) -> Response:
        """Withdraw an override: note and, without sign-in, by."""

        def make() -> Response:
            WithdrawalIn.model_validate(fields(request, content))
            return self._withdraw(request, by, number, content, partial(_as_json, 200))

        return await run_in_threadpool(self._or_refused, request, make)

    # --- what they share ----------------------------------------------------------------------------------------------

    def _or_refused(self, request: Request, make: Callable[[], Response]) -> Response:
        """Return the answer, or a sentence about the problem with the request."""
        try:
            return make()
        except (OverrideError, ValidationError) as error:
            return self._refuse(request, 422, mistake(error))
        except (DeskError, BundleError) as error:
            return self._refuse(request, 409, _told(request, error))

    def _edition(self, request: Request) -> Edition:
        return self._store.edition(person(request).cities)

    def _visible(self, edition: Edition) -> tuple[Override, ...]:
        return planner.visible(edition, service.list_overrides(edition.ledger, edition.head.pipeline))

    def _account(self, edition: Edition) -> Account:
        """Return the value of overrides; empty for readers of some cities, since it sums over all."""
        if edition.cities is not None:
            return account((), self._spec.overrides.min_days)
        return service.value_added(edition.ledger, edition.head.pipeline, self._spec.overrides.min_days)

    def _save(self, request: Request, by: Person, content: bytes, answer: Answer) -> Response:
        wish = WishIn.model_validate(fields(request, content))
        if by.cities is not None:
            self._edition(request).depot(wish.depot_id)  # must be in a visible city; otherwise it counts as unknown
        override = ProposedOverride(
            wish.depot_id,
            wish.target_date,
            wish.orders,
            wish.reason,
            planner.name(by, wish.by),
            wish.note.strip(),
            wish.until,
        )
        return answer(service.save(self._spec, override, audit=auditing(request)))

    def _save_group(
        self,
        request: Request,
        by: Person,
        content: bytes,
        answer: Answer,
        read: Callable[[Request, Person, dict[str, Any]], OverrideGroup],
    ) -> Response:
        group = read(request, by, dict(fields(request, content)))
        return answer(service.save_group(self._spec, group, audit=auditing(request)))

    def _form_group(self, request: Request, by: Person, values: dict[str, Any]) -> OverrideGroup:
        """Return the overrides of a form; a city means those of its depots that the planner sees."""
        wish = WishForm.model_validate(values)
        edition = self._edition(request)
        neighbours = planner.neighbours(edition, edition.depot(wish.depot_id)) if wish.scope == CITY else ()
        group = wish.group(planner.name(by, wish.by), neighbours)
        if by.cities is not None:
            planner.see_all(edition, group.depot_ids)
        return group

    def _api_group(self, request: Request, by: Person, values: dict[str, Any]) -> OverrideGroup:
        """Return the overrides of a JSON object. Raises NoSuchDepot for depots that the planner
        does not see."""
        wish = GroupIn.model_validate(values)
        group = wish.group(planner.name(by, wish.by))
        if by.cities is not None:
            planner.see_all(self._edition(request), group.depot_ids)
            if group.city is not None and group.city not in by.cities:
                raise OverrideError(
                    _(
                        "city: found {city}, wanted one of {cities}",
                        city=shown(group.city),
                        cities=", ".join(sorted(by.cities)),
                    )
                )
        return group

    def _withdraw(self, request: Request, by: Person, number: int, content: bytes, answer: Answer) -> Response:
        withdrawal = WithdrawalForm.model_validate(fields(request, content))
        if by.cities is not None and number not in {row.id for row in self._visible(self._edition(request))}:
            raise OverrideError(_("found {number}, wanted the number of an override", number=number))
        name, note = planner.name(by, withdrawal.by), withdrawal.note.strip()
        if withdrawal.together:
            group = service.saved_together(self._visible(self._edition(request)), number)
            if group:  # otherwise it is unknown or withdrawn, and rejected below
                ids = [override.id for override in group]
                return answer(service.withdraw_group(self._spec, ids, by=name, note=note, audit=auditing(request)))
        return answer(service.withdraw(self._spec, number, by=name, note=note, audit=auditing(request)))


def _crew(day: PublishedDay) -> dict[str, object]:
    """Return a day's crews by shift, "" for the whole day, and whether a planner set them."""
    roster = day.roster
    missing = dict(roster.missing) if roster else {}
    shifts = [(name, count + missing.get(name, 0)) for name, count in roster.shifts] if roster else []
    return {"crews": shifts or [("", day.drivers)], "by_hand": roster is not None and roster.by_hand}


def form_context(request: Request) -> dict[str, object]:
    """Context of a form: permission to plan, sign-in, and the CSRF token."""
    who = person(request)
    return {"plans": who.may("planner"), "signed_in": who.via != "local", "csrf": csrf_token(request)}


def auditing(request: Request) -> service.Audit[Any]:
    """Return a function that writes the audit entry of a change within its transaction."""
    request.state.audited = True  # a repeated write changes nothing and is not audited

    def auditing(connection: sa.Connection, change: Change) -> None:
        with use_language(ENGLISH):  # the language of the audit log
            audit(request, change.sentence(), connection)

    return auditing


def _to_day(request: Request, change: Change) -> Response:
    override = change.override if isinstance(change, service.OverrideChange) else change.overrides[0]
    return RedirectResponse(access_context(request).prefix + cell_href(override.depot_id, override.target_date), 303)


def _as_json(status: int, change: Change) -> Response:
    sentence = change.sentence(for_readers=True, number=display.number)
    if isinstance(change, service.OverrideChange):
        return Response(to_json(SavedOut(change.override, sentence)), status, media_type=JSON)
    saved = GroupOut(list(change.overrides), change.closed, sentence)
    return Response(to_json(saved), status, media_type=JSON)


def _told(request: Request, error: ForecasterError) -> str:
    """Sentence for readers; the log gets the details."""
    access_context(request).troubles.warn("%s", error)
    return _(error.for_readers)
