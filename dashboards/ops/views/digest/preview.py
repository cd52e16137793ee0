"""Preview of a digest as it would be sent now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from dashboards.ops.reading.editions import Edition, NoSuchDepot
from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.views.attention import city_of
from dashboards.ops.views.digest import mail, wording
from dashboards.ops.views.digest.content import DigestScope, NoSuchCity, digest
from dashboards.ops.views.digest.language import in_language
from forecaster.core.language.near_words import did_you_mean, nearest_word
from forecaster.errors import NoSuchRow

if TYPE_CHECKING:
    from forecaster.config import Spec

DigestForm = Literal["text", "html", "short"]


def preview(spec: Spec, depot: str | None, city: str | None, form: DigestForm, language: str | None = None) -> str:
    """Return the digest of a depot, a city or the network. Raises LedgerError before the first
    publication, and NoSuchRow for an unknown depot or city."""
    store = PublicationStore(spec.ledger_url, spec.name, lambda: datetime.now(UTC), "", spec=spec)
    try:
        edition = store.edition()
        with in_language(language):
            try:
                content = digest(edition, DigestScope(depot or "", city or ""), spec.page_url)
            except (NoSuchDepot, NoSuchCity) as error:
                raise _not_published(edition, depot, city) from error
            if form == "html":
                return mail.html(content)
            body = wording.short(content) + "\n" if form == "short" else wording.text(content)
            return f"{wording.subject(content)}\n\n{body}"
    finally:
        store.close()


def _not_published(edition: Edition, depot: str | None, city: str | None) -> NoSuchRow:
    published = edition.outline()
    candidates = [other.depot_id for other in published] if depot else [city_of(other) for other in published]
    near = did_you_mean(nearest_word(depot or city or "", candidates))
    option = f"--depot: found {depot!r}" if depot else f"--city: found {city!r}"
    return NoSuchRow(f"{option}, wanted one of those that are published{near}")
