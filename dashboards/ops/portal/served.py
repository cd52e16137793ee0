"""Pipelines that are served together: each with its own pages, opened on request, and one shared
sign-in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dashboards.ops.access.context import AccessContext, signing_keys
from dashboards.ops.access.person import Person, with_role
from dashboards.ops.access.sessions import Sessions
from dashboards.ops.app import build
from dashboards.ops.reading.readers import SharedReaders
from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.views.catalogue import linkable
from forecaster.config import Spec
from forecaster.config.access import Access
from forecaster.errors import SpecError

PREFIX = "/p/"
# settings shared by pages that are served together
DOOR = ("sign_in", "url", "proxies", "header", "oidc", "secret", "former_secret", "session_hours")
EVERY = "*"  # the pipeline of shared sessions; no pipeline can have this name


@dataclass(frozen=True)
class ServedPipeline:
    """One of several pipelines. Its context outlives its pages, which are closed when unused."""

    spec: Spec
    context: AccessContext

    @property
    def name(self) -> str:
        return self.spec.name

    def reader(self, visitor: Person) -> Person | None:
        """Return a signed-in person with their role here; None hides the pipeline from them."""
        if visitor.via == "local":
            return visitor
        person = with_role(self.context.access, visitor.name, visitor.groups, visitor.via)
        return None if person is None or (person.cities is not None and not person.cities) else person


def serve_together(
    specs: Sequence[Spec], clock: Callable[[], datetime], readers: SharedReaders
) -> tuple[Mapping[str, ServedPipeline], AccessContext]:
    """Return the pipelines by name, and the context of the front page.

    Raises SpecError for duplicate names, different sign-in declarations, or a missing secret.
    """
    refuse_same_names(specs)
    refuse_several_doors(specs)
    contexts = {spec.name: _context(spec, clock, readers) for spec in specs}
    by_ledger: dict[str, AccessContext] = {}
    for context in contexts.values():
        by_ledger.setdefault(context.url, context)
    sessions = Sessions(EVERY, {context.pipeline or "": context for context in by_ledger.values()})
    served = {spec.name: ServedPipeline(spec, replace(contexts[spec.name], shared_sessions=sessions)) for spec in specs}
    first = contexts[specs[0].name]
    # At the front page everyone who has signed in is a viewer: each pipeline decides what they may
    # see of it.
    door = first.access.model_copy(update={"roles": type(first.access.roles)(), "cities": {}})
    return served, replace(first, access=door, pipeline=EVERY, views={}, prefix="", shared_sessions=sessions)


def refuse_same_names(specs: Sequence[Spec]) -> None:
    places: dict[str, int] = {}
    for place, spec in enumerate(specs, 1):
        if (first := places.setdefault(spec.name, place)) != place:
            raise SpecError(
                f"name: found {spec.name!r} in file {first} and in file {place}, wanted a name of its own for each "
                f"pipeline that is served here, as it is its address: change `name` in one of them"
            )


def refuse_several_doors(specs: Sequence[Spec]) -> None:
    """Raise SpecError unless all files declare the same sign-in, since people sign in once for all.
    Roles, cities and limits may differ."""
    first = specs[0].page.access
    for spec in specs[1:]:
        for key in DOOR:
            if getattr(spec.page.access, key) != getattr(first, key):
                raise SpecError(
                    f"page.access.{key}: found another in {spec.name} than in {specs[0].name}, wanted the same in all "
                    "pipelines that are served together, since people sign in once for all of them"
                )


def _context(spec: Spec, clock: Callable[[], datetime], readers: SharedReaders) -> AccessContext:
    access: Access = spec.page.access
    store = PublicationStore(spec.ledger_url, spec.name, clock, build(), readers, spec)
    keys, prefix = signing_keys(access), PREFIX + spec.name
    return AccessContext(access, spec.ledger_url, spec.name, store, clock, linkable(), keys=keys, prefix=prefix)
