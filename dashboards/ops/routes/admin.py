"""HTTP routes for admins: links of wall screens, and the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request

from dashboards.ops.access import Person, audit, links, require
from dashboards.ops.access.context import AccessContext
from dashboards.ops.access.roles import RoleFirst
from dashboards.ops.routes.api import PREFIX, TROUBLE, sorry
from forecaster.ledger import access as ledger_access

Admin = Annotated[Person, Depends(require("admin"))]


class LinkRequest(BaseModel):
    """A link to be made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    view: str = Field(max_length=64, description="As in the addresses of the API: network, runs.")
    city: str | None = Field(default=None, max_length=256, description="The only city that it shows; null: all.")
    depot_id: str | None = Field(
        default=None,
        max_length=1000,
        description="The depot of a feed (`view: feed`) or of a person; null: all of the city.",
    )
    person: str | None = Field(
        default=None, max_length=200, description="Person whose week it opens (`view: person`), as named in the plan."
    )
    days: int = Field(default=90, ge=1, le=ledger_access.MOST_DAYS)


@dataclass(frozen=True)
class LinkOut:
    link_id: str
    view: str
    city: str | None
    depot_id: str | None
    made_at: datetime
    made_by: str
    expires_at: datetime
    revoked_at: datetime | None
    revoked_by: str | None


@dataclass(frozen=True)
class NewLinkOut:
    """A link with its address, which is shown only this once and grants access to anyone who has
    it.

    A feed has two: `address` is the calendar, `rss` the feed.
    """

    link: LinkOut
    address: str
    rss: str | None


@dataclass(frozen=True)
class LinksOut:
    rows: list[LinkOut]


@dataclass(frozen=True)
class EntryOut:
    at: datetime
    who: str
    role: str
    address: str
    method: str
    path: str
    what: str


@dataclass(frozen=True)
class AuditOut:
    rows: list[EntryOut]


def router(context: AccessContext) -> APIRouter:
    """Return the admins' routes; all of them need the role admin."""
    routes = APIRouter(prefix=PREFIX, responses=TROUBLE, tags=["access"], route_class=RoleFirst)

    @routes.get("/links")
    def listed(admin: Admin) -> LinksOut:
        """Every link, newest first."""
        with context.store.reader().transaction() as connection:
            return LinksOut([_out(link) for link in ledger_access.links(connection, context.pipeline_shown())])

    @routes.post("/links", status_code=201)
    def make(request: Request, body: LinkRequest, admin: Admin) -> NewLinkOut:
        """Make a link that opens one view, limited to a city if one is given."""
        check_link(body, context)
        link, address = made_link(request, context, admin, body)
        return NewLinkOut(_out(link), address, links.rss_address(address) if body.view == links.FEED else None)

    @routes.delete("/links/{link_id}", responses={404: sorry("No such link")})
    def revoke(request: Request, link_id: Annotated[str, Path(max_length=64)], admin: Admin) -> LinkOut:
        """Revoke a link permanently."""
        return _out(revoked_link(request, context, admin, link_id))

    @routes.get("/audit")
    def audited(admin: Admin, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> AuditOut:
        """Audit entries, newest first."""
        with context.store.reader().transaction() as connection:
            entries = ledger_access.entries(connection, context.pipeline_shown(), limit)
        names = EntryOut.__dataclass_fields__
        return AuditOut([EntryOut(**{name: getattr(entry, name) for name in names}) for entry in entries])

    return routes


def check_link(wish: LinkRequest, context: AccessContext) -> None:
    """Raise HTTPException if the link would open nothing."""
    if wish.view not in (views := (*context.views, links.FEED, links.INFER, links.PERSON)):
        raise HTTPException(422, f"view: found {wish.view!r}, wanted one of {', '.join(views)}")
    ledger, pipeline = context.store.reader(), context.pipeline_shown()
    if problem := links.city_problem(ledger, pipeline, wish.city):
        raise HTTPException(422, f"city: {problem}")
    if problem := links.depot_problem(ledger, pipeline, wish.view, wish.city, wish.depot_id):
        raise HTTPException(422, f"depot_id: {problem}")
    people = links.planned_people(ledger, pipeline, wish.view, wish.depot_id) or (None,)
    if wish.person not in people:
        expected = f"one of {', '.join(map(str, people))}" if wish.view == links.PERSON else "it with the view person"
        raise HTTPException(422, f"person: found {wish.person!r}, wanted {expected}")


def made_link(
    request: Request, context: AccessContext, admin: Person, wish: LinkRequest
) -> tuple[ledger_access.Link, str]:
    """Make a link and its audit row; returns the link and its address."""
    base = (context.access.url or str(request.base_url).rstrip("/")) + context.prefix
    link = links.new(
        wish.view,
        wish.city,
        wish.days,
        pipeline=context.pipeline_shown(),
        by=admin.name,
        now=context.clock(),
        depot_id=wish.depot_id,
        person=wish.person,
    )
    with context.writing() as connection:
        ledger_access.make_link(connection, link)
        audit(request, links.link_sentence(link), connection)
    return link, links.address(context.keys, base, link)


def revoked_link(request: Request, context: AccessContext, admin: Person, link_id: str) -> ledger_access.Link:
    """Revoke a link permanently, with an audit row. Raises HTTPException 404 for an unknown link."""
    with context.writing() as connection:
        if ledger_access.link(connection, link_id) is None:
            raise HTTPException(404, f"there is no link {link_id!r}")
        revoked, was_open = ledger_access.revoke(
            connection, context.pipeline_shown(), link_id, by=admin.name, at=context.clock()
        )
        if was_open:
            audit(request, f"revoked {links.link_sentence(revoked)}", connection)
        request.state.audited = True  # or there is nothing to audit
    return revoked


def _out(link: ledger_access.Link) -> LinkOut:
    return LinkOut(**{name: getattr(link, name) for name in LinkOut.__dataclass_fields__})
