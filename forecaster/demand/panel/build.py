"""Feature engineering: the knowledge at one instant as the dense arrays of a Panel.

Every value is placed by integer position (depot, day); nothing loops over depots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core.arrays import Bools, Days, Floats, Ints
from forecaster.core.knowledge import Knowledge
from forecaster.core.marks import EVERYONE, Mark, Marks
from forecaster.core.panel import Encoding, Panel
from forecaster.demand.panel import calendar, carried_calendars, closed_weekdays, opening_days
from forecaster.demand.panel.capped.declared import capped_counts
from forecaster.demand.panel.event_scope import EventScope, event_scope
from forecaster.demand.panel.events import AnnouncedEvents, announced_events
from forecaster.demand.panel.grid import Cells, Grid, cells, lay_out
from forecaster.demand.panel.known_future import covariates
from forecaster.demand.panel.network_facts import NetworkFacts

MAX_LABELS = 64  # per static attribute
SHOWN_DAYS = 60  # days of the history for which marks of single depots are kept

Pairs = list[tuple[str | None, str | None]]  # (country, subdivision)
_HOME = ["country", "subdivision"]


@dataclass(frozen=True, eq=False)
class Openings:
    """Depots and days of a panel with their actuals, and when they were open."""

    grid: Grid
    at: Cells
    demand: pd.DataFrame
    attributes: dict[str, tuple[str, ...]]
    scope: EventScope
    announced: AnnouncedEvents
    counts: Floats  # (depots, days)
    came: closed_weekdays.Arrivals
    cities: NDArray[np.str_]
    is_open: Bools  # (depots, days), regardless of usual days off


def openings(knowledge: Knowledge, spec: Spec, network: NetworkFacts | None = None) -> Openings:
    """Opening days of a panel. Raises the errors of `build`."""
    grid, at = lay_out(knowledge, spec, network)
    demand = _words_once(knowledge.demand, spec)
    attributes = _attributes(knowledge.depots, spec, grid)
    scope = event_scope(pd.DataFrame({**attributes, "depot_id": grid.depots}), spec)
    announced = announced_events(knowledge.events, scope, grid)
    counts = _past_counts(demand, at)
    declared_open = _declared_open(demand, at, spec)
    is_open = opening_days.days_open(counts, declared_open, announced, knowledge.depots, spec, grid)
    arrivals = closed_weekdays.Arrivals(
        counts,
        _refused(knowledge.quarantined, grid),
        None if declared_open is None else declared_open == 1,
        _words(knowledge.quarantined, grid),
    )
    cities = scope.homes["city"].to_numpy(str)
    return Openings(grid, at, demand, attributes, scope, announced, counts, arrivals, cities, is_open)


def build(
    knowledge: Knowledge,
    spec: Spec,
    encoding: Encoding | None = None,
    network: NetworkFacts | None = None,
    carried: Mapping[str, Any] | None = None,
) -> Panel:
    """Build the panel of all depots up to the last observed day before `knowledge.as_of`, plus the
    horizon.

    Without an encoding, it is learned from this knowledge; a given one is used unchanged, so that a
    model sees the numbers it was trained on. Depots are sorted by id. Those of the depots source
    are kept even without any reading, unless they closed. For unknown covariates see
    `covariates.covariate_values`. `network` holds facts about all depots if these are only some of
    them: the panel is then the corresponding part of the whole panel. `carried` are the calendars
    of a bundle; they replace the installed table of holidays, and holidays then have no names.

    Raises NoUsableData when no demand was observed before as_of, or a covariate cannot be found
    anywhere; SpecError for a country or subdivision without a holiday calendar.
    """
    open_days = openings(knowledge, spec, network)
    grid, at, demand, attributes, counts = (
        open_days.grid,
        open_days.at,
        open_days.demand,
        open_days.attributes,
        open_days.counts,
    )
    is_off, is_open = usual_days(open_days, spec, network)
    if spec.demand.missing == "zero":
        rows = at.spread(True, False, np.bool_) | open_days.came.refused
        feed = network.has_feed if network else None
        counts[:, : grid.history][opening_days.without_demand(counts, is_open, rows, spec, grid, feed)] = 0
    if encoding is None:
        encoding = Encoding(covariates.learn_encoding(demand, at, spec), _labels(attributes, spec))
    pairs, group = holiday_calendars(open_days.scope, spec, network)
    panel = Panel(
        depot_ids=(ids := tuple(grid.depots.tolist())),
        days=grid.days,
        horizon=spec.horizon,
        demand=counts[:, : grid.history],
        open=is_open,
        covariates=covariates.covariate_values(demand, at, is_open, open_days.announced, encoding, spec),
        calendar=np.stack([_calendar_features(carried, grid.days, *pair) for pair in pairs]),
        calendar_group=group,
        statics=_codes(attributes, encoding, grid),
        encoding=encoding,
        calendar_names=calendar.NAMES,
        attributes=attributes,
        marks=_marks(
            open_days.announced, closed_weekdays.marks(is_off, spec, grid), () if carried else pairs, group, grid, ids
        ),
        peers=network.peers if network else None,
    )
    capped = capped_counts(panel.demand, knowledge, at, attributes, spec)
    return panel if capped is None else panel.with_capped(capped)


def usual_days(open_days: Openings, spec: Spec, network: NetworkFacts | None = None) -> tuple[Bools, Bools]:
    """Days closed only because of their weekday, and open days, (depots, days)."""
    habits = network.habits if network else None
    is_off = open_days.is_open & closed_weekdays.days_off(
        open_days.came, open_days.cities, spec, open_days.grid, habits
    )
    return is_off, open_days.is_open & ~is_off


def _words_once(demand: pd.DataFrame, spec: Spec) -> pd.DataFrame:
    """Convert covariates of words to categories, so that each distinct word is read once."""
    word_columns = [
        name for name in spec.calendar.known_future if name in demand and not covariates.numeric(demand[name])
    ]
    return demand.astype(dict.fromkeys(word_columns, "category")) if word_columns else demand


def _past_counts(demand: pd.DataFrame, at: Cells) -> Floats:
    """Counts of past days, (depots, days); NaN elsewhere."""
    grid = at.grid
    counts = at.spread(demand["demand"].to_numpy(), np.nan)
    counts[:, grid.history :] = np.nan
    if (grid.today <= grid.numbers[grid.history - 1]).any():
        counts[grid.numbers >= grid.today[:, None]] = np.nan
    return counts


def _declared_open(demand: pd.DataFrame, at: Cells, spec: Spec) -> opening_days.DeclaredOpen | None:
    """Open flag of the source, or None if it has none."""
    is_told = spec.demand.columns.open is not None or spec.demand.closed_values
    if not is_told or "open" not in demand:
        return None
    return at.spread(demand["open"].astype("boolean").to_numpy(np.int8, na_value=-1), -1, np.int8)


def _refused(quarantined: pd.DataFrame | None, grid: Grid) -> Bools:
    """Mark days with a rejected row, (depots, days)."""
    if quarantined is None or not len(quarantined):
        return np.zeros(grid.shape, np.bool_)
    return cells(quarantined, grid).spread(True, False, np.bool_)


def _words(quarantined: pd.DataFrame | None, grid: Grid) -> Bools | None:
    """Mark days on which all rejected rows have a word in place of the count, (depots, days)."""
    if quarantined is None or "is_word" not in quarantined or not quarantined["is_word"].any():
        return None
    is_word = quarantined["is_word"]
    return _refused(quarantined[is_word], grid) & ~_refused(quarantined[~is_word], grid)


def _attributes(depots: pd.DataFrame, spec: Spec, grid: Grid) -> dict[str, tuple[str, ...]]:
    """Word of each attribute per depot, "" if unknown."""
    if spec.depots is None:
        return {}
    table = depots.set_index("depot_id").reindex(grid.depots)
    return {
        name: tuple(table[name].fillna("").astype("str").tolist()) if name in table else ("",) * len(grid.depots)
        for name in spec.attributes
    }


def _labels(attributes: Mapping[str, tuple[str, ...]], spec: Spec) -> dict[str, tuple[str, ...]]:
    """Most frequent words of each static attribute."""
    labels = {}
    for name in spec.depots.static if spec.depots else ():
        count = pd.Series(attributes[name], dtype="str").replace("", None).value_counts()
        labels[name] = tuple(sorted(covariates.most_frequent(count, MAX_LABELS)))
    return labels


def _codes(attributes: Mapping[str, tuple[str, ...]], encoding: Encoding, grid: Grid) -> Ints:
    result = np.zeros((len(grid.depots), len(encoding.statics)), np.int32)
    for index, (name, labels) in enumerate(encoding.statics.items()):
        if name in attributes:
            result[:, index] = pd.Index(labels, dtype="str").get_indexer(pd.Index(attributes[name], dtype="str")) + 1
    return result


def _calendar_features(
    carried: Mapping[str, Any] | None, days: Days, country: str | None, subdivision: str | None
) -> Floats:
    if carried is None:
        return calendar.features(days, country, subdivision)
    return carried_calendars.features(carried, days, country, subdivision)


def holiday_calendars(scope: EventScope, spec: Spec, network: NetworkFacts | None = None) -> tuple[Pairs, Ints]:
    """Distinct (country, subdivision) pairs, those of the network if given, and each depot's
    position among them."""
    if not spec.calendar.holidays:
        return [(None, None)], np.zeros(len(scope.homes), np.int32)
    pairs = network.pairs if network and network.pairs is not None else distinct_homes(scope, spec)
    places = pd.MultiIndex.from_tuples(pairs)
    group = places.get_indexer(pd.MultiIndex.from_frame(scope.homes[_HOME])).astype(np.int32)
    return [(country or None, subdivision or None) for country, subdivision in pairs], group


def distinct_homes(scope: EventScope, spec: Spec) -> tuple[tuple[str, str], ...]:
    """Distinct countries and subdivisions of depots, sorted; empty if holidays are not used."""
    if not spec.calendar.holidays:
        return ()
    return tuple(scope.homes[_HOME].drop_duplicates().sort_values(_HOME).itertuples(index=False, name=None))


def _marks(
    announced: AnnouncedEvents,
    days_off: list[tuple[Mark, Ints]],
    pairs: Sequence[tuple[str | None, str | None]],
    group: Ints,
    grid: Grid,
    ids: tuple[str, ...],
) -> Marks:
    """Holidays, events and days off; holidays that differ by depot, and events, only for the days
    shown on a page."""
    first = grid.history - SHOWN_DAYS
    marks = announced.marks(grid, first)
    audiences = list(announced.audiences)
    for index, pair in enumerate(pairs):
        everyone = len(pairs) == 1
        names = calendar.holiday_names(grid.days if everyone else grid.days[max(first, 0) :], *pair)
        marks += [(Mark(day, "holiday", name), EVERYONE if everyone else len(audiences)) for day, name in names.items()]
        audiences.append(np.flatnonzero(group == index).astype(np.int32))
    marks += [(mark, len(audiences) + place) for place, (mark, _) in enumerate(days_off)]
    audiences += [rows for _, rows in days_off]
    return Marks(ids, tuple(audiences), tuple(marks))
