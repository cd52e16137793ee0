"""HTTP routes for planners: what-if (scenarios), overrides and what they were worth, as pages and as JSON.

Whoever may read may ask what-if, which keeps nothing; planners save and withdraw. Everybody finds the depots of their
own cities, and what overrides were worth is told to those who see all.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Annotated, Any
from urllib.parse import parse_qs

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator
from starlette.concurrency import run_in_threadpool

from dashboards.ops.access import Person, audit, csrf_token, person, planner, require
from dashboards.ops.access.csrf import FIELD
from dashboards.ops.access.roles import RoleFirst
from dashboards.ops.formatting.csv import sheet
from dashboards.ops.http import idempotency
from dashboards.ops.http.idempotency import KeyHeader, Once
from dashboards.ops.http.render import JSON, RenderPage, attached
from dashboards.ops.reading.editions import Edition
from dashboards.ops.reading.header import href
from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.reading.what_if_cache import WhatIfCache
from dashboards.ops.routes.api import AS_CSV, GONE, LARGEST_ID, TROUBLE, Format, sorry
from dashboards.ops.routes.errors import Refuse
from dashboards.ops.views.api_schema import to_json
from dashboards.ops.views.planning import book, plan_page, what_if_sheet, worth_sheet
from forecaster.config import Spec
from forecaster.errors import BundleError, DeskError, OverrideError
from forecaster.planning import service
from forecaster.planning.overrides import Override, ProposedOverride, as_of_day, shown
from forecaster.planning.scenario import Supposition, WhatIfAnswer
from forecaster.planning.value_added import Account, account

Answer = Callable[[service.OverrideChange], Response]

HTML = "text/html; charset=utf-8"
LARGEST = 16_384  # bytes of a form
UNANSWERED: dict[int | str, dict[str, Any]] = {409: sorry("What the night kept, or its model, cannot answer this")}
Planner = Annotated[Person, Depends(require("planner"))]
Number = Annotated[int, Path(ge=1, le=LARGEST_ID)]


class WishIn(BaseModel):
    """An override to be saved; `until` is the last day whose publication takes it up, the day itself by default."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    depot_id: str
    target_date: date
    orders: int
    reason: str
    note: str = ""
    until: date | None = None
    by: str = ""

    @field_validator("target_date", "until", mode="before")
    @classmethod
    def _as_written(cls, day: object) -> object:
        # digits alone would be seconds since 1970
        if day is not None and not (isinstance(day, str) and re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", day)):
            raise ValueError("wanted a day such as 2025-06-18")
        return day

    @field_validator("orders", mode="before")
    @classmethod
    def _counted(cls, orders: object) -> object:
        if isinstance(orders, bool):  # which Python takes for 1 or 0
            raise ValueError("input should be a valid integer")
        return orders


class WithdrawalIn(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    by: str = ""
    note: str = ""


@dataclass(frozen=True)
class SavedOut:
    """What was written down; `said` is a sentence about it and about what the page shows."""

    override: Override
    said: str


@dataclass(frozen=True)
class OverridesOut:
    overrides: list[Override]


async def read_body(request: Request) -> bytes:
    """The body of a request, as far as a form may go, and one part more."""
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > LARGEST:
            break
    return content


Body = Annotated[bytes, Depends(read_body)]


def fields(request: Request, content: bytes) -> Mapping[str, Any]:
    """The fields of a form or of a JSON object, without the CSRF token.

    Raises OverrideError for one that is too large or no text.
    """
    if len(content) > LARGEST:
        raise OverrideError(f"found more than {LARGEST:,} bytes, wanted a form")
    try:
        if request.headers.get("content-type", "").startswith(JSON):
            values = json.loads(content or b"{}")
            json.dumps(values, ensure_ascii=False).encode()  # half a letter cannot be kept
            if not isinstance(values, dict):
                raise ValueError
        else:
            lists = parse_qs(content.decode("ascii"), keep_blank_values=True, max_num_fields=50)
            values = {name: texts[0] for name, texts in lists.items() if texts[0] != ""}  # left empty: not filled in
    except (ValueError, RecursionError) as error:
        raise OverrideError("found something else, wanted the fields of a form, or a JSON object") from error
    return {name: value for name, value in values.items() if name != FIELD}


def router(spec: Spec, store: PublicationStore, page: RenderPage, refuse: Refuse) -> APIRouter:
    """The planners' routes for a pipeline; `page` renders a template, `refuse` answers with a plain sentence."""
    planning = PlanningRoutes(spec, store, page, refuse)
    routes = APIRouter(responses=TROUBLE | GONE | UNANSWERED, route_class=RoleFirst)

    def add_page(path: str, endpoint: Callable[..., Any], method: str) -> None:
        routes.add_api_route(path, endpoint, methods=[method], include_in_schema=False)

    def add_api(path: str, endpoint: Callable[..., Any], method: str, answer: type, **options: Any) -> None:
        routes.add_api_route(path, endpoint, methods=[method], response_model=answer, tags=["planning"], **options)

    add_page("/plan", planning.plan_of_day, "GET")
    add_page("/overrides", planning.book_page, "GET")
    add_page("/overrides", planning.save_form, "POST")
    add_page("/overrides/{number}/withdrawal", planning.withdraw_form, "POST")
    add_api("/api/v1/what-if", planning.what_if, "GET", WhatIfAnswer, responses=AS_CSV)
    add_api("/api/v1/overrides", planning.overrides, "GET", OverridesOut, responses=AS_CSV)
    add_api("/api/v1/overrides/worth", planning.worth, "GET", Account, responses=AS_CSV)
    add_api("/api/v1/overrides", planning.save, "POST", SavedOut, status_code=201)
    add_api("/api/v1/overrides/{number}/withdrawal", planning.withdraw, "POST", SavedOut)
    return routes


class PlanningRoutes:
    """The endpoints of one pipeline's planners, and what they share.

    The names and the docstrings of those under /api/v1 are the API's own: its schema shows them.
    """

    def __init__(self, spec: Spec, store: PublicationStore, page: RenderPage, refuse: Refuse) -> None:
        self._spec, self._store, self._page, self._refuse = spec, store, page, refuse
        self._what_ifs = WhatIfCache(spec)

    # --- pages --------------------------------------------------------------------------------------------------------

    def plan_of_day(
        self, request: Request, depot: str, day: date | None = None, kind: str = "", value: float = 1.0
    ) -> Response:
        """A depot's day: a what-if of it, and the form for an override."""

        def make() -> Response:
            edition = self._edition(request)
            published = edition.depot(depot)
            target = day or edition.front.target_dates[edition.front.meant]
            forecast = next((ahead for ahead in published.days if ahead.target_date == target), None)
            if forecast is None:
                raise OverrideError(f"found {target}, wanted a published day")
            question = Supposition(depot, target, kind, value) if kind else None
            kinds, missing, answer = self._what_ifs.answer(edition, question)
            reasons = self._spec.overrides.reasons
            some = edition.cities is not None
            view = plan_page(published, forecast, edition.head.levels, kinds, missing, answer, reasons, some)
            who = _form_context(request)
            body = self._page("plan.html", front=edition.front, plan=view, href=href(depot), who=who)
            return Response(body, media_type=HTML)

        return self._or_refused(request, make)

    def book_page(self, request: Request) -> Response:
        """Every override, and what those of past days were worth."""
        edition = self._edition(request)
        view = book(self._visible(edition), self._account(edition), as_of_day(edition.head))
        body = self._page("overrides.html", front=edition.front, book=view, who=_form_context(request))
        return Response(body, media_type=HTML)

    async def save_form(self, request: Request, by: Planner, content: Body) -> Response:
        """Save the override of a form, and lead to its depot."""

        def make() -> Response:
            return self._save(request, by, content, None, _to_depot)

        return await run_in_threadpool(self._or_refused, request, make)

    async def withdraw_form(self, request: Request, number: Number, by: Planner, content: Body) -> Response:
        """Withdraw an override by a form, and lead to its depot."""

        def make() -> Response:
            return self._withdraw(request, by, number, content, None, _to_depot)

        return await run_in_threadpool(self._or_refused, request, make)

    # --- API ----------------------------------------------------------------------------------------------------------

    def what_if(
        self,
        request: Request,
        depot: str,
        day: Annotated[date, Query(alias="date")],
        kind: str,
        value: float = 1.0,
        format: Format = "json",
    ) -> Response:
        """A depot's day if one thing were otherwise: `orders`, `closed`, `open`, or a covariate such as `promo`; as
        CSV a row for each number, before and after."""
        edition = self._edition(request)
        edition.depot(depot)

        def make() -> Response:
            _, _, answer = self._what_ifs.answer(edition, Supposition(depot, day, kind, value))
            assert answer is not None
            if format == "csv":
                return attached(what_if_sheet(answer).csv(), "what-if")
            return Response(to_json(answer), media_type=JSON)

        return self._or_refused(request, make)

    def overrides(self, request: Request, format: Format = "json") -> Response:
        """Every override, withdrawn ones too, the oldest first."""
        rows = self._visible(self._edition(request))
        if format == "csv":
            return attached(sheet(Override, rows).csv(), "overrides")
        return Response(to_json(OverridesOut(list(rows))), media_type=JSON)

    def worth(self, request: Request, format: Format = "json") -> Response:
        """What overrides were worth: orders of error of the model less those of planners; of all cities or of none. As
        CSV all, then by reason, then by planner."""
        worth = self._account(self._edition(request))
        if format == "csv":
            return attached(worth_sheet(worth).csv(), "overrides-worth")
        return Response(to_json(worth), media_type=JSON)

    async def save(self, request: Request, by: Planner, content: Body, key: KeyHeader = None) -> Response:
        """Save an override: depot_id, target_date, orders, reason, note, until, and by where nobody signs in."""

        def make() -> Response:
            return self._save(request, by, content, key, partial(_as_json, 201))

        return await run_in_threadpool(self._or_refused, request, make)

    async def withdraw(
        self, request: Request, number: Number, by: Planner, content: Body, key: KeyHeader = None
    ) -> Response:
        """Withdraw an override: note, and by where nobody signs in."""

        def make() -> Response:
            return self._withdraw(request, by, number, content, key, partial(_as_json, 200))

        return await run_in_threadpool(self._or_refused, request, make)

    # --- what they share ----------------------------------------------------------------------------------------------

    def _or_refused(self, request: Request, make: Callable[[], Response]) -> Response:
        """The answer, or a sentence about what is wrong with the question."""
        try:
            return make()
        except (OverrideError, ValidationError) as error:
            return self._refuse(request, 422, _mistake(error))
        except (DeskError, BundleError) as error:
            return self._refuse(request, 409, str(error))

    def _edition(self, request: Request) -> Edition:
        return self._store.edition(person(request).cities)

    def _visible(self, edition: Edition) -> tuple[Override, ...]:
        return planner.visible(edition, service.list_overrides(edition.ledger, edition.head.pipeline))

    def _account(self, edition: Edition) -> Account:
        """What overrides were worth; an empty account for who does not see every city, since it sums over all."""
        if edition.cities is not None:
            return account((), self._spec.overrides.min_days)
        return service.value_added(edition.ledger, edition.head.pipeline, self._spec.overrides.min_days)

    def _save(self, request: Request, by: Person, content: bytes, key: str | None, answer: Answer) -> Response:
        values = dict(fields(request, content))

        def write(once: Once) -> service.OverrideChange:
            wish = WishIn.model_validate(values)
            if by.cities is not None:
                self._edition(request).depot(wish.depot_id)  # of a city that they see, or there is no such depot
            override = ProposedOverride(
                wish.depot_id,
                wish.target_date,
                wish.orders,
                wish.reason,
                planner.name(by, wish.by),
                wish.note.strip(),
                wish.until,
            )
            return service.save(self._spec, override, begin=once.begin, audit=_auditing(request, once, answer))

        return _once(request, key, values, write, answer)

    def _withdraw(
        self, request: Request, by: Person, number: int, content: bytes, key: str | None, answer: Answer
    ) -> Response:
        values = dict(fields(request, content))

        def write(once: Once) -> service.OverrideChange:
            withdrawal = WithdrawalIn.model_validate(values)
            if by.cities is not None and number not in {row.id for row in self._visible(self._edition(request))}:
                raise OverrideError(f"found {number}, wanted the number of an override")
            name, note = planner.name(by, withdrawal.by), withdrawal.note.strip()
            auditing = _auditing(request, once, answer)
            return service.withdraw(self._spec, number, by=name, note=note, begin=once.begin, audit=auditing)

        return _once(request, key, values, write, answer)


def _form_context(request: Request) -> dict[str, object]:
    """What a form has to know of whoever asks: may they plan, have they a name already, their CSRF token, and what
    makes a key for each form, so that one that is sent twice is done once."""
    who = person(request)
    keys = partial(secrets.token_urlsafe, 16)
    return {"plans": who.may("planner"), "signed_in": who.via != "local", "csrf": csrf_token(request), "new_key": keys}


def _once(
    request: Request,
    key: str | None,
    values: dict[str, Any],
    write: Callable[[Once], service.OverrideChange],
    answer: Answer,
) -> Response:
    """The answer to a change, which is made once however often it is sent with its key: the header, or a field."""
    named = values.pop(idempotency.FIELD, None) if isinstance(values.get(idempotency.FIELD), str) else None
    once = Once(request, named if key is None else key, values)
    return once.answer(lambda: answer(write(once)))


def _auditing(request: Request, once: Once, answer: Answer) -> service.Audit[service.OverrideChange]:
    """Writes the audit's row of a change, and how it is answered, in the change's own transaction."""

    def auditing(connection: sa.Connection, change: service.OverrideChange) -> None:
        audit(request, change.sentence(), connection)
        once.keep(connection, answer(change))

    return auditing


def _to_depot(change: service.OverrideChange) -> Response:
    return RedirectResponse(href(change.override.depot_id), 303)


def _as_json(status: int, change: service.OverrideChange) -> Response:
    return Response(to_json(SavedOut(change.override, change.sentence())), status, media_type=JSON)


def _mistake(error: OverrideError | ValidationError) -> str:
    if isinstance(error, OverrideError):
        return str(error)
    first = error.errors()[0]
    message = first["msg"].removeprefix("Value error, ")
    return f"{'.'.join(map(str, first['loc']))[:80]}: found {shown(first['input'])}, {message[:1].lower()}{message[1:]}"
