"""Front page of several pipelines: a tile for each pipeline that the reader may see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import wait
from dataclasses import dataclass, field
from datetime import datetime

from dashboards.ops.access.person import Person
from dashboards.ops.portal.served import ServedPipeline
from dashboards.ops.reading.editions import read_outline
from dashboards.ops.reading.header import Front
from dashboards.ops.reading.overview import Counts, Look, Overview, ready
from dashboards.ops.reading.readers import SharedReaders
from dashboards.ops.routes.errors import whole_sentence
from dashboards.ops.views.tiles import (
    NOTHING,
    DepotCount,
    PipelineTile,
    count_depots,
    header_of,
    in_order,
    not_over,
    tile,
)
from forecaster.core.language import _
from forecaster.ledger.records import Head

PATIENCE = 1.0  # seconds that a reader waits for the counts


@dataclass(frozen=True)
class FrontPage:
    """Reads the pipelines, and counts their depots in the background."""

    served: Mapping[str, ServedPipeline]
    readers: SharedReaders
    overview: Overview
    clock: Callable[[], datetime]
    counts: Counts[DepotCount] = field(default_factory=Counts)

    def now(self) -> datetime:
        return self.clock()

    def visible(self, visitor: Person) -> dict[str, Person]:
        """Return the pipelines that a signed-in person may see, each with their role there."""
        readers = {name: pipeline.reader(visitor) for name, pipeline in self.served.items()}
        return {name: reader for name, reader in readers.items() if reader is not None}

    def tiles(self, readers: Mapping[str, Person]) -> list[PipelineTile]:
        """Return a tile of each pipeline for its reader, those in trouble first."""
        now = self.now()
        looks = {name: not_over(look, now) for name, look in self.overview.looks(readers).items()}
        headers = {name: header_of(look, now) for name, look in looks.items()}
        due = {
            name: self.counts.due(*self._count(name, look, look.head, header, readers[name].cities))
            for name, look in looks.items()
            if look.head is not None and (header := headers[name]) is not None
        }
        wait(due.values(), PATIENCE)
        return in_order(
            [
                tile(
                    name,
                    look,
                    headers[name],
                    readers[name].cities,
                    ready(due[name]) if name in due else None,
                    _why(look, readers[name]),
                )
                for name, look in looks.items()
            ]
        )

    def any_ready(self) -> bool:
        """True if at least one pipeline has something to show."""
        return any(look.head is not None for look in self.overview.looks(self.served).values())

    def close(self) -> None:
        self.overview.close()
        self.counts.close()

    def _count(
        self, name: str, look: Look, head: Head, header: Front, cities: frozenset[str] | None
    ) -> tuple[object, Callable[[], DepotCount]]:
        """Return the cache key of the counts and the function that computes them; the depots are
        read only for that, and not kept."""

        def make() -> DepotCount:
            url = self.served[name].context.url
            ledger = self.readers.open(url)
            return count_depots(head, header, read_outline(head, ledger), cities)

        return (name, head.publication_id, head.revised_at, header.today, cities), make


def _why(look: Look, reader: Person) -> str:
    """Explain why nothing, or only an earlier look, can be shown: in full for admins, in a sentence
    without files and addresses for other readers."""
    error = look.error or NOTHING
    if look.absence is not None and look.head is not None:
        absence = look.absence.sentence(look.head)
        return f"{absence} {whole_sentence(str(error))}" if reader.may("admin") else absence
    return whole_sentence(str(error) if reader.may("admin") else _(error.for_readers))
