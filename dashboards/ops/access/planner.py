"""Planners: under which name they write overrides, of which depots they see them, and which they
may choose."""

from __future__ import annotations

from collections.abc import Iterable

from dashboards.ops.access import Person
from dashboards.ops.reading.editions import Edition, NoSuchDepot
from forecaster.ledger.publication import PublishedDepot
from forecaster.planning.overrides import Override


def name(person: Person, typed_name: str) -> str:
    """The name they signed in with; on a page without sign-in the name that they give."""
    return typed_name.strip() if person.via == "local" else person.name


def visible(edition: Edition, overrides: Iterable[Override]) -> tuple[Override, ...]:
    """The overrides of depots that the reader sees."""
    if edition.cities is None:
        return tuple(overrides)
    depot_ids = {depot.depot_id for depot in edition.outline()}
    return tuple(override for override in overrides if override.depot_id in depot_ids)


def neighbours(edition: Edition, depot: PublishedDepot) -> tuple[str, ...]:
    """The other depots of the depot's city, or all others that the reader sees where it has
    none."""
    city = depot.attributes.get("city")
    return tuple(
        other.depot_id
        for other in edition.outline()
        if other.depot_id != depot.depot_id and other.attributes.get("city") == city
    )


def see_all(edition: Edition, depot_ids: Iterable[str]) -> None:
    """Raises NoSuchDepot for a depot that is not published, or that the reader does not see."""
    visible = {depot.depot_id for depot in edition.outline()}
    for depot_id in depot_ids:
        if depot_id not in visible:
            raise NoSuchDepot(depot_id)
