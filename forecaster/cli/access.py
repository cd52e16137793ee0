"""The commands about who sees the page: make, list and revoke links of wall screens, and read the audit."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forecaster.cli.options import By, File, Json, login_name
from forecaster.errors import MissingExtra

if TYPE_CHECKING:
    from forecaster.config import Spec
    from forecaster.ledger.access import Link


def link(
    file: File,
    view: Annotated[str, typer.Option(help="The one view that it opens, named as in the API.")] = "network",
    city: Annotated[str | None, typer.Option(help="The one city that it shows; all by default.")] = None,
    days: Annotated[int, typer.Option(min=1, help="For how long; 400 at most.")] = 90,
    by: By = None,
) -> None:
    """Make a read-only link for a wall screen.

    Its address is told once, here; whoever has it may look until it expires or is revoked.
    """
    from forecaster.config import load

    made = next(iter(entry_points(group="forecaster.lines", name="link")), None)
    try:
        if made is None:
            raise ModuleNotFoundError("the page is not installed")
        make = made.load()
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{error}; this command needs: pip install 'forecaster[dashboard]'") from error
    _, address = make(load(file), view, city, days, by=login_name(by), now=datetime.now(UTC))
    typer.echo(address)


def links(
    file: File,
    revoke: Annotated[str | None, typer.Option(metavar="ID", help="Close this one for good.")] = None,
    by: By = None,
    as_json: Json = False,
) -> None:
    """List the links of wall screens, or revoke one."""
    from forecaster.config import load

    spec, now = load(file), datetime.now(UTC)
    found = _revoked(spec, revoke, login_name(by), now) if revoke else _listed(spec)
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found], default=str, indent=2))
        return
    for each in found:
        typer.echo(entry_point(each, spec, now))
    if not found:
        typer.echo("no link was made yet; `forecaster link FILE` makes one")


def audit(
    file: File,
    limit: Annotated[int, typer.Option(min=1, help="So many, the newest first.")] = 100,
    as_json: Json = False,
) -> None:
    """Show who wrote what on the page, the newest first."""
    from forecaster.config import load
    from forecaster.ledger import access as ledger_access
    from forecaster.ledger.store import Ledger

    spec = load(file)
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        found = ledger_access.entries(connection, spec.name, limit)
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found], default=str, indent=2))
        return
    for each in found:
        when = f"{each.at.astimezone(spec.zone):%Y-%m-%d %H:%M:%S %Z}"
        typer.echo(_plain(f"{when}  {each.who} ({each.role}, {each.address})  {each.method} {each.path}  {each.what}"))
    if not found:
        typer.echo("nobody has written anything yet")


def _listed(spec: Spec) -> tuple[Link, ...]:
    from forecaster.ledger import access as ledger_access
    from forecaster.ledger.store import Ledger

    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        return ledger_access.links(connection, spec.name)


def _revoked(spec: Spec, link_id: str, by: str, now: datetime) -> tuple[Link, ...]:
    import socket

    from forecaster.ledger import access as ledger_access
    from forecaster.ledger.store import Ledger

    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        closed = ledger_access.revoke(connection, spec.name, link_id, by=by, at=now)
        row: dict[str, Any] = {"at": now, "pipeline": spec.name, "who": by, "role": "command"}
        row |= {"address": socket.gethostname(), "method": "-", "path": "links", "what": f"revoked link {link_id}"}
        ledger_access.note(connection, ledger_access.AuditEntry(**row))
    return (closed,)


def entry_point(each: Link, spec: Spec, now: datetime) -> str:
    until = f"until {each.expires_at.astimezone(spec.zone):%Y-%m-%d %H:%M %Z}"
    if each.revoked_at is not None:
        until = f"revoked {each.revoked_at.astimezone(spec.zone):%Y-%m-%d %H:%M %Z} by {each.revoked_by}"
    elif not each.opens(now):
        until = f"expired {each.expires_at.astimezone(spec.zone):%Y-%m-%d %H:%M %Z}"
    return _plain(f"{each.link_id}  {each.view}, {each.city or 'all cities'}  {until}, made by {each.made_by}")


def _plain(text: str) -> str:
    """Without what would move a terminal's cursor: some of it was written by others."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
