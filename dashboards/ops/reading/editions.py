"""Row-level access to publications: an edition and a logbook of runs, narrowed to the cities that a
reader sees.

Nothing that a reader of some cities gets depends on data of other cities, except through the
published numbers of the reader's own depots; docs/SECURITY.md names the exceptions.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from dashboards.ops.reading.header import Front, front
from dashboards.ops.reading.last_night import Notice, fruitless
from forecaster.core.forecast import CanaryTrial
from forecaster.core.language import N_, _
from forecaster.core.language.holiday_names import NOWHERE, HolidayRegion
from forecaster.errors import LedgerError
from forecaster.ledger import accuracy, drift, overview
from forecaster.ledger.accuracy import CITY, DEPOT, Tally
from forecaster.ledger.drift import Drift
from forecaster.ledger.publication import PublishedDay, PublishedDepot, PublishedTotal
from forecaster.ledger.records import Head, Promotion, Run
from forecaster.ledger.store import Ledger
from forecaster.plugins import optional
from forecaster.staffing import value_account
from forecaster.staffing.value_account import ValueAccount

if TYPE_CHECKING:
    from forecaster.config import Spec

JUST_REPLACED = N_("these forecasts have just been replaced by newer ones; load the page again")
HIDDEN_MESSAGE = N_("Shown to those who see every city.")


class NothingPublished(LedgerError):
    """The ledger is readable, but no run has published yet."""

    @property
    def for_readers(self) -> str:
        return str(self)


class NoSuchDepot(LookupError):
    """The publication has no depot with this ID."""


@dataclass(frozen=True)
class Outline:
    """A publication's depots as the board needs them, and the previous publication's medians."""

    depots: tuple[PublishedDepot, ...]
    before: Mapping[tuple[str, date], float]


class Outlines:
    """Cache of the two outlines read last. Concurrent callers wait for one read and share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_publication: dict[object, Outline] = {}

    def of(self, head: Head, ledger: Ledger) -> Outline:
        """Return the outline. Raises NothingPublished if the publication is no longer retained."""
        key = head.publication_id, head.revised_at
        with self._lock:
            if (outline := self._by_publication.get(key)) is None:
                outline = read_outline(head, ledger)
                newest = list(self._by_publication.items())[-1:]
                self._by_publication = {**dict(newest), key: outline}
        return outline


def read_outline(head: Head, ledger: Ledger) -> Outline:
    with ledger.transaction() as connection:
        depots = overview.outline(connection, head.publication_id)
        earlier = overview.previous_publication_id(connection, head)
        medians = {} if earlier is None else overview.medians(connection, earlier)
    if not depots:
        raise NothingPublished(_(JUST_REPLACED))
    return Outline(depots, medians)


@dataclass(frozen=True)
class Edition:
    """A publication as it reads today to a reader of some cities, or of all; its content depends on
    nothing else."""

    head: Head
    front: Front
    notice: Notice | None  # quarantined data of the last run
    ledger: Ledger
    outlines: Outlines
    cities: frozenset[str] | None = None  # None: all
    past: bool = False  # not the current publication
    home: HolidayRegion = NOWHERE  # of depots that declare none

    def outline(self) -> tuple[PublishedDepot, ...]:
        """Return the depots with their recent days, without reasons; read once per publication."""
        return self._outline

    @cached_property
    def _outline(self) -> tuple[PublishedDepot, ...]:
        return self._visible(self.outlines.of(self.head, self.ledger).depots)

    def before(self) -> Mapping[tuple[str, date], float]:
        """Return the previous publication's forecast for a depot and a day, in orders."""
        return self._before

    @cached_property
    def _before(self) -> Mapping[tuple[str, date], float]:
        medians = self.outlines.of(self.head, self.ledger).before
        if self.cities is None:
            return medians
        depot_ids = {depot.depot_id for depot in self.outline()}
        return {place: median for place, median in medians.items() if place[0] in depot_ids}

    def said_before(self, depot_id: str) -> Mapping[date, PublishedDay]:
        """Return forecasts of earlier publications for a depot's past days. Raises NoSuchDepot."""
        self.depot(depot_id)
        with self.ledger.transaction() as connection:
            return overview.earlier_forecasts(connection, self.head, depot_id)

    def depots(self) -> tuple[PublishedDepot, ...]:
        if not (depots := self.ledger.depots(self.head.publication_id)):
            raise NothingPublished(_(JUST_REPLACED))
        return self._visible(depots)

    def totals(self) -> tuple[PublishedTotal, ...]:
        """Return the totals of the network and all groups for readers of every city; for others
        those of their cities, since groups of other levels may include depots elsewhere."""
        return self._totals

    @cached_property
    def _totals(self) -> tuple[PublishedTotal, ...]:
        totals = self.ledger.totals(self.head.publication_id)
        if self.cities is None:
            return totals
        return tuple(total for total in totals if total.level == "city" and total.name and total.name in self.cities)

    def depot(self, depot_id: str) -> PublishedDepot:
        """Return a depot. Raises NoSuchDepot."""
        depot = self.ledger.depot(self.head.publication_id, depot_id)
        visible = self._visible((depot,) if depot else ())
        if not visible:
            raise NoSuchDepot(depot_id)
        return visible[0]

    def drifts(self, depot: PublishedDepot) -> tuple[Drift, ...]:
        """Return drifts at a depot of this edition as of the last run; none for a past publication."""
        if self.past:
            return ()
        with self.ledger.transaction() as connection:
            return drift.drifts(connection, self.head.pipeline, drift.DEPOT, depot.depot_id)

    def revised_at(self) -> datetime | None:
        """Return the instant at which planners last changed a visible day of a depot; None if they
        changed none."""
        head = self.head
        if self.cities is None:
            return head.revised_at
        depot_ids = {depot.depot_id for depot in self.outline()}
        with self.ledger.transaction() as connection:
            changes = overview.override_changes(connection, head.pipeline, since=head.published_at)
        return max((at for depot_id, at in changes if depot_id in depot_ids), default=None)

    def _visible(self, depots: tuple[PublishedDepot, ...]) -> tuple[PublishedDepot, ...]:
        if self.cities is None:
            return depots
        return tuple(without_network_share(depot) for depot in depots if _sees(self.cities, depot))


@dataclass(frozen=True)
class Logbook:
    """The latest runs of a pipeline, newest first, as they read now; `head` is the publication, if
    any."""

    head: Head | None
    runs: tuple[Run, ...]
    now: datetime
    pipeline: str | None
    ledger: Ledger
    outlines: Outlines
    cities: frozenset[str] | None = None  # None: all
    spec: Spec | None = None  # the pipeline file; None if the page was started without one

    def front(self) -> Front | None:
        """Return the header of every page about the publication; None before the first publication."""
        if self.head is None:
            return None
        ended = next((run for run in self.runs if run.finished_at is not None), None)
        return front(self.head, self.now, fruitless(ended, self.head))

    def first_night(self) -> date | None:
        """Return the local day of the first run that published; None before it."""
        first = self.ledger.first_as_of(self.pipeline) if self.head and self.pipeline else None
        return first.astimezone(ZoneInfo(self.head.timezone)).date() if first and self.head else None

    def depots(self) -> tuple[PublishedDepot, ...]:
        """Return the published depots, as the board shows them."""
        depots = self.outlines.of(self.head, self.ledger).depots if self.head else ()
        return tuple(depot for depot in depots if _sees(self.cities, depot))

    def capped_depots(self) -> tuple[PublishedDepot, ...]:
        """Return the depots with a recent count that is a lower bound of demand, with their recent
        days."""
        if self.head is None:
            return ()
        with self.ledger.transaction() as connection:
            depots = overview.capped_depots(connection, self.head.publication_id)
        return tuple(depot for depot in depots if _sees(self.cities, depot))

    def promotions(self) -> tuple[Promotion, ...]:
        """Return the promotions, oldest first. Reasons are hidden from readers of some cities: they
        concern all depots together, and may name some."""
        promotions = self.ledger.promotions(self.pipeline) if self.pipeline else ()
        if self.cities is None:
            return promotions
        return tuple(replace(promotion, reason=_(HIDDEN_MESSAGE)) for promotion in promotions)

    def canary(self) -> CanaryTrial | None:
        """Return the latest canary trial of a new model. Readers of some cities see only their
        depots in it."""
        trial: CanaryTrial | None = None
        if self.pipeline and (canaries := optional("canary.ledger")):
            with self.ledger.transaction() as connection:
                trial = next(iter(canaries.history(connection, self.pipeline, 1)), None)
        if trial is None or self.cities is None:
            return trial
        visible = trial.cohort & {depot.depot_id for depot in self.depots()}
        return replace(trial, cohort=frozenset(visible), reason=_(HIDDEN_MESSAGE), judged={"days": trial.days})

    def tallies(self) -> tuple[Tally, ...]:
        """Return the accuracy of earlier forecasts. Readers of some cities see only those and the
        depots in them."""
        with self.ledger.transaction() as connection:
            tallies = accuracy.all_tallies(connection, self.pipeline) if self.pipeline else ()
        if self.cities is None:
            return tallies
        visible = {(CITY, city) for city in self.cities} | {(DEPOT, depot.depot_id) for depot in self.depots()}
        return tuple(tally for tally in tallies if (tally.part, tally.label) in visible)

    def drifts(self) -> tuple[Drift, ...]:
        """Return drifts as of the last run. Readers of some cities see only those and the depots in
        them."""
        with self.ledger.transaction() as connection:
            drifts = drift.drifts(connection, self.pipeline) if self.pipeline else ()
        if self.cities is None:
            return drifts
        visible = {(CITY, city) for city in self.cities} | {(DEPOT, depot.depot_id) for depot in self.depots()}
        return tuple(row for row in drifts if (row.part, row.label) in visible)

    def value(self, weeks: int) -> ValueAccount:
        """Return costs and savings of the rosters of the last weeks, for the visible cities."""
        with self.ledger.transaction() as connection:
            return value_account.account(connection, self.pipeline or "", weeks, self.cities)


def _sees(cities: frozenset[str] | None, depot: PublishedDepot) -> bool:
    return cities is None or depot.attributes.get("city") in cities


def without_network_share(depot: PublishedDepot) -> PublishedDepot:
    """Return the depot without its share of the network's vans, which would reveal the needs of
    other cities."""
    return replace(depot, days=tuple(map(_day_without_network_share, depot.days)))


def _day_without_network_share(day: PublishedDay) -> PublishedDay:
    lack = day.roster.shortage if day.roster else None
    if day.roster is None or lack is None or not lack.network:
        return day
    return replace(day, roster=replace(day.roster, shortage=replace(lack, share=None)))


def without_readings(run: Run) -> Run:
    """Return the run without findings, model verdict and measurements, which concern all cities."""
    return replace(run, findings=(), message=None, verdict=None, computing=None, measures=None)
