"""Signed links for wall screens, feeds and people: a signature that the page trusts, and a ledger
row that can be revoked.

A screen opens its link once and then has a cookie; a feed reader or a calendar has the token in
each address.
"""

from __future__ import annotations

import socket
from dataclasses import replace
from datetime import datetime, timedelta

from itsdangerous import BadSignature, URLSafeSerializer
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dashboards.ops.access.context import AccessContext, signing_keys
from dashboards.ops.access.person import Person
from dashboards.ops.access.signatures import Keys, serializer
from forecaster.config import Spec
from forecaster.errors import SpecError
from forecaster.ledger import access as ledger_access
from forecaster.ledger import connect
from forecaster.ledger.store import Ledger

COOKIE = "link"
FEED = "feed"  # view of a link for feed readers and calendars, not for screens
INFER = "infer"  # view of a link that lets a machine query the inference service
PERSON = "person"  # view of a link that shows a person their own week and accepts their answers
MY_WEEK, MY_CALENDAR = "/my-week", "/my-week/calendar"


class DeadLink(LookupError):
    """A link that opens nothing: invalid, expired or revoked."""


def visitor(context: AccessContext, token: str) -> Person | None:
    """Return the screen that holds this token while its link is valid, else None."""
    try:
        link = open_link(context, token)
    except DeadLink:
        return None
    paths = frozenset(_paths(context, link))
    cities = None if link.city is None else frozenset({link.city})
    return Person(f"link {link.link_id}", "viewer", "link", cities, paths)


def open_link(context: AccessContext, token: str) -> ledger_access.Link:
    """Return the link of a token. Raises DeadLink, and LedgerError if the ledger cannot be read."""
    try:
        link_id = _signer(context.keys).loads(token)
    except BadSignature:
        raise DeadLink from None
    with context.store.reader().transaction() as connection:
        link = ledger_access.link(connection, str(link_id))
    if link is None or not link.opens(context.clock()) or link.pipeline != (context.pipeline or link.pipeline):
        raise DeadLink
    return link


def opens(context: AccessContext, path: str) -> bool:
    """True if a path belongs to a screen's link or a feed and its link is valid. Raises
    LedgerError."""
    kind, _, rest = path.lstrip("/").partition("/")
    if kind not in ("link", "feed"):
        return False
    try:
        open_link(context, rest.partition("/")[0])
    except DeadLink:
        return False
    return True


def feed_reader(context: AccessContext, token: str) -> tuple[ledger_access.Link, Person]:
    """Return a feed's link and its reader; the reader of a depot's feed sees only the depot's city.
    Raises DeadLink, also for links of screens."""
    link = open_link(context, token)
    if link.view != FEED:
        raise DeadLink
    city = link.city if link.depot_id is None else _city_of(context, link.depot_id)
    cities = None if city is None else frozenset({city})
    return link, Person(f"link {link.link_id}", "viewer", "link", cities, frozenset())


def _city_of(context: AccessContext, depot_id: str) -> str | None:
    """Return the city of a depot; None if it has none or is no longer published."""
    edition = context.store.edition()
    depot = edition.ledger.depot(edition.head.publication_id, depot_id)
    return depot.attributes.get("city") if depot else None


def of_person(request: Request, context: AccessContext) -> tuple[str, str]:
    """Return the depot and name of the person whose link this browser holds, even if somebody else
    is signed in. Raises DeadLink."""
    link = open_link(context, request.cookies.get(context.cookie(COOKIE), ""))
    if link.view != PERSON or link.depot_id is None or link.person is None:
        raise DeadLink
    return link.depot_id, link.person


def _paths(context: AccessContext, link: ledger_access.Link) -> tuple[str, ...]:
    return (MY_WEEK, MY_CALENDAR) if link.view == PERSON else context.views.get(link.view, ())


def enter(request: Request, context: AccessContext, token: str) -> Response:
    """Give a screen its cookie, and redirect it to its view. Raises DeadLink, also for links of
    feeds."""
    link = open_link(context, token)
    if not (paths := _paths(context, link)):
        raise DeadLink
    lifetime = link.expires_at - context.clock()
    answer = RedirectResponse(context.prefix + paths[0], 303)
    answer.set_cookie(
        context.cookie(COOKIE),
        token,
        max_age=int(lifetime.total_seconds()),
        secure=context.secure,
        httponly=True,
        samesite="lax",
    )
    return answer


def new(
    view: str,
    city: str | None,
    days: int,
    *,
    pipeline: str,
    by: str,
    now: datetime,
    depot_id: str | None = None,
    person: str | None = None,
) -> ledger_access.Link:
    until = now + timedelta(days=days)
    number = ledger_access.new_link_id()
    return ledger_access.Link(number, pipeline, view, city, now, by, until, depot_id=depot_id, person=person)


def address(keys: Keys, base: str, link: ledger_access.Link) -> str:
    """Return a link's address: a screen's page, a feed's calendar (`rss_address` gives its RSS), or
    a machine's bare token."""
    token = _signer(keys).dumps(link.link_id)
    if link.view == INFER:
        return str(token)
    return f"{base}/feed/{token}/ics" if link.view == FEED else f"{base}/link/{token}"


def rss_address(calendar: str) -> str:
    """Return the address of the RSS feed that belongs to a calendar."""
    return f"{calendar.removesuffix('ics')}rss"


def make_link(
    spec: Spec,
    view: str,
    city: str | None,
    days: int,
    *,
    by: str,
    now: datetime,
    depot: str | None = None,
    person: str | None = None,
) -> tuple[ledger_access.Link, tuple[str, ...]]:
    """Make a link from the command line; the view `person` without a person makes one for each
    person of the depot.

    Returns the first link and all addresses: for a feed the calendar and the RSS, for people each
    after their name. Raises SpecError if the link could open nothing.
    """
    from dashboards.ops.views.catalogue import linkable

    access = spec.page.access
    if access.secret is None or access.url is None or access.sign_in == "none":
        raise SpecError("a link needs page.access with sign_in, url and secret: without them, no one else can sign in")
    keys = signing_keys(access)
    if days > ledger_access.MOST_DAYS:
        raise SpecError(f"--days: found {days}, wanted {ledger_access.MOST_DAYS} at most")
    if view not in (views := (*linkable(), FEED, INFER, PERSON)):
        raise SpecError(f"--view: found {view!r}, wanted one of {', '.join(views)}")
    with Ledger.open(spec.ledger_url, patience=connect.ATTENDED) as ledger:
        _require_published(ledger, spec.name, view, city, depot)
        people = planned_people(ledger, spec.name, view, depot)
        if person not in (None, *people):
            expected = f"one of {', '.join(people)}" if people else f"it with the view {PERSON} alone"
            raise SpecError(f"--person: found {person!r}, wanted {expected}")
        plain = new(view, city, days, pipeline=spec.name, by=by, now=now, depot_id=depot)
        names = (person,) if person else people
        links = [replace(plain, link_id=ledger_access.new_link_id(), person=name) for name in names] or [plain]
        with ledger.transaction() as connection:
            for link in links:
                ledger_access.make_link(connection, link)
                ledger_access.note(connection, by_command(spec, by, now, "link", link_sentence(link)))
    addresses = [f"{link.person}: " * bool(link.person) + address(keys, access.url, link) for link in links]
    return links[0], (*addresses, rss_address(addresses[0])) if view == FEED else tuple(addresses)


def _require_published(ledger: Ledger, pipeline: str, view: str, city: str | None, depot: str | None) -> None:
    """Raise SpecError for a city or a depot that no link can have."""
    if problem := city_problem(ledger, pipeline, city):
        raise SpecError(f"--city: {problem}")
    if problem := depot_problem(ledger, pipeline, view, city, depot):
        raise SpecError(f"--depot: {problem}")


def city_problem(ledger: Ledger, pipeline: str, city: str | None) -> str | None:
    """Return the problem with a link's city; None if it is published or none is named."""
    head = ledger.current(pipeline)
    cities = {depot.attributes.get("city") for depot in ledger.depots(head.publication_id)} if head else set()
    if city is None or city in cities:
        return None
    names = ", ".join(sorted(filter(None, cities))) or "none"
    return f"found {city!r}, wanted a city of what is published: {names}"


def depot_problem(ledger: Ledger, pipeline: str, view: str, city: str | None, depot_id: str | None) -> str | None:
    """Return the problem with a link's depot, or None.

    A feed's depot must be published, or not be named; a person's link needs a depot with planned
    people.
    """
    if view == PERSON and (city is not None or not planned_people(ledger, pipeline, view, depot_id)):
        return f"found {depot_id!r}, wanted a depot whose people are planned, and no city"
    if depot_id is None:
        return None
    if view not in (FEED, PERSON) or city is not None:
        return f"found {depot_id!r}, wanted it with the view {FEED} or {PERSON}, and without a city"
    head = ledger.current(pipeline)
    if head is None or ledger.depot(head.publication_id, depot_id) is None:
        return f"found {depot_id!r}, wanted a depot of what is published"
    return None


def planned_people(ledger: Ledger, pipeline: str, view: str, depot_id: str | None) -> tuple[str, ...]:
    """Return the people of a depot who can have links of a view, by its weekly plan."""
    head = ledger.current(pipeline) if view == PERSON and depot_id is not None else None
    plans = ledger.plans(head.publication_id, depot_id) if head else ()
    return tuple(who.name for plan in plans for who in plan.positions)


def by_command(spec: Spec, by: str, now: datetime, command: str, action: str) -> ledger_access.AuditEntry:
    """Return the audit row of an action on the command line."""
    return ledger_access.AuditEntry(now, spec.name, by, "command", socket.gethostname(), "-", command, action)


def link_sentence(link: ledger_access.Link) -> str:
    place = link.depot_id or link.city
    where = f", {place} alone" if place else ""
    return f"link {link.link_id} to {link.view}{where}, until {link.expires_at:%Y-%m-%d %H:%M} UTC"


def _signer(keys: Keys) -> URLSafeSerializer:
    return serializer(URLSafeSerializer, keys, "link")
