"""Messages of this morning: each declared digest written for its receiver, from the publication."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboards.ops.reading.editions import Edition, NoSuchDepot
from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.views.digest import mail, wording
from dashboards.ops.views.digest.content import Digest, DigestScope, NoSuchCity, digest
from dashboards.ops.views.digest.crew_changes import crew_changes
from dashboards.ops.views.digest.language import in_language
from forecaster.config import DigestReceiver, Spec
from forecaster.ledger.once.digests import DigestKey, DigestRow
from forecaster.ledger.publication import PublishedDepot
from forecaster.plugins import plugin


@dataclass(frozen=True)
class Message:
    """One digest, in the forms that different blocks take."""

    subject: str
    text: str
    short: str
    html: str


@dataclass(frozen=True)
class Morning:
    """The publication with the digests made from it; for those that cannot be made, `faults` has a
    sentence."""

    edition: Edition
    digests: tuple[tuple[DigestReceiver, Digest], ...]
    schedule: tuple[Any, ...]  # `ScheduleChange` of days from today, oldest first
    faults: tuple[str, ...]

    @property
    def publication_id(self) -> int:
        return self.edition.head.publication_id


def morning(spec: Spec, receivers: Sequence[DigestReceiver], now: datetime) -> Morning:
    """Return the current digests of these receivers. Raises LedgerError if nothing has been
    published."""
    store = PublicationStore(spec.ledger_url, spec.name, lambda: now, "", spec=spec)
    try:
        edition = store.edition()
        every: tuple[PublishedDepot, ...] | None = None
        if any(receiver.depot is None for receiver in receivers):
            every = edition.depots()
        digests, faults = [], []
        for receiver in receivers:
            try:
                digests.append((receiver, _made(spec, receiver, edition, every)))
            except NoSuchDepot:
                faults.append(f"{receiver.to}: there is no depot {receiver.depot!r} in what is published")
            except NoSuchCity:
                faults.append(f"{receiver.to}: there is no city {receiver.city!r} in what is published")
        schedule: list[Any] = []
        if spec.staffing is not None and spec.staffing.notice_days is not None:
            with edition.ledger.transaction() as connection:
                schedule = plugin("notice.schedules").read_changes(connection, spec.name, edition.front.today)
        return Morning(edition, tuple(digests), tuple(schedule), tuple(faults))
    finally:
        store.close()


def message(receiver: DigestReceiver, content: Digest, changed: tuple[str, ...]) -> Message:
    """Return a digest in all its forms; `changed` describes the changes since the receiver's last
    digest of the day."""
    with in_language(receiver.language):
        return Message(
            wording.subject(content, bool(changed)),
            wording.text(content, changed),
            wording.short(content, changed),
            mail.html(content, changed),
        )


def key(spec: Spec, receiver: DigestReceiver, now: datetime) -> DigestKey:
    return DigestKey(
        spec.name, receiver.to, receiver.depot or "", receiver.city or "", now.astimezone(spec.zone).date()
    )


def reason(
    receiver: DigestReceiver, before: DigestRow | None, earlier: DigestRow | None, content: Digest, morning: Morning
) -> tuple[str, ...] | None:
    """Return the changes to mention if a receiver is due for a digest, else None.

    The first digest of the day, or with tonight's numbers, mentions only changes of the published
    schedule since the last one, possibly of an `earlier` day; a further one mentions all changes.
    None: the receiver has it, or no crew changed.
    """
    last = before or earlier
    with in_language(receiver.language):
        if before is None or (before.old and not content.old):
            return _schedule_changes(content, morning.schedule, last.at, ()) if last else ()
        crews = content.crews if before.publication_id != morning.publication_id else {}
        near = crew_changes(before.crews, crews)
        return (*near, *_schedule_changes(content, morning.schedule, before.at, crews)) or None


def _schedule_changes(
    content: Digest, schedule: Sequence[Any], since: datetime, apart: Collection[str]
) -> tuple[str, ...]:
    """Sentences about changes since an instant to the published days of a digest's depots, except
    the days `apart`."""
    depots = {depot for crews in content.crews.values() for depot in crews}
    then: dict[str, dict[str, int]] = defaultdict(dict)
    now: dict[str, dict[str, int]] = defaultdict(dict)
    for change in schedule:
        day = change.target_date.isoformat()
        if change.depot_id in depots and day not in apart:
            now[day][change.depot_id] = drivers = sum(change.crews.values())
            if change.premium is None or change.at <= since:
                then[day][change.depot_id] = drivers
    return crew_changes(then, now)


def _made(spec: Spec, receiver: DigestReceiver, edition: Edition, depots: Sequence[PublishedDepot] | None) -> Digest:
    scope = DigestScope(receiver.depot or "", receiver.city or "")
    with in_language(receiver.language):
        return digest(edition, scope, spec.page_url, depots)
