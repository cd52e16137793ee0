"""Planners: under which name they write overrides, and of which depots they see them."""

from __future__ import annotations

from collections.abc import Iterable

from dashboards.ops.access import Person
from dashboards.ops.reading.editions import Edition
from forecaster.planning.overrides import Override


def name(person: Person, typed_name: str) -> str:
    """The name they signed in with; on a page without sign-in the name that they give."""
    return typed_name.strip() if person.via == "local" else person.name


def visible(edition: Edition, overrides: Iterable[Override]) -> tuple[Override, ...]:
    """The overrides of depots that whoever asks sees."""
    if edition.cities is None:
        return tuple(overrides)
    depot_ids = {depot.depot_id for depot in edition.outline()}
    return tuple(override for override in overrides if override.depot_id in depot_ids)
