"""Data profile of a forecast's input: numbers of depots and days, and the state of every depot-day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from forecaster.core.panel import Panel

OBSERVED, ZERO, CLOSED, MISSING = range(4)
STATES = ("observed", "zero", "closed", "missing")
"""States of a depot-day up to the cutoff: counted, counted as 0, out of business or closed, open
and not counted."""
RANKED_DEPOTS = 3  # busiest and quietest depots listed


@dataclass(frozen=True)
class Gap:
    """Gap of missing data: consecutive open days of one depot without a count."""

    depot_id: str
    first: date
    days: int


@dataclass(frozen=True)
class Profile:
    """Data profile of a panel. A depot-day is one depot's day up to the cutoff."""

    depots: int
    first: date
    cutoff: date
    days: int
    states: Mapping[str, int]  # state → depot days
    silent: int  # depots without any count
    capped: int  # depot days whose count is a lower bound of demand
    gaps: int  # runs of missing days
    longest: Gap | None
    median: float  # count of an open depot day
    busiest: tuple[tuple[str, float], ...]  # depot and median count of its open days, highest first
    quietest: tuple[tuple[str, float], ...]  # same, lowest first
    # total of the network in each whole week that ends on the cutoff's weekday
    weekly: tuple[float, ...]
    covariates: tuple[str, ...]
    statics: tuple[str, ...]
    targets: tuple[date, date]

    @property
    def depot_days(self) -> int:
        return self.depots * self.days

    @property
    def open_days(self) -> int:
        """Number of open depot-days."""
        return self.depot_days - self.states["closed"]

    def share(self, state: str) -> float:
        """Share of the state among all depot-days."""
        return self.states[state] / self.depot_days


def profile(panel: Panel) -> Profile:
    """The data profile of a panel."""
    depot_states = states(panel)
    counts = np.where(depot_states == CLOSED, np.nan, panel.served)
    known_counts = counts[~np.isnan(counts)]
    ranked = _rank_by_median(panel.depot_ids, counts)
    gaps = _gaps(panel, depot_states)
    targets = panel.target_dates
    return Profile(
        depots=len(panel.depot_ids),
        first=panel.days[0].astype(object),
        cutoff=panel.cutoff,
        days=panel.history,
        states={name: int((depot_states == state).sum()) for state, name in enumerate(STATES)},
        silent=int(np.isnan(panel.served).all(axis=1).sum()),
        capped=int(panel.is_capped.sum()),
        gaps=len(gaps),
        longest=max(gaps, key=lambda gap: gap.days, default=None),
        median=float(np.median(known_counts)) if known_counts.size else 0.0,
        busiest=ranked[:RANKED_DEPOTS],
        quietest=ranked[::-1][: min(RANKED_DEPOTS, max(len(ranked) - RANKED_DEPOTS, 0))],
        weekly=_weekly(panel),
        covariates=panel.encoding.covariates,
        statics=tuple(panel.encoding.statics),
        targets=(targets[0], targets[-1]),
    )


def states(panel: Panel) -> NDArray[np.int8]:
    """Position in STATES of each depot-day of the history, (depots, days)."""
    open_states = np.where(np.isnan(panel.served), MISSING, np.where(panel.served == 0, ZERO, OBSERVED))
    return np.where(panel.open[:, : panel.history], open_states, CLOSED).astype(np.int8)


def runs(marked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Run-length encoding of marks (depots, days): one row (depot, first day, days) per run of
    marked days."""
    edges = np.pad(marked, ((0, 0), (1, 1)))
    starts = np.argwhere(edges[:, 1:] & ~edges[:, :-1])
    ends = np.argwhere(edges[:, :-1] & ~edges[:, 1:])
    return np.column_stack([starts, ends[:, 1] - starts[:, 1]])


def _gaps(panel: Panel, depot_states: NDArray[np.int8]) -> list[Gap]:
    return [
        Gap(panel.depot_ids[depot], panel.days[start].astype(object), int(length))
        for depot, start, length in runs(depot_states == MISSING)
    ]


def _rank_by_median(depot_ids: tuple[str, ...], counts: NDArray[np.floating]) -> tuple[tuple[str, float], ...]:
    """Depots and the medians of their counts, highest first, without depots that have no counts."""
    with_counts = np.flatnonzero(~np.isnan(counts).all(axis=1))
    medians = np.nanmedian(counts[with_counts], axis=1) if with_counts.size else np.empty(0)
    order = np.argsort(-medians, kind="stable")
    return tuple((depot_ids[with_counts[i]], float(medians[i])) for i in order)


def _weekly(panel: Panel) -> tuple[float, ...]:
    weeks = panel.history // 7
    daily = np.nansum(panel.served[:, panel.history - 7 * weeks :], axis=0, dtype=np.float64)
    return tuple(float(total) for total in daily.reshape(weeks, 7).sum(axis=1))
