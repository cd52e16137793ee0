"""Planners: the name under which they write overrides, whose overrides they see, and which depots
they may choose."""

from __future__ import annotations

from collections.abc import Iterable

from dashboards.ops.access import Person
from dashboards.ops.reading.editions import Edition, NoSuchDepot
from forecaster.ledger.publication import PublishedDepot
from forecaster.planning.overrides import Override


def name(person: Person, typed_name: str) -> str:
    """Return the name they signed in with; on a page without sign-in, the name they typed."""
    return typed_name.strip() if person.via == "local" else person.name


def visible(edition: Edition, overrides: Iterable[Override]) -> tuple[Override, ...]:
    """Return the overrides of depots that the reader sees."""
    if edition.cities is None:
        return tuple(overrides)
    depot_ids = {depot.depot_id for depot in edition.outline()}
    return tuple(override for override in overrides if override.depot_id in depot_ids)


def neighbours(edition: Edition, depot: PublishedDepot) -> tuple[str, ...]:
    """Return the other depots of the depot's city; if it has none, all others without a city that
    the reader sees."""
    city = depot.attributes.get("city")
    return tuple(
        other.depot_id
        for other in edition.outline()
        if other.depot_id != depot.depot_id and other.attributes.get("city") == city
    )


def see_all(edition: Edition, depot_ids: Iterable[str]) -> None:
    """Raise NoSuchDepot for a depot that is not published or not visible to the reader."""
    visible = {depot.depot_id for depot in edition.outline()}
    for depot_id in depot_ids:
        if depot_id not in visible:
            raise NoSuchDepot(depot_id)
