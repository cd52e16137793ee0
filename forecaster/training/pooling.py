"""Pooling: panels of several networks as one panel, for one training on all of them.

Long histories are cut into pieces of equal length, which overlap by the lookback of a forecast;
short ones begin with unknown days. Days are then only positions: each piece's calendar knows the
dates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecaster.core.panel import Encoding, Panel
from forecaster.model.network.features import LOOKBACK

LEAST_SHARE = 0.2  # smallest share of known days for a depot in a piece


def pool(panels: Sequence[Panel], *, days: int, covariates: tuple[str, ...] = ()) -> Panel:
    """Return one panel over `days` days of history with the depots of all panels, once for each
    piece of their histories.

    Only the named covariates are kept, 0 where a panel has none; statics and attributes are
    dropped. A depot's id consists of the panel's number, the depot and the piece. Raises ValueError
    for panels with different horizons or calendars, for panels without a known day, and for pieces
    no longer than `LOOKBACK` days.
    """
    horizons, calendars = {panel.horizon for panel in panels}, {panel.calendar_names for panel in panels}
    if len(horizons) != 1 or len(calendars) != 1:
        raise ValueError(f"found horizons {sorted(horizons)} and {len(calendars)} calendars, wanted one of each")
    if days <= LOOKBACK:
        raise ValueError(f"found pieces of {days} days, wanted more than {LOOKBACK}")
    named_pieces = list(_named_pieces(panels, days))
    if not named_pieces:
        raise ValueError("no depot has enough known days")
    depot_ids = tuple(depot for names, _ in named_pieces for depot in names)
    pieces = [piece for _, piece in named_pieces]
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
    """Yield the pieces with depots, each with the new names of its depots."""
    for number, panel in enumerate(panels):
        for index, piece in enumerate(_pieces(panel, days)):
            if len(piece.depot_ids):
                yield [f"{number} {depot} {index}" for depot in piece.depot_ids], piece


def _pieces(panel: Panel, days: int) -> Iterator[Panel]:
    """Yield the history, from its end backwards, in pieces of at most `days` days, with the depots
    that were known often enough."""
    end = panel.history
    while True:
        piece = panel.at(panel.days[end - 1].astype(object)).last(days)
        is_known = np.isfinite(piece.demand).sum(axis=1) >= LEAST_SHARE * days
        yield piece.among([depot for depot, often in zip(piece.depot_ids, is_known, strict=True) if often])
        end -= days - LOOKBACK
        if end < days // 2 or end <= LOOKBACK:  # or the previous piece held all of it
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
    """Concatenate the values of all pieces, each padded at the front to `length` days."""
    parts = map(values, pieces)
    return np.concatenate(
        [np.pad(x, [(0, 0), (length - x.shape[1], 0)] + [(0, 0)] * (x.ndim - 2), constant_values=fill) for x in parts]
    )
