"""Command for morning digests: show one, or send them."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from forecaster.cli.options import File, entry_point, load_spec, print_line
from forecaster.errors import SpecError

if TYPE_CHECKING:
    from forecaster.config import Spec


class DigestAs(StrEnum):
    """Output format of a digest."""

    text = "text"
    html = "html"
    short = "short"


def digest(
    file: File,
    depot: Annotated[str | None, typer.Option(help="Of one depot.")] = None,
    city: Annotated[
        str | None, typer.Option(help="Digest of a city; without --depot and --city: of all depots.")
    ] = None,
    form: Annotated[
        DigestAs, typer.Option("--as", help="As mail (html), plain text, or a chat message (short).")
    ] = DigestAs.text,
    language: Annotated[
        str | None, typer.Option(metavar="TAG", help="Language code, such as de; default: English.")
    ] = None,
    send: Annotated[bool, typer.Option("--send", help="Send it to its receivers in `notify.digest`.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="With --send: also to receivers who already have today's digest.")
    ] = False,
) -> None:
    """Show a morning digest as it would be sent now, or send it.

    With --send and neither --depot nor --city all digests declared in `notify.digest` are sent.
    """
    if depot and city:
        raise SpecError("found --depot and --city, wanted only one of them")
    if again and not send:
        raise SpecError("found --again without --send, which it needs")
    spec = load_spec(file)
    if send:
        _send(spec, depot, city, again)
        return
    sys.stdout.write(entry_point("digest")(spec, depot, city, form.value, language))


def _send(spec: Spec, depot: str | None, city: str | None, again: bool) -> None:
    place = depot or city
    receivers = [
        receiver for receiver in spec.notify.digest if not place or (receiver.depot, receiver.city) == (depot, city)
    ]
    if not receivers:
        whose = f" of {place}" if place else ""
        raise SpecError(f"found no digest{whose} in notify.digest, wanted one, as in {{to: slack-webhook/depots}}")
    sentence, faults = entry_point("send_digests")(spec, receivers, again=again)
    print_line(sentence)
    if faults:
        raise SpecError(f"notify.digest: {'; '.join(faults)}")
