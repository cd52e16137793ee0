"""Pooling: panels of several networks as one panel, from which one training learns them all.

Long histories are cut into pieces of one length, which overlap by the days that a forecast looks back on; short ones
begin with unknown days. Days are then places: which dates they are, each piece's calendar says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecaster.core.panel import Encoding, Panel
from forecaster.model.network.features import LOOKBACK

LEAST_SHARE = 0.2  # of a piece's days that a depot must have known, or its piece is left out


def pool(panels: Sequence[Panel], *, days: int, covariates: tuple[str, ...] = ()) -> Panel:
    """One panel over `days` days of history with the depots of all panels, once for each piece of their histories.

    Of the covariates those named stay, 0 where a panel has none; statics and attributes go. Depots are named by the
    panel's number, the depot and the piece. Raises ValueError for panels of several horizons or calendars, for none
    with a known day, and for pieces no longer than `LOOKBACK` days.
    """
    horizons, calendars = {panel.horizon for panel in panels}, {panel.calendar_names for panel in panels}
    if len(horizons) != 1 or len(calendars) != 1:
        raise ValueError(f"found horizons {sorted(horizons)} and {len(calendars)} calendars, wanted one of each")
    if days <= LOOKBACK:
        raise ValueError(f"found pieces of {days} days, wanted more than {LOOKBACK}")
    pieces = [
        (f"{number}", index, piece)
        for number, panel in enumerate(panels)
        for index, piece in enumerate(_pieces(panel, days))
        if len(piece.depot_ids)
    ]
    if not pieces:
        raise ValueError("no depot has enough known days")
    groups = np.cumsum([0, *(len(piece.calendar) for *_, piece in pieces)])
    longest = max((panel for panel in panels), key=lambda panel: panel.history)
    last = longest.days[-1]
    horizon = longest.horizon
    return Panel(
        depot_ids=tuple(f"{number} {depot} {index}" for number, index, piece in pieces for depot in piece.depot_ids),
        days=last - (days + horizon) + 1 + np.arange(days + horizon),
        horizon=horizon,
        demand=np.concatenate([_from_left(piece.demand, days, np.nan) for *_, piece in pieces]),
        open=np.concatenate([_from_left(piece.open, days + horizon, True) for *_, piece in pieces]),
        covariates=np.concatenate(
            [_from_left(_covariates(piece, covariates), days + horizon, 0.0) for *_, piece in pieces]
        ),
        calendar=np.concatenate([_from_left(piece.calendar, days + horizon, 0.0) for *_, piece in pieces]),
        calendar_group=np.concatenate(
            [piece.calendar_group + groups[place] for place, (*_, piece) in enumerate(pieces)]
        ).astype(np.int32),
        statics=np.zeros((sum(len(piece.depot_ids) for *_, piece in pieces), 0), np.int32),
        encoding=Encoding(covariates, {}),
        calendar_names=longest.calendar_names,
    )


def _pieces(panel: Panel, days: int) -> Iterator[Panel]:
    """The history from its end backwards in pieces of at most `days` days, of depots that were known often enough."""
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


def _from_left(x: NDArray[Any], length: int, value: float) -> NDArray[Any]:
    return np.pad(x, [(0, 0), (length - x.shape[1], 0)] + [(0, 0)] * (x.ndim - 2), constant_values=value)
