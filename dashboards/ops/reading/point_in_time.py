"""Point-in-time read of publications: the current one, one by its ID, or the one shown at an
instant."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import display
from forecaster.ledger.records import Head
from forecaster.ledger.store import Ledger

YEARS = range(1970, 2200)


class BadParameter(ValueError):
    """A parameter with an invalid value."""


class NotRetained(LookupError):
    """A publication that is no longer retained or never existed; the message names the oldest
    retained one."""


def instant(text: str, zone: ZoneInfo) -> datetime:
    """Parse an instant; without an offset it is in the zone, and a bare day means its end.

    Raises BadParameter.
    """
    spelt = re.sub(r" (\d\d:\d\d)$", r"+\1", text)  # an unescaped + arrives as a space
    try:
        moment = datetime.fromisoformat(spelt)
    except ValueError:
        moment = None
    if moment is None or moment.year not in YEARS:
        raise BadParameter(
            f"as_of: found {text[:80]!r}, wanted a day such as 2026-10-27 or an instant: 2026-10-27T06:00"
        )
    if re.fullmatch(r"\d{4}-?(\d\d-?\d\d|W\d\d(-?\d)?)", spelt):
        moment = datetime.combine(moment, time.max)
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)


def find_publication(
    ledger: Ledger, current: Head, as_of: str | None, publication: int | None
) -> tuple[Head, datetime]:
    """Return the publication, and the instant at which people looked at it. Raises BadParameter and
    NotRetained."""
    zone = ZoneInfo(current.timezone)
    if as_of is not None and publication is not None:
        raise BadParameter("found as_of and publication, wanted only one of them")
    at = None if as_of is None else instant(as_of, zone)
    number = publication if at is None else ledger.shown_at(current.pipeline, at)
    publications = ledger.publications(current.pipeline)
    match = next((head for head in publications if head.publication_id == number), None)
    if match is None:
        oldest = publications[-1]
        description = f"publication {publication}" if at is None else f"what was up on {display.instant(at, zone)},"
        raise NotRetained(
            f"{description} is not kept; the oldest that is kept is publication {oldest.publication_id}, published "
            f"{oldest.published_at.astimezone(zone):%Y-%m-%dT%H:%M%z}; older ones are removed"
        )
    return match, at or match.published_at
