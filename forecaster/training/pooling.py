"""Pooling: panels of several networks as one panel, from which one training learns them all.

Long histories are cut into pieces of one length, which overlap by the days that a forecast looks
back on; short ones begin with unknown days. Days are then places: which dates they are, each
piece's calendar says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecaster.core.panel import Encoding, Panel
from forecaster.model.network.features import LOOKBACK

LEAST_SHARE = 0.2  # of a piece's days that a depot must have known, or its piece is left out


def pool(panels: Sequence[Panel], *, days: int, covariates: tuple[str, ...] = ()) -> Panel:
    """One panel over `days` days of history with the depots of all panels, once for each piece of
    their histories.

    Of the covariates those named stay, 0 where a panel has none; statics and attributes go. Depots
    are named by the panel's number, the depot and the piece. Raises ValueError for panels of
    several horizons or calendars, for none with a known day, and for pieces no longer than
    `LOOKBACK` days.
    """
    horizons, calendars = {panel.horizon for panel in panels}, {panel.calendar_names for panel in panels}
    if len(horizons) != 1 or len(calendars) != 1:
        raise ValueError(f"found horizons {sorted(horizons)} and {len(calendars)} calendars, wanted one of each")
    if days <= LOOKBACK:
        raise ValueError(f"found pieces of {days} days, wanted more than {LOOKBACK}")
    named = list(_named_pieces(panels, days))
    if not named:
        raise ValueError("no depot has enough known days")
    depot_ids = tuple(depot for names, _ in named for depot in names)
    pieces = [piece for _, piece in named]
    longest = max(panels, key=lambda panel: panel.history)
    horizon = longest.horizon
    until_end = days + horizon
    groups = np.cumsum([0, *(len(piece.calendar) for piece in pieces)])
    group = np.concatenate([piece.calendar_group + first for piece, first in zip(pieces, groups, strict=False)])
    return Panel(
        depot_ids=depot_ids,
        days=longest.days[-1] - until_end + 1 + np.arange(until_end),
        horizon=horizon,
        demand=_side_by_side(pieces, lambda piece: piece.demand, days, np.nan),
        open=_side_by_side(pieces, lambda piece: piece.open, until_end, True),
        covariates=_side_by_side(pieces, lambda piece: _covariates(piece, covariates), until_end, 0.0),
        calendar=_side_by_side(pieces, lambda piece: piece.calendar, until_end, 0.0),
        calendar_group=group.astype(np.int32),
        statics=np.zeros((len(depot_ids), 0), np.int32),
        encoding=Encoding(covariates, {}),
        calendar_names=longest.calendar_names,
    )


def _named_pieces(panels: Sequence[Panel], days: int) -> Iterator[tuple[list[str], Panel]]:
    """The pieces that hold depots, each with the names of its depots."""
    for number, panel in enumerate(panels):
        for index, piece in enumerate(_pieces(panel, days)):
            if len(piece.depot_ids):
                yield [f"{number} {depot} {index}" for depot in piece.depot_ids], piece


def _pieces(panel: Panel, days: int) -> Iterator[Panel]:
    """The history from its end backwards in pieces of at most `days` days, of depots that were
    known often enough."""
    end = panel.history
    while True:
        piece = panel.at(panel.days[end - 1].astype(object)).last(days)
        known = np.isfinite(piece.demand).sum(axis=1) >= LEAST_SHARE * days
        yield piece.among([depot for depot, often in zip(piece.depot_ids, known, strict=True) if often])
        end -= days - LOOKBACK
        if end < days // 2 or end <= LOOKBACK:  # or the piece before held all of it
            return


def _covariates(panel: Panel, names: Sequence[str]) -> NDArray[np.float32]:
    values = np.zeros((*panel.open.shape, len(names)), np.float32)
    for place, name in enumerate(names):
        if name in panel.encoding.covariates:
            values[..., place] = panel.covariates[..., panel.encoding.covariates.index(name)]
    return values


def _side_by_side(
    pieces: Sequence[Panel], values: Callable[[Panel], NDArray[Any]], length: int, fill: float
) -> NDArray[Any]:
    """The values of all pieces, each filled to so many days before its first one."""
    parts = map(values, pieces)
    return np.concatenate(
        [np.pad(x, [(0, 0), (length - x.shape[1], 0)] + [(0, 0)] * (x.ndim - 2), constant_values=fill) for x in parts]
    )
