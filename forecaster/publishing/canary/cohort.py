"""Cohort of a canary: the depots that see the new model, spread over cities and sizes, and the same
whenever asked."""

from __future__ import annotations

import hashlib

import numpy as np

from forecaster.core.panel import Panel

RECENT = 28  # days by which a depot's size is told


def cohort(panel: Panel, digest: str, share: float) -> frozenset[str]:
    """The depots that see the bundle of a digest: about `share` of those in business, one at least
    and never all.

    Empty where there are fewer than two. The depots are put in order by city and size and cut into
    as many pieces as there shall be depots; of each piece that one is taken whose sha256 with the
    digest is the lowest, so that another bundle is tried elsewhere.
    """
    open_lately = panel.open[:, max(panel.history - RECENT, 0) :].any(axis=1)
    rows = np.flatnonzero(open_lately)
    number = min(max(round(share * len(rows)), 1), len(rows) - 1)
    if number < 1:
        return frozenset()
    cities = panel.attributes.get("city", ("",) * len(panel.depot_ids))
    counts = np.where(np.isfinite(panel.demand[:, -RECENT:]), panel.demand[:, -RECENT:], 0.0).sum(axis=1)
    in_order = sorted(rows.tolist(), key=lambda row: (cities[row], -counts[row], panel.depot_ids[row]))
    pieces = np.array_split(np.asarray(in_order), number)
    return frozenset(
        min((panel.depot_ids[row] for row in piece), key=lambda id_: _draw(id_, digest)) for piece in pieces
    )


def _draw(depot_id: str, digest: str) -> str:
    return hashlib.sha256(f"{depot_id}\n{digest}".encode()).hexdigest()
