"""The addresses of planners: what-if, overrides and what they were worth, as pages and as JSON.

Whoever may read may ask what-if, which keeps nothing; planners save and withdraw. Everybody finds the depots of their
own cities, and what overrides were worth is told to those who see all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.concurrency import run_in_threadpool

from dashboards.ops.access import Person, audit, csrf_token, person, planner, require
from dashboards.ops.access.csrf import FIELD
from dashboards.ops.formatting.csv import sheet
from dashboards.ops.http.render import JSON, attached
from dashboards.ops.reading.editions import Edition
from dashboards.ops.reading.header import href
from dashboards.ops.reading.store import Shelf
from dashboards.ops.reading.what_if_cache import Kept
from dashboards.ops.routes.api import AS_CSV, GONE, LARGEST_ID, TROUBLE, Format, sorry
from dashboards.ops.views.api_schema import to_json
from dashboards.ops.views.planning import answer_sheet, book, plan_page, worth_sheet
from forecaster.config import Spec
from forecaster.errors import BundleError, DeskError, OverrideError
from forecaster.planning import service
from forecaster.planning.overrides import Override, ProposedOverride, as_of_day
from forecaster.planning.scenario import Supposition, WhatIfAnswer
from forecaster.planning.value_added import Account, account

HTML = "text/html; charset=utf-8"
LARGEST = 16_384  # bytes of a form
UNANSWERED: dict[int | str, dict[str, Any]] = {409: sorry("What the night kept, or its model, cannot answer this")}
Trouble = Callable[[Request, int, str], Response]
Planner = Annotated[Person, Depends(require("planner"))]
Page = Callable[..., bytes]
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


async def sent(request: Request) -> bytes:
    """What was sent, as far as a form may go, and one part more."""
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > LARGEST:
            break
    return content


Sent = Annotated[bytes, Depends(sent)]


def fields(request: Request, content: bytes) -> Mapping[str, Any]:
    """The fields of a form or of a JSON object. Raises OverrideError for one that is too large or no text."""
    if len(content) > LARGEST:
        raise OverrideError(f"found more than {LARGEST:,} bytes, wanted a form")
    try:
        if request.headers.get("content-type", "").startswith(JSON):
            said = json.loads(content or b"{}")
            json.dumps(said, ensure_ascii=False).encode()  # half a letter cannot be kept
            if not isinstance(said, dict):
                raise ValueError
            return said
        found = parse_qs(content.decode("ascii"), keep_blank_values=True, max_num_fields=50)
    except (ValueError, RecursionError) as error:
        raise OverrideError("found something else, wanted the fields of a form, or a JSON object") from error
    return {name: values[0] for name, values in found.items() if values[0] != ""}  # what was left empty was not said


def router(spec: Spec, shelf: Shelf, page: Page, trouble: Trouble) -> APIRouter:
    """The planners' routes for a pipeline; `page` renders a template, `trouble` answers with a plain sentence."""
    found, kept = APIRouter(responses=TROUBLE | GONE | UNANSWERED), Kept(spec)

    def told(request: Request, make: Callable[[], Response]) -> Response:
        """The answer, or a sentence about what is wrong with the question."""
        try:
            return make()
        except (OverrideError, ValidationError) as error:
            return trouble(request, 422, _mistake(error))
        except (DeskError, BundleError) as error:
            return trouble(request, 409, str(error))

    def edition_for(request: Request) -> Edition:
        return shelf.edition(person(request).cities)

    def listed(edition: Edition) -> tuple[Override, ...]:
        return planner.visible(edition, service.list_overrides(edition.ledger, edition.head.pipeline))

    def valued(edition: Edition) -> Account:
        if edition.cities is not None:
            return account((), spec.overrides.min_days)
        return service.value_added(edition.ledger, edition.head.pipeline, spec.overrides.min_days)

    def who(request: Request) -> dict[str, object]:
        """What a form has to know of whoever asks."""
        own = person(request)
        return {"plans": own.may("planner"), "named": own.via != "local", "csrf": csrf_token(request)}

    def plan(request: Request, depot: str, day: date | None, kind: str, value: float) -> Response:
        edition = edition_for(request)
        one = edition.depot(depot)
        wanted = day or edition.front.target_dates[edition.front.meant]
        shown = next((each for each in one.days if each.target_date == wanted), None)
        if shown is None:
            raise OverrideError(f"found {wanted}, wanted a published day")
        kinds, missing, answer = kept.asked(edition, Supposition(depot, wanted, kind, value) if kind else None)
        view = plan_page(one, shown, edition.head.levels, kinds, missing, answer, spec.overrides.reasons)
        said = {"front": edition.front, "plan": view, "href": href(depot), "who": who(request)}
        return Response(page("plan.html", **said), media_type=HTML)

    @found.get("/plan", include_in_schema=False)
    def plan_of_day(
        request: Request, depot: str, day: date | None = None, kind: str = "", value: float = 1.0
    ) -> Response:
        return told(request, lambda: plan(request, depot, day, kind, value))

    @found.get("/overrides", include_in_schema=False)
    def book_page(request: Request) -> Response:
        edition = edition_for(request)
        view = book(listed(edition), valued(edition), as_of_day(edition.head))
        return Response(page("overrides.html", front=edition.front, book=view, who=who(request)), media_type=HTML)

    @found.post("/overrides", include_in_schema=False)
    async def save_form(request: Request, by: Planner, content: Sent) -> Response:
        return await run_in_threadpool(told, request, lambda: after(saved(request, by, content)))

    @found.post("/overrides/{number}/withdrawal", include_in_schema=False)
    async def withdraw_form(request: Request, number: Number, by: Planner, content: Sent) -> Response:
        return await run_in_threadpool(told, request, lambda: after(taken(request, by, number, content)))

    @found.get("/api/v1/what-if", response_model=WhatIfAnswer, responses=AS_CSV, tags=["planning"])
    def what_if(
        request: Request,
        depot: str,
        day: Annotated[date, Query(alias="date")],
        kind: str,
        value: float = 1.0,
        format: Format = "json",
    ) -> Response:
        """A depot's day if one thing were otherwise: `orders`, `closed`, `open`, or a covariate such as `promo`; as
        CSV a row for each number, before and after."""
        edition = edition_for(request)
        edition.depot(depot)

        def make() -> Response:
            _, _, answer = kept.asked(edition, Supposition(depot, day, kind, value))
            assert answer is not None
            if format == "csv":
                return attached(answer_sheet(answer).csv(), "what-if")
            return Response(to_json(answer), media_type=JSON)

        return told(request, make)

    @found.get("/api/v1/overrides", response_model=OverridesOut, responses=AS_CSV, tags=["planning"])
    def overrides(request: Request, format: Format = "json") -> Response:
        """Every override, withdrawn ones too, the oldest first."""
        rows = listed(edition_for(request))
        if format == "csv":
            return attached(sheet(Override, rows).csv(), "overrides")
        return Response(to_json(OverridesOut(list(rows))), media_type=JSON)

    @found.get("/api/v1/overrides/worth", response_model=Account, responses=AS_CSV, tags=["planning"])
    def worth(request: Request, format: Format = "json") -> Response:
        """What overrides were worth: orders of error of the model less those of planners; of all cities or of none. As
        CSV all, then by reason, then by planner."""
        told = valued(edition_for(request))
        if format == "csv":
            return attached(worth_sheet(told).csv(), "overrides-worth")
        return Response(to_json(told), media_type=JSON)

    @found.post("/api/v1/overrides", response_model=SavedOut, status_code=201, tags=["planning"])
    async def save(request: Request, by: Planner, content: Sent) -> Response:
        """Save an override: depot_id, target_date, orders, reason, note, until, and by where nobody signs in."""
        return await run_in_threadpool(told, request, lambda: _json(saved(request, by, content), 201))

    @found.post("/api/v1/overrides/{number}/withdrawal", response_model=SavedOut, tags=["planning"])
    async def withdraw(request: Request, number: Number, by: Planner, content: Sent) -> Response:
        """Withdraw an override: note, and by where nobody signs in."""
        return await run_in_threadpool(told, request, lambda: _json(taken(request, by, number, content), 200))

    def saved(request: Request, by: Person, content: bytes) -> service.OverrideChange:
        asked = WishIn.model_validate(_without_token(fields(request, content)))
        if by.cities is not None:
            edition_for(request).depot(asked.depot_id)
        own = planner.name(by, asked.by)
        wish = ProposedOverride(
            asked.depot_id, asked.target_date, asked.orders, asked.reason, own, asked.note.strip(), asked.until
        )
        return noted(request, service.save(spec, wish))

    def taken(request: Request, by: Person, number: int, content: bytes) -> service.OverrideChange:
        asked = WithdrawalIn.model_validate(_without_token(fields(request, content)))
        if by.cities is not None and number not in {each.id for each in listed(edition_for(request))}:
            raise OverrideError(f"found {number}, wanted the number of an override")
        own = planner.name(by, asked.by)
        return noted(request, service.withdraw(spec, number, by=own, note=asked.note.strip()))

    def noted(request: Request, what: service.OverrideChange) -> service.OverrideChange:
        audit(request, what.sentence())
        return what

    def after(what: service.OverrideChange) -> Response:
        return RedirectResponse(href(what.override.depot_id), 303)

    return found


def _without_token(said: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in said.items() if name != FIELD}


def _json(what: service.OverrideChange, status: int) -> Response:
    return Response(to_json(SavedOut(what.override, what.sentence())), status, media_type=JSON)


def _mistake(error: OverrideError | ValidationError) -> str:
    if isinstance(error, OverrideError):
        return str(error)
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: found {first['input']!r}, {first['msg'][:1].lower()}{first['msg'][1:]}"
