"""Cohort of a canary: the depots that see the new model, spread over cities and sizes, and chosen
deterministically."""

from __future__ import annotations

import hashlib

import numpy as np

from forecaster.core.panel import Panel

RECENT = 28  # days that determine a depot's size


def cohort(panel: Panel, digest: str, share: float) -> frozenset[str]:
    """Depots that see the bundle with a digest: about `share` of those in business, at least one
    and never all.

    Empty if there are fewer than two. The depots are sorted by city and size and cut into as many
    pieces as the cohort has depots; each piece contributes the depot with the lowest sha256
    together with the digest, so that another bundle gets another cohort.
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
