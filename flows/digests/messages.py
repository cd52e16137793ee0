"""Messages of this morning: each declared digest written out for its receiver, from what is
published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dashboards.ops.reading.editions import Edition, NoSuchDepot
from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.views.digest import mail, wording
from dashboards.ops.views.digest.content import Digest, DigestScope, NoSuchCity, digest
from dashboards.ops.views.digest.crew_changes import crew_changes
from dashboards.ops.views.digest.language import in_language
from forecaster.config import DigestReceiver, Spec
from forecaster.ledger.once.digests import DigestKey, DigestRow
from forecaster.ledger.publication import PublishedDepot


@dataclass(frozen=True)
class Message:
    """One digest, ready to be sent in the form that a block takes."""

    subject: str
    text: str
    short: str
    html: str


@dataclass(frozen=True)
class Morning:
    """The publication, and the digests that are made from it; those that cannot be made are
    sentences."""

    edition: Edition
    digests: tuple[tuple[DigestReceiver, Digest], ...]
    faults: tuple[str, ...]

    @property
    def publication_id(self) -> int:
        return self.edition.head.publication_id


def morning(spec: Spec, receivers: Sequence[DigestReceiver], now: datetime) -> Morning:
    """The digests of these receivers as they read now. Raises LedgerError where nothing has been
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
        return Morning(edition, tuple(digests), tuple(faults))
    finally:
        store.close()


def message(receiver: DigestReceiver, content: Digest, changed: tuple[str, ...]) -> Message:
    """A digest in all its forms; `changed` says what became another since the receiver's last of
    the day."""
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
    receiver: DigestReceiver, before: DigestRow | None, content: Digest, publication_id: int
) -> tuple[str, ...] | None:
    """Why a receiver gets a digest now: with no sentence the first of the day, or of this night's
    numbers; else what changed since the last. None: he has it, or what is new changes no crew."""
    if before is None or (before.old and not content.old):
        return ()
    if before.publication_id == publication_id:
        return None
    with in_language(receiver.language):
        return crew_changes(before.crews, content.crews) or None


def _made(spec: Spec, receiver: DigestReceiver, edition: Edition, depots: Sequence[PublishedDepot] | None) -> Digest:
    scope = DigestScope(receiver.depot or "", receiver.city or "")
    with in_language(receiver.language):
        return digest(edition, scope, spec.page_url, depots)
