"""Depots whose counts look capped: many counts equal the largest, where other distributions thin
out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from forecaster.config import Spec, data_rules
from forecaster.core.arrays import Bools, Doubles, Floats
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import amount, counted, sentence
from forecaster.core.panel import Panel

RULE = "looks_capped"
DAYS = 365  # last days examined
LEAST_DAYS = 56  # days with a count above 0
LEAST_AT, SHARE = 8, 0.03  # days at the limit, and their share of those with a count
VALUES = 3  # minimum number of distinct counts: fewer show no limit
# minimum factor over the frequency of the next smaller count; number of smaller counts that it must
# at least equal
OFTEN, NEXT = 1.5, 3
NEAR = 0.02  # share of the limit within which counts are at a limit that is not sharp
WALL = 3.0  # minimum factor over the days in any band of the same width below it
WALL_OF_VANS = 1.5  # if the limit is what the depot's vans can deliver
_PLACES, _NAMED = 50, 5


class Suspect(NamedTuple):
    """A depot whose counts look capped."""

    row: int
    limit: float
    days: int  # at the limit
    counted: int  # days with a count above 0


def suspected_caps(panel: Panel, spec: Spec) -> tuple[Finding, ...]:
    """Finding about depots whose counts look capped, except those with declared capped days."""
    declared: Bools = np.any(panel.is_capped, axis=1)
    capacity = deliverable(panel, spec)
    at_limit = [cap for cap in suspects(panel.served, panel.open, capacity) if not declared[cap.row]]
    if not at_limit:
        return ()
    first = max(at_limit, key=lambda suspect: suspect.days / suspect.counted)
    by_vans = capacity is not None and abs(first.limit - capacity[first.row]) <= NEAR * first.limit
    message = sentence(
        _BY_VANS if by_vans else _AT_LIMIT,
        depots=counted(len(at_limit), "{n} depot", "{n} depots"),
        names=", ".join(panel.depot_ids[cap.row] for cap in at_limit[:_NAMED])
        + (", …" if len(at_limit) > _NAMED else ""),
        depot=panel.depot_ids[first.row],
        days=first.days,
        counted=first.counted,
        limit=amount(first.limit, "g"),
        wanted=data_rules.requirement(RULE),
    )
    severity = data_rules.severity(RULE, spec.demand.rules.severity)
    return (Finding(RULE, severity, len(at_limit), message, tuple(_places(panel, at_limit))),)


_AT_LIMIT = N_(
    "the counts of {depots} ({names}) look capped, as if a shop had sold out: depot {depot} has {limit}, its "
    "largest count, on {days} of {counted} days; wanted {wanted}"
)
_BY_VANS = N_(
    "the counts of {depots} ({names}) look capped: depot {depot} has {limit}, its largest count and what its vans "
    "deliver, on {days} of {counted} days; wanted {wanted}"
)


def _places(panel: Panel, at_limit: Sequence[Suspect]) -> list[tuple[str, str]]:
    """Newest days at the limit, by depot."""
    places: list[tuple[str, str]] = []
    for suspect in at_limit:
        width = NEAR * suspect.limit
        days = np.flatnonzero(panel.served[suspect.row] > suspect.limit - width)[::-1]
        places += [(panel.depot_ids[suspect.row], str(panel.days[day])) for day in days[:_NAMED]]
    return places[:_PLACES]


def deliverable(panel: Panel, spec: Spec) -> Doubles | None:
    """Orders per day that each depot's own vans can deliver, (depots,); NaN if unknown, None if the
    pipeline file does not state it."""
    staffing, home = spec.staffing, spec.vans_home
    if staffing is None or staffing.vans is None or home is None:
        return None
    vans = np.array([float(word) if word else np.nan for word in panel.attributes[home]])
    return vans * staffing.vans.drivers_per_van * staffing.orders_per_driver


def suspects(served: Floats, is_open: Bools, capacity: Doubles | None = None) -> list[Suspect]:
    """Depots whose counts (depots, days) look capped: the largest count is more frequent than any
    other, or the distribution ends at a wall. Without a cap it thins out towards its largest
    values. `capacity` is what each depot can serve, (depots,), if known: there a lower wall
    suffices."""
    history = served.shape[1]
    has_count = np.isfinite(served) & is_open[:, :history] & (served > 0)
    has_count[:, : max(history - DAYS, 0)] = False
    rows = np.flatnonzero(has_count.sum(axis=1) >= LEAST_DAYS).tolist()
    limits = np.full(len(served), np.nan) if capacity is None else capacity
    looked_at = (_suspect(row, served[row, has_count[row]].astype(np.float64), float(limits[row])) for row in rows)
    return [suspect for suspect in looked_at if suspect is not None]


def _suspect(row: int, counts: Doubles, capacity: float) -> Suspect | None:
    values, often = np.unique(counts, return_counts=True)
    limit, least = float(values[-1]), max(LEAST_AT, SHARE * len(counts))
    if len(values) < VALUES:
        return None
    if often[-1] >= max(least, OFTEN * often[-2], often[-1 - NEXT : -1].max()):
        return Suspect(row, limit, int(often[-1]), len(counts))
    # bands at least as wide as one step between counts
    width = max(NEAR * limit, float(np.diff(values).min()))
    bands = np.histogram(counts, limit - width * np.arange(4, -1, -1.0) + 1e-6 * width)[0]
    wall = WALL_OF_VANS if abs(limit - capacity) <= NEAR * limit else WALL
    if bands[-1] >= max(least, wall * bands[:-1].max()):
        return Suspect(row, limit, int(bands[-1]), len(counts))
    return None
