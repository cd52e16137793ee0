"""Survey of all depots by map and reduce over groups: combine what each group reports about its own
depots.

Four rounds, each a fan over the groups: existing depots and known days; closed weekdays of cities;
days with a feed (`demand.missing: zero`); and peers of new depots. The result of a round is small:
ids, sums of counts per city and day, two numbers per depot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from forecaster.core.imputation import cold_start
from forecaster.core.parallel import Fan
from forecaster.demand import readings
from forecaster.demand.history import aliases
from forecaster.demand.history import shuffle as shuffles
from forecaster.demand.history.point_in_time import KEYS, current_rows, frame
from forecaster.demand.history.shuffle import Shuffle
from forecaster.demand.panel import grid, opening_days
from forecaster.demand.panel.network_facts import NetworkFacts, summed
from forecaster.errors import NoUsableData
from forecaster.lake import Lake
from forecaster.publishing.forecast import ModelChoice
from forecaster.publishing.groups import group_work
from forecaster.publishing.groups.group_work import DepotGroup
from forecaster.serving import totals
from forecaster.serving.totals import Group

SHARES = 64  # maximum number of parts in which the lake is sorted


@dataclass(frozen=True)
class Survey:
    """All depots of a network by groups, and the facts about all of them."""

    shuffle: Shuffle
    groups: tuple[DepotGroup, ...]
    facts: NetworkFacts
    totals: tuple[Group, ...]  # values of each level with several values
    cold: tuple[str, ...]  # depots on which the model was not trained
    strangers: tuple[str, ...]  # those without known attributes, too


def survey(shuffle: Shuffle, choice: ModelChoice, size: int, fan: Fan, on_step: Callable[[str], None]) -> Survey:
    """Sort the lake's readings, and survey all depots; a group has `size` depots, rounded to whole
    chunks.

    Raises NoUsableData if nothing is known by the instant, BundleError if the bundle is unusable.
    """
    on_step("ids of depots")
    of = max(1, min(SHARES, Lake.of(shuffle.spec).pieces("demand", version=shuffle.versions["demand"])))
    last_days = fan(partial(shuffles.share_ids, shuffle, number, of) for number in range(of))
    last_counts = [day for day in last_days if day is not None]
    if not last_counts:
        raise _nothing(shuffle)
    shuffle = replace(shuffle, cutoff=shuffles.archived(shuffle.spec, last_counts))
    with_readings = shuffles.ids_with_readings(shuffle)
    depots, former = _depots(shuffle)
    declared = readings.arrow_words(depots["depot_id"])
    current = shuffles.order_ids(shuffle, pa.concat_arrays([with_readings, declared]))
    on_step("readings in order of depots")
    writing = (partial(shuffles.write_share, shuffle, number, of) for number in range(of))
    fan(chain([partial(shuffles.write_depots, shuffle)], writing))
    facts = _first_facts(shuffle, with_readings, depots, former)
    size = max(size // totals.CHUNK, 1) * totals.CHUNK
    groups = tuple(_runs(current, np.arange(0, len(current), size)))
    on_step("days")
    observations = fan(partial(group_work.see, shuffle, facts, group) for group in groups)
    spans = [of_group.span for of_group in observations if of_group.span is not None]
    if not spans:
        raise _nothing(shuffle)
    first, last = min(span[0] for span in spans), max(span[1] for span in spans)
    facts = replace(facts, first_day=first, last_day=last)
    starts = _starts(observations, last, size, facts.has_depot_table)
    return _with_facts(shuffle, facts, tuple(_runs(current, starts)), choice, fan, on_step)


def _with_facts(
    shuffle: Shuffle,
    facts: NetworkFacts,
    groups: tuple[DepotGroup, ...],
    choice: ModelChoice,
    fan: Fan,
    on_step: Callable[[str], None],
) -> Survey:
    """Run the rounds that need the depots and days of the network."""
    on_step("weekdays")
    days = fan(partial(group_work.habits, shuffle, facts, group) for group in groups)
    pairs = tuple(sorted({pair for of_group in days for pair in of_group.pairs}))
    facts = replace(facts, habits=summed(of_group.habits for of_group in days), pairs=pairs)
    if shuffle.spec.demand.missing == "zero":
        on_step("days of the feed")
        feed = sum(fan(partial(group_work.feed, shuffle, facts, group) for group in groups))
        facts = replace(facts, has_feed=opening_days.has_feed(np.asarray(feed)))
    on_step("peers of young depots")
    group_data = fan(partial(group_work.stand, shuffle, facts, group, choice) for group in groups)
    has_cities = shuffle.spec.depots is not None and "city" in shuffle.spec.attributes
    network = cold_start.DepotStanding(
        *(np.concatenate(part) for part in zip(*(s.standing for s in group_data), strict=True))
    )
    cities = [city for of_group in group_data for city in of_group.cities]
    peers = cold_start.choose_peers(network, cities if has_cities else None)
    ends = np.cumsum([len(of_group.cities) for of_group in group_data])
    facts = replace(facts, peers=_learn_peers(shuffle, groups, ends, peers, network.level))
    groups_of: dict[str, set[Group]] = {}
    for group in chain.from_iterable(of_group.totals for of_group in group_data):
        groups_of.setdefault(group[0], set()).add(group)
    return Survey(
        shuffle,
        groups,
        facts,
        tuple(group for of_level in groups_of.values() if len(of_level) > 1 for group in sorted(of_level)),
        tuple(depot for of_group in group_data for depot in of_group.cold),
        tuple(depot for of_group in group_data for depot in of_group.strangers),
    )


def _learn_peers(
    shuffle: Shuffle, groups: Sequence[DepotGroup], ends: NDArray[Any], peers: cold_start.ChosenPeers, level: Any
) -> cold_start.Peers:
    """Learn the values that new depots take from their peers, from the files of the peers' groups."""

    def of(rows: NDArray[np.intp]) -> tuple[Any, Any, dict[str, list[str]]]:
        parts, where = [], np.searchsorted(ends, rows, side="right")
        for place in np.unique(where):
            start = ends[place - 1] if place else 0
            parts.append(group_work.days_of(shuffle, groups[place], rows[where == place] - start))
        demand, open_ = (np.concatenate([part[axis] for part in parts]) for axis in (0, 1))
        return demand, open_, {name: [w for part in parts for w in part[2][name]] for name in parts[0][2]}

    if not len(peers.rows):
        return cold_start.Peers(peers.limit, np.zeros(0), {}, {})
    everyone = cold_start.ChosenPeers(peers.limit, np.arange(len(peers.rows)), {})
    values = cold_start.learn_peers(everyone, level[peers.rows], of(peers.rows)[2], lambda rows: of(rows)[:2])
    profiles = cold_start.learn_peers(peers, level, {}, lambda rows: of(rows)[:2]).profiles
    return values._replace(profiles=profiles)


def _depots(shuffle: Shuffle) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ids and zones of the depots source, including former ids; and former ids with the current
    ones."""
    lake, names = Lake.of(shuffle.spec), ["depot_id", "opened", "closed", "timezone", "retracted", "recorded_at"]
    tables = {
        name: current_rows(frame(lake, name, version=shuffle.versions[name], until=shuffle.as_of, columns=columns), key)
        for name, key, columns in (("depots", KEYS["depots"], names), ("aliases", KEYS["aliases"], None))
    }
    return tables["depots"], tables["aliases"]


def _first_facts(shuffle: Shuffle, ids: pa.Array, depots: pd.DataFrame, former: pd.DataFrame) -> NetworkFacts:
    """Determine the day that is over for half of the depots with readings, each in its own zone."""
    nothing = pd.DataFrame({"depot_id": pd.Categorical([]), "date": pd.Series([], dtype="datetime64[s]"), "demand": []})
    _, by_current_id = aliases.apply(nothing, depots, former)
    current = aliases.current(pd.Series(ids.to_pandas(), dtype="str"), former).drop_duplicates()
    zones = by_current_id.set_index("depot_id")["timezone"].reindex(current).fillna(shuffle.spec.timezone)
    votes = {str(zone): count for zone, count in zones.value_counts().items()}
    half_over = grid.half_over(votes, shuffle.spec, shuffle.as_of)
    return NetworkFacts(half_over, len(by_current_id) > 0)


def _starts(observations: Sequence[group_work.SeenDepots], last: int, size: int, has_table: bool) -> NDArray[np.int64]:
    """Positions at which groups of `size` panel depots begin."""
    observed = [of_group.observed for of_group in observations]
    if has_table:
        observed += [of_group.declared[of_group.closed > last] for of_group in observations]
    starts = np.unique(np.concatenate(observed))[::size]
    starts[0] = 0
    return starts


def _runs(current: pa.Array, starts: NDArray[np.int64]) -> Iterator[DepotGroup]:
    """Groups that begin near these positions: former ids stay with their depot."""
    begin = []
    for start in starts.tolist():
        while start and current[start - 1] == current[start]:
            start -= 1
        begin.append(start)
    for number, (first, last) in enumerate(pairwise([*sorted({*begin}), len(current)])):
        yield DepotGroup(number, first, last)


def _nothing(shuffle: Shuffle) -> NoUsableData:
    day = shuffle.as_of.astimezone(shuffle.spec.zone).date()
    return NoUsableData(f"no demand is known of any day before {day}; wanted at least one counted day to start from")
