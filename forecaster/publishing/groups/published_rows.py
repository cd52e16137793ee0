"""A group's publication as rows of the ledger, made of arrays: what `content.published_depots` gives, to the byte, with
no value of Python's for each day.

The integrity checks are `objections`: arrays tell whether there can be one, and only then each depot is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, repeat
from json import JSONEncoder

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core import timezones
from forecaster.core.arrays import Bools, Floats
from forecaster.core.forecast import Forecast
from forecaster.core.knowledge import Knowledge
from forecaster.errors import LedgerError
from forecaster.ledger.columns.json_text import json_text
from forecaster.ledger.grouped.depot_rows import DAY_FIELDS, DEPOT_FIELDS, SCHEMA
from forecaster.ledger.publication import Publication, PublishedRoster, objections
from forecaster.planning.overrides import Override
from forecaster.publishing import content
from forecaster.publishing.content import Cell
from forecaster.publishing.forecast import ForecastResult
from forecaster.publishing.groups.depot_files import AT_A_TIME
from forecaster.staffing import rosters
from forecaster.staffing.newsvendor import Roster
from forecaster.staffing.shifts.shift_crews import ShiftRoster

_loose = JSONEncoder().encode  # numbers that are none become NaN, which has to become null
BETWEEN = "], ["
OF_CREWS = ("chance_short", "cost", "one_more", "one_fewer", "wanted", "shifts")  # in the order of the roster's fields
ROSTER_PIECES = json_text(PublishedRoster(None, 0.0, 0.0, None, None).to_json() | dict.fromkeys(OF_CREWS, "@")).split(
    '"@"'
)


@dataclass(frozen=True)
class GroupContent:
    """What a group publishes: a forecast with the planners' numbers in it, and of what the model `result` without."""

    forecast: Forecast
    result: ForecastResult
    spec: Spec
    knowledge: Knowledge
    overrides: Mapping[Cell, Override]
    now: datetime

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows of `SCHEMA`, some depots at a time; a depot that closed before its recent days began is left out.

        Raises LedgerError when what is to be published cannot be.
        """
        panel = self.result.panel
        first = max(panel.history - content.RECENT_DAYS, 0)
        roster = rosters.plan(self.forecast, panel, self.spec)
        self._refuse_what_cannot_be(roster, first)
        rows = np.flatnonzero(panel.open[:, first:].any(axis=1))
        zones = content.depot_timezones(self.knowledge)
        for start in range(0, len(rows), AT_A_TIME):
            part = rows[start : start + AT_A_TIME]
            arrays = [*self._depots(part, first, zones), self._days(part, roster)]
            yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    def _depots(self, rows: NDArray[np.intp], first: int, zones: Mapping[str, str]) -> list[pa.Array]:
        """The columns of depots."""
        panel, spec = self.result.panel, self.spec
        ids = [panel.depot_ids[row] for row in rows]
        names = spec.depots.static if spec.depots else []
        attributes = [json_text({name: str(panel.attributes[name][row]) for name in names}) for row in rows]
        marks = [
            json_text([[mark.date.isoformat(), mark.kind, mark.name] for mark in panel.marks.of(row)]) for row in rows
        ]
        columns = {
            "depot_id": ids,
            "attributes": attributes,
            "recent": self._recent(rows, first),
            "marks": marks,
            "timezone": [zones.get(depot) for depot in ids],
            "tier": ["fallback" if depot in self.result.strangers else None for depot in ids],
            "bundle_digest": [None] * len(ids),
        }
        return [pa.array(columns[name], kind) for name, kind in DEPOT_FIELDS]

    def _recent(self, rows: NDArray[np.intp], first: int) -> list[str]:
        """Day, count and whether it was open, of each recent day of a depot."""
        panel = self.result.panel
        days = [day.isoformat() for day in panel.days[first : panel.history].astype(object)]
        counts = panel.demand[rows, first : panel.history].astype(np.float64).tolist()
        is_open = panel.open[rows, first : panel.history].tolist()
        triples = [list(zip(days, *of_depot, strict=True)) for of_depot in zip(counts, is_open, strict=True)]
        return [_loose(of_depot).replace("NaN", "null") for of_depot in triples]

    def _days(self, rows: NDArray[np.intp], roster: Roster | None) -> pa.ListArray:
        """The days of some depots, each a row."""
        forecast, horizon = self.forecast, len(self.forecast.target_dates)
        levels, count = len(forecast.levels), len(rows) * horizon
        quantiles = forecast.quantiles[rows].astype(np.float64).reshape(count, levels).tolist()
        columns = {
            "target_date": np.tile(np.asarray(forecast.target_dates, "datetime64[D]"), len(rows)),
            "horizon": np.tile(np.arange(1, horizon + 1, dtype=np.int32), len(rows)),
            "open": forecast.open[rows].ravel(),
            "quantiles": [f"[{text}]" for text in json_text(quantiles)[2:-2].split(BETWEEN)],
            "drivers": [None] * count if roster is None else roster.drivers[rows].ravel(),
            "roster": [None] * count if roster is None else self._rosters(rows, roster),
            "override": self._overrides(rows),
            "change": [None] * count,
        }
        arrays = [pa.array(columns[name], kind) for name, kind in DAY_FIELDS]
        offsets = pa.array(np.arange(0, count + 1, horizon, dtype=np.int32))
        return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(arrays, names=[n for n, _ in DAY_FIELDS]))

    def _rosters(self, rows: NDArray[np.intp], roster: Roster) -> list[str | None]:
        """What is said of the crew of each open day; groups have no vans, and none of what is published already."""
        amounts = (roster.chance_short, roster.expected_cost, roster.one_more, roster.one_fewer)
        columns = [amount[rows].ravel().tolist() for amount in (*amounts, roster.desired)]
        shifts = _shift_texts(roster, rows) if isinstance(roster, ShiftRoster) else repeat("[]", len(columns[0]))
        texts = _loose(list(zip(*columns, strict=True)))[2:-2].replace("NaN", "null").split(BETWEEN)
        is_open = self.forecast.open[rows].ravel().tolist()
        return [
            "".join(chain.from_iterable(zip(ROSTER_PIECES, (*text.split(", "), crew, ""), strict=True)))
            if opens
            else None
            for text, crew, opens in zip(texts, shifts, is_open, strict=True)
        ]

    def _overrides(self, rows: NDArray[np.intp]) -> list[str | None]:
        """The planners' numbers, each beside what the model said."""
        horizon = len(self.forecast.target_dates)
        place = {row: position for position, row in enumerate(rows.tolist())} if self.overrides else {}
        texts: list[str | None] = [None] * (len(rows) * horizon)
        for (row, step), override in self.overrides.items():
            if row in place:
                published = override.to_published(self.result.forecast.quantiles[row, step].tolist())
                texts[place[row] * horizon + step] = json_text(published.to_json())
        return texts

    def _refuse_what_cannot_be(self, roster: Roster | None, first: int) -> None:
        """Raises LedgerError with what `objections` has to say of a group, which is asked where arrays do not tell that
        all is well."""
        if self._is_whole(roster, first):
            return
        forecast, panel = self.forecast, self.result.panel
        publication = Publication(
            self.spec.name,
            "",
            self.now,
            self.now,
            panel.cutoff,
            panel.horizon,
            self.result.choice.tier,
            self.result.choice.model,
            self.spec.timezone,
            forecast.levels,
            tuple(
                content.published_depots(forecast, self.result, self.spec, self.knowledge, self.overrides, now=self.now)
            ),
        )
        if sentences := objections(publication):
            raise LedgerError("not published: " + "; ".join(sentences))

    def _is_whole(self, roster: Roster | None, first: int) -> bool:
        """Whether arrays tell that there is no objection to a depot of the group."""
        forecast, panel = self.forecast, self.result.panel
        recent = panel.demand[:, first : panel.history]
        middle = forecast.levels.index(0.5)
        return (
            all(map(_can_be, (forecast.quantiles, self.result.forecast.quantiles)))
            and not forecast.quantiles[~forecast.open].any()
            and not ((recent < 0) | np.isinf(recent)).any()
            and all(map(timezones.exists, {*content.depot_timezones(self.knowledge).values()}))
            and "" not in panel.depot_ids
            and all(forecast.quantiles[cell][middle] == override.orders for cell, override in self.overrides.items())
            and (roster is None or _can_be_rostered(roster, forecast.open))
        )


def _shift_texts(roster: ShiftRoster, rows: NDArray[np.intp]) -> list[str]:
    """Name and crew of each shift of each day."""
    crews = np.moveaxis(roster.crews[:, rows], 0, -1).reshape(-1, len(roster.names)).tolist()
    return [json_text(list(zip(roster.names, of_day, strict=True))) for of_day in crews]


def _can_be(quantiles: Floats) -> bool:
    return bool(np.isfinite(quantiles).all() and (quantiles[..., 0] >= 0).all() and (np.diff(quantiles) >= 0).all())


def _can_be_rostered(roster: Roster, is_open: Bools) -> bool:
    chance, cost = roster.chance_short[is_open], roster.expected_cost[is_open]
    others = [money[is_open] for money in (roster.one_more, roster.one_fewer)]
    return bool(
        (roster.drivers >= 0).all()
        and ((chance >= 0) & (chance <= 1)).all()
        and (np.isfinite(cost) & (cost >= 0)).all()
        and all((np.isnan(money) | (np.isfinite(money) & (money >= 0))).all() for money in others)
    )
