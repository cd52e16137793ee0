"""Commands for access control: make, list and revoke share links, and read the audit log."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forecaster.cli.options import By, File, Json, entry_point, login_name, print_line

if TYPE_CHECKING:
    from forecaster.config import Spec
    from forecaster.ledger.access import Link


def link(
    file: File,
    view: Annotated[
        str, typer.Option(help="The only view that the link opens, named as in the API; infer: a token for machines.")
    ] = "network",
    city: Annotated[str | None, typer.Option(help="Show only this city; default: all.")] = None,
    depot: Annotated[str | None, typer.Option(help="With --view feed or person: the depot.")] = None,
    person: Annotated[str | None, typer.Option(help="With --view person: the person; default: everyone there.")] = None,
    days: Annotated[int, typer.Option(min=1, help="Days until the link expires; at most 400.")] = 90,
    by: By = None,
) -> None:
    """Make a link for a wall screen, a calendar or a person.

    With --view feed it is for a calendar and a feed reader. With --view person it shows a person's
    own week, and takes their answers to shifts; without --person each person of the depot gets one.
    Every other link is read-only. The URL is shown only once, here; anyone who has it may use it
    until it expires or is revoked.
    """
    from forecaster.config import load

    create_link = entry_point("link")
    options = {"by": login_name(by), "now": datetime.now(UTC), "depot": depot, "person": person}
    _, addresses = create_link(load(file), view, city, days, **options)
    for address in addresses:
        print_line(address)


def links(
    file: File,
    revoke: Annotated[str | None, typer.Option(metavar="ID", help="Revoke this link permanently.")] = None,
    by: By = None,
    as_json: Json = False,
) -> None:
    """List the share links, or revoke one."""
    from forecaster.config import load

    spec, now = load(file), datetime.now(UTC)
    wall_links = _revoke_link(spec, revoke, login_name(by), now) if revoke else _all_links(spec)
    if as_json:
        typer.echo(json.dumps([asdict(wall_link) for wall_link in wall_links], default=str, indent=2))
        return
    for wall_link in wall_links:
        print_line(_link_line(wall_link, spec, now))
    if not wall_links:
        print_line("no link was made yet; `forecaster link FILE` makes one")


def audit(
    file: File,
    limit: Annotated[int, typer.Option(min=1, help="Number of entries, newest first.")] = 100,
    as_json: Json = False,
) -> None:
    """Show the audit log of writes on the page, newest first."""
    from forecaster.config import load
    from forecaster.ledger import access as ledger_access
    from forecaster.ledger.store import Ledger

    spec = load(file)
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        entries = ledger_access.entries(connection, spec.name, limit)
    if as_json:
        typer.echo(json.dumps([asdict(entry) for entry in entries], default=str, indent=2))
        return
    for entry in entries:
        when = f"{entry.at.astimezone(spec.zone):%Y-%m-%d %H:%M:%S %Z}"
        print_line(f"{when}  {entry.who} ({entry.role}, {entry.address})  {entry.method} {entry.path}  {entry.what}")
    if not entries:
        print_line("nobody has written anything yet")


def _all_links(spec: Spec) -> tuple[Link, ...]:
    from forecaster.ledger import access as ledger_access
    from forecaster.ledger.store import Ledger

    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        return ledger_access.links(connection, spec.name)


def _revoke_link(spec: Spec, link_id: str, by: str, now: datetime) -> tuple[Link, ...]:
    import socket

    from forecaster.ledger import access as ledger_access
    from forecaster.ledger.store import Ledger

    with Ledger.open_reader(spec.ledger_url):  # opening a reader raises NoLedger instead of creating a ledger
        pass
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        closed, was_open = ledger_access.revoke(connection, spec.name, link_id, by=by, at=now)
        if not was_open:
            return (closed,)
        row: dict[str, Any] = {"at": now, "pipeline": spec.name, "who": by, "role": "command"}
        row |= {"address": socket.gethostname(), "method": "-", "path": "links", "what": f"revoked link {link_id}"}
        ledger_access.note(connection, ledger_access.AuditEntry(**row))
    return (closed,)


def _link_line(wall_link: Link, spec: Spec, now: datetime) -> str:
    until = f"until {wall_link.expires_at.astimezone(spec.zone):%Y-%m-%d %H:%M %Z}"
    if wall_link.revoked_at is not None:
        until = f"revoked {wall_link.revoked_at.astimezone(spec.zone):%Y-%m-%d %H:%M %Z} by {wall_link.revoked_by}"
    elif not wall_link.opens(now):
        until = f"expired {wall_link.expires_at.astimezone(spec.zone):%Y-%m-%d %H:%M %Z}"
    place = wall_link.depot_id or wall_link.city or "all cities"
    place += f", {wall_link.person}" if wall_link.person else ""
    return f"{wall_link.link_id}  {wall_link.view}, {place}  {until}, made by {wall_link.made_by}"
