"""Forecasts by depot: the inputs that the nightly run saved for the published depots, passed to the
model through the queue, with the crews.

The numbers are those of the page: the model's (a canary's, for its depots), with the overrides in
force.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboards.inference.background import background
from dashboards.inference.questions import ForecastIn, supposition
from dashboards.inference.served_models import LONGEST_WAIT, RETRY_SECONDS, ModelStore, QueuedModel
from dashboards.ops.access.rare_warnings import RareWarnings
from dashboards.ops.reading.editions import Edition, NoSuchDepot
from dashboards.ops.reading.store import PublicationStore
from forecaster.errors import BundleError
from forecaster.ledger.publication import Publication, PublishedDepot
from forecaster.serving.batching import DeadlinePassed

if TYPE_CHECKING:
    from forecaster.core.forecast import Forecast
    from forecaster.planning.what_if import Questions
    from forecaster.staffing.newsvendor import Roster

DECIMALS = 3  # of orders
LOOK_SECONDS = 2.0  # between checks for a new publication
AHEAD_SECONDS = 60.0  # of computing ahead for a publication that nobody has requested yet
THREADS = 8  # that answer at a time; models are loaded in others, for which these wait
LATE = "the deadline passed before its turn; ask again later, or with a longer one"
DEADLINE: ContextVar[float] = ContextVar("deadline")  # of the current question, as in `time.monotonic`


@dataclass(frozen=True)
class PublishedNight:
    """A publication with its questions, and its crews as arrays: -1 if undefined."""

    publication_id: int
    publication: Publication
    questions: Questions
    rows: Mapping[str, int]  # of the depots in the saved inputs
    depots: Mapping[str, PublishedDepot]
    earlier_depots: frozenset[str]  # those requested before this was read
    requested_depots: set[str]  # those requested since it was published

    def answer(self, question: ForecastIn, visible: Sequence[str]) -> dict[str, Any]:
        """Return the answer for these depots. Raises OverrideError, BundleError, and what the queue
        raises."""
        depot_ids = list(dict.fromkeys(visible if question.depots is None else question.depots))
        rows = [self.rows[depot_id] for depot_id in depot_ids]
        rosters: dict[int, Roster | None] = {}
        closed = None
        if question.what_if is None:
            self.requested_depots.update(depot_ids)
            forecast = self.questions.forecast(rows)
        else:
            would_be = self.questions.suppose(supposition(question.what_if, depot_ids))
            forecast, closed = would_be.after, would_be.closed
            rosters = {step: self.questions.staff_day(forecast, step) for step in would_be.steps}
        return self._head(question, closed) | {"depots": self._depots(depot_ids, rows, forecast, rosters)}

    def _head(self, question: ForecastIn, closed: int | None) -> dict[str, Any]:
        publication = self.publication
        head: dict[str, Any] = {
            "publication": self.publication_id,
            "published_at": publication.published_at,
            "cutoff": publication.cutoff,
            "dates": [day.target_date for day in publication.depots[0].days],
            "levels": publication.levels,
        }
        if question.what_if is not None:
            head["what_if"] = {**question.what_if.model_dump(exclude_none=True), "closed_days": closed}
        return head

    def _depots(
        self, depot_ids: Sequence[str], rows: Sequence[int], forecast: Forecast, rosters: Mapping[int, Roster | None]
    ) -> list[dict[str, Any]]:
        quantiles = np.round(forecast.quantiles[rows].astype(float), DECIMALS).tolist()
        opened = forecast.open[rows].tolist()
        publication = self.publication
        answers = []
        for depot_id, row, its_quantiles, its_open in zip(depot_ids, rows, quantiles, opened, strict=True):
            depot = self.depots[depot_id]
            drivers, vans = _crew(depot)
            for step, roster in rosters.items():
                if roster is not None:
                    drivers[step] = int(roster.drivers[row, 0])
                    vans[step] = None if roster.vans is None else int(roster.vans[row, 0])
            answers.append(
                {
                    "depot_id": depot_id,
                    "tier": depot.tier or publication.tier,
                    "model": depot.bundle_digest or publication.bundle_digest,
                    "open": its_open,
                    "quantiles": its_quantiles,
                    "drivers": drivers,
                    "vans": vans,
                    "overridden": [day.override is not None for day in depot.days],
                }
            )
        return answers


class Nights:
    """The shown publication, with the inputs that the run saved; read on the first request.

    After the first request, new publications and corrections are read ahead, and the previously
    requested depots are computed in advance.
    """

    def __init__(
        self, store: PublicationStore, models: ModelStore, state: Path, pipeline: str, log: RareWarnings
    ) -> None:
        self._store, self._models, self._state, self._pipeline = store, models, state, pipeline
        self._log = log
        self._lock = threading.Lock()
        self._of: object = None
        self._night: PublishedNight | None = None
        self._last_look: object = None
        self._again = 0.0  # when unusable bundles may be tried again
        self._threads = ThreadPoolExecutor(THREADS, "forecast")

    def close(self) -> None:
        """Stop answering."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    @asynccontextmanager
    async def reading_ahead(self) -> AsyncIterator[None]:
        """Check periodically for another publication to read."""
        async with background(self._look_again()):
            yield

    async def _look_again(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._night is None or self._models.draining:
                continue
            try:
                await asyncio.to_thread(self._read_ahead, loop)
            except Exception as error:  # the caller gets the error, or computes the rest
                self._log.warn_of(error)

    def _read_ahead(self, loop: asyncio.AbstractEventLoop) -> None:
        deadline = time.monotonic() + AHEAD_SECONDS
        DEADLINE.set(deadline)  # in this thread's copy of the context
        edition = self._store.edition()
        if self._last_look == _key(edition):
            return
        self._last_look = _key(edition)
        night, _ = self._shown(edition, loop, deadline)
        night.questions.forecast([row for depot_id, row in night.rows.items() if depot_id in night.earlier_depots])

    async def answer(
        self, question: ForecastIn, cities: frozenset[str] | None, *, deadline: float
    ) -> tuple[dict[str, Any], bool]:
        """Return the answer for a reader of these cities (None: all), and whether something had to
        be loaded for it.

        Raises NoSuchDepot, OverrideError, DeskError, BundleError, LedgerError, and what the queue
        raises.
        """
        loop = asyncio.get_running_loop()
        answering = self._threads.submit(copy_context().run, self._answer, question, cities, deadline, loop)
        answer = asyncio.wrap_future(answering)
        await asyncio.wait({answer}, timeout=max(deadline - time.monotonic(), 0))
        if not answer.done() and answering.cancel():  # no thread has started it
            raise DeadlinePassed(LATE)
        return await answer

    def _answer(
        self, question: ForecastIn, cities: frozenset[str] | None, deadline: float, loop: asyncio.AbstractEventLoop
    ) -> tuple[dict[str, Any], bool]:
        DEADLINE.set(deadline)  # in this thread's copy of the context
        night, cold = self._shown(self._store.edition(cities), loop, deadline)
        visible = [
            depot_id
            for depot_id, depot in night.depots.items()
            if depot_id in night.rows and (cities is None or depot.attributes.get("city") in cities)
        ]
        if question.depots is not None and (hidden := set(question.depots).difference(visible)):
            raise NoSuchDepot(min(hidden))
        return night.answer(question, visible), cold

    def _shown(self, edition: Edition, loop: asyncio.AbstractEventLoop, deadline: float) -> tuple[PublishedNight, bool]:
        """Return the shown publication, and whether it had to be read, for the first time or again."""
        with self._alone(deadline):
            night, key = self._night, _key(edition)
            may_be_mended = night is not None and night.questions.broken and time.monotonic() >= self._again
            if night is not None and self._of == key and not may_be_mended:
                return night, False
            self._night, self._of = self._load(edition, loop), key
            self._again = time.monotonic() + RETRY_SECONDS
            return self._night, True

    @contextmanager
    def _alone(self, deadline: float) -> Iterator[None]:
        """Let one thread read for all concurrent ones. Raises DeadlinePassed if that takes too
        long."""
        if not self._lock.acquire(timeout=max(deadline - time.monotonic(), 0)):
            raise DeadlinePassed(LATE)
        try:
            yield
        finally:
            self._lock.release()

    def _load(self, edition: Edition, loop: asyncio.AbstractEventLoop) -> PublishedNight:
        from forecaster.planning.what_if import Questions  # not needed for the first tensor answer

        publication_id, publication = edition.head.publication_id, edition.ledger.whole(edition.head)
        questions = Questions.of(self._state, publication, partial(self._model, loop))
        rows = {depot_id: row for row, depot_id in enumerate(questions.depot_ids)}
        depots = {depot.depot_id: depot for depot in publication.depots}
        earlier, requested = frozenset[str](), set[str]()
        if (last := self._night) is not None:
            earlier = frozenset(last.requested_depots)
            if last.publication_id == publication_id:  # corrected
                earlier, requested = earlier | last.earlier_depots, last.requested_depots
        return PublishedNight(publication_id, publication, questions, rows, depots, earlier, requested)

    def _model(self, loop: asyncio.AbstractEventLoop, _: Path, name: str) -> QueuedModel | BundleError:
        try:
            model = asyncio.run_coroutine_threadsafe(self._models.model(name), loop).result(LONGEST_WAIT)
        except BundleError as error:
            return error
        return QueuedModel(self._models, model.bundle, loop, lambda: DEADLINE.get(time.monotonic()))


def _key(edition: Edition) -> tuple[object, ...]:
    """Return the identity of the shown publication with its corrections."""
    return edition.head.publication_id, edition.head.revised_at


def _crew(depot: PublishedDepot) -> tuple[list[int | None], list[int | None]]:
    """Return drivers and vans of each day, as published; None if undeclared."""
    vans = [None if day.roster is None else day.roster.vans for day in depot.days]
    return [day.drivers for day in depot.days], vans
