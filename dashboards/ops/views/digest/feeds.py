"""Digests as an RSS 2.0 feed, one item per day, and as a calendar (iCalendar, RFC 5545), one
all-day event per day ahead.

RSS is written with the standard library: it is one element with a dozen children, and ElementTree
escapes them. An event is identified by depot or city and day, and its sequence grows with changes,
so that calendars update their copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from email.utils import format_datetime
from hashlib import sha256
from html import escape
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

from dashboards.ops.reading.editions import Edition
from dashboards.ops.views.digest import wording
from dashboards.ops.views.digest.content import Digest, DigestScope
from forecaster.core.language import _
from forecaster.errors import MissingExtra
from forecaster.ledger.records import Head
from forecaster.ledger.week_plan import EPOCH

RSS, CALENDAR = "application/rss+xml; charset=utf-8", "text/calendar; charset=utf-8"
MOST_ITEMS = 7  # days
AGAIN = 60  # minutes until the feed is worth reading again


@dataclass(frozen=True)
class FeedItem:
    """The digest of a publication."""

    edition: Edition
    digest: Digest

    @property
    def head(self) -> Head:
        return self.edition.head


def publications_of_days(edition: Edition) -> tuple[Head, ...]:
    """Return the last publication of each local day, newest first, from the shown one back."""
    zone, current = ZoneInfo(edition.head.timezone), edition.head
    newest: dict[date, Head] = {}
    for head in edition.ledger.publications(current.pipeline):
        if head.publication_id <= current.publication_id:
            newest.setdefault(head.published_at.astimezone(zone).date(), head)
    return tuple(newest.values())[:MOST_ITEMS]


def rss(items: Sequence[FeedItem], base: str) -> bytes:
    """Return the feed of at least one item."""
    first = items[0].digest
    root = ElementTree.Element("rss", version="2.0")
    channel = ElementTree.SubElement(root, "channel")
    title = f"{first.title}: {first.name}"
    description = _("{name}, each morning", name=title)
    _texts(channel, title=title, link=first.address or f"{base}/", description=description)
    _texts(channel, lastBuildDate=_rfc_822(changed_at(items[0].edition)), ttl=str(AGAIN))
    for item in items:
        element = ElementTree.SubElement(channel, "item")
        digest = item.digest
        _texts(element, title=wording.marked_old(digest, wording.headline(digest.name, digest.meant)))
        if digest.address:
            _texts(element, link=digest.address)
        paragraphs = wording.text(digest).strip().split("\n\n")
        _texts(element, description="".join(f"<p>{_broken(paragraph)}</p>" for paragraph in paragraphs))
        ElementTree.SubElement(element, "guid", isPermaLink="false").text = _guid(item)
        _texts(element, pubDate=_rfc_822(item.head.published_at))
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content


def calendar(item: FeedItem) -> bytes:
    """Return the days ahead as a calendar. Raises MissingExtra if the library is not installed."""
    try:
        from icalendar import Calendar, Event
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{error}; a calendar needs: pip install 'harbor-forecaster[shifts]'") from error
    digest, changed = item.digest, changed_at(item.edition)
    book = Calendar()
    book.add("prodid", "-//forecaster//digests//EN")
    book.add("version", "2.0")
    book.add("method", "PUBLISH")
    book.add("x-wr-calname", f"{digest.title}: {digest.name}")
    book.add("refresh-interval", timedelta(minutes=AGAIN), parameters={"VALUE": "DURATION"})
    book.add("x-published-ttl", f"PT{AGAIN}M")
    for day in digest.days:
        event = Event()
        event.add("uid", _uid(item.head.pipeline, digest.scope, day.date.isoformat()))
        event.add("dtstamp", changed)
        event.add("last-modified", changed)
        event.add("sequence", max(int((changed - EPOCH).total_seconds()), 0))
        event.add("summary", f"{digest.name}: {wording.numbers(day, ranged=False)}")
        event.add("description", "\n".join(_sentences(digest, day is digest.meant, wording.numbers(day), day.remarks)))
        event.add("dtstart", day.date)
        event.add("dtend", day.date + timedelta(days=1))
        event.add("transp", "TRANSPARENT")  # a working day does not make a person busy
        if digest.address:
            event.add("url", digest.address)
        book.add_component(event)
    content: bytes = book.to_ical()
    return content


def changed_at(edition: Edition) -> datetime:
    """Return the instant of the publication's last change: by a run, a planner, or a rollback."""
    flipped_at = edition.head.flipped_at
    return max(flipped_at, edition.revised_at() or flipped_at).astimezone(UTC).replace(microsecond=0)


def _sentences(digest: Digest, is_meant: bool, numbers: str, remarks: Sequence[str]) -> list[str]:
    of_meant = (digest.planned, digest.because) if is_meant else ()
    published = _("Published {instant}.", instant=digest.published)
    sentences = [digest.alarm, numbers, *of_meant, *remarks, published]
    return [sentence for sentence in sentences if sentence]


def _texts(parent: ElementTree.Element, **texts: str) -> None:
    for name, text in texts.items():
        ElementTree.SubElement(parent, name).text = text


def _broken(paragraph: str) -> str:
    return "<br>".join(escape(line) for line in paragraph.split("\n"))


def _rfc_822(instant: datetime) -> str:
    return format_datetime(instant.astimezone(UTC).replace(microsecond=0), usegmt=True)


def _guid(item: FeedItem) -> str:
    return _uid(item.head.pipeline, item.digest.scope, str(item.head.publication_id))


def _uid(pipeline: str, scope: DigestScope, item_id: str) -> str:
    key = "\0".join((pipeline, scope.depot_id, scope.city, item_id))
    return f"{sha256(key.encode()).hexdigest()[:32]}@forecaster"
