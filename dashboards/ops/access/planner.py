"""Say under which name a planner writes, and of which depots."""

from __future__ import annotations

from collections.abc import Iterable

from dashboards.ops.access import Person
from dashboards.ops.reading.editions import Edition
from forecaster.planning.overrides import Override


def name(person: Person, named: str) -> str:
    """The name they signed in with; on a page without sign-in the name that they give."""
    return named.strip() if person.via == "local" else person.name


def visible(edition: Edition, written: Iterable[Override]) -> tuple[Override, ...]:
    """The overrides of depots that whoever asks sees."""
    if edition.cities is None:
        return tuple(written)
    seen = {depot.depot_id for depot in edition.outline()}
    return tuple(each for each in written if each.depot_id in seen)
