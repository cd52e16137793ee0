"""Sites that change their id, and ids that change their site."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.core.knowledge import Finding
from forecaster.demand.panel.build import build
from forecaster.demand.panel.changed_sites import SiteChange, changed_sites, reused_ids, successors
from tests.demand.literal_knowledge import DEPOTS, knowledge, spec_of

NEWEST = date(2024, 3, 4)  # a Monday
WEEK = (1.0, 1.1, 0.9, 1.0, 1.2, 1.5, 0.4)
WHOLE = range(200)


def counts(days: Any, level: float, *, open_days: int = 7) -> np.ndarray:
    """Counts with a weekly rhythm on some of 200 days, only on the first `open_days` of each week."""
    of_all = [level * WEEK[day % 7] if day in days and day % 7 < open_days else np.nan for day in WHOLE]
    return np.array(of_all, np.float32)


def pairs(*depots: np.ndarray) -> list[tuple[int, int, int]]:
    of_depots = successors(np.stack(depots), np.ones(len(depots), np.bool_))
    return [(change.old, change.new, change.first - change.last) for change in of_depots]


def test_id_that_begins_where_another_ends_at_its_level_succeeds_it() -> None:
    assert pairs(counts(range(150), 100), counts(range(150, 200), 103), counts(WHOLE, 100)) == [(0, 1, 1)]


@pytest.mark.parametrize("lag", [1, 3, 7])
def test_days_may_lie_between_predecessor_and_successor(lag: int) -> None:
    assert pairs(counts(range(150), 100), counts(range(149 + lag, 200), 100), counts(WHOLE, 9)) == [(0, 1, lag)]


def test_few_days_of_the_new_id_are_compared_with_the_same_weekdays() -> None:
    new = counts(range(142, 147), 100)  # Wednesday to Sunday, one of them half as high again
    assert pairs(counts(range(139), 100), new, counts(WHOLE, 9)) == [(0, 1, 4)]


@pytest.mark.parametrize(
    "new",
    [
        counts(range(150, 200), 160),  # another level
        counts(range(140, 200), 100),  # side by side
        counts(range(170, 200), 100),  # weeks later
        counts(range(150, 153), 100),  # too few days to judge
    ],
)
def test_id_at_another_level_or_time_is_another_site(new: np.ndarray) -> None:
    assert pairs(counts(range(150), 100), new, counts(WHOLE, 100)) == []


def test_id_that_has_not_ended_has_no_successor() -> None:
    assert pairs(counts(range(194), 100), counts(range(194, 200), 100), counts(WHOLE, 9)) == []


def test_pairs_are_matched_by_nearest_level() -> None:
    ended = counts(range(150), 100), counts(range(150), 120)
    begun = counts(range(150, 200), 118), counts(range(150, 200), 101)
    assert pairs(*ended, *begun, counts(WHOLE, 5)) == [(0, 3, 1), (1, 2, 1)]


def test_id_that_returns_at_another_level_may_be_another_site() -> None:
    old, new = counts(range(80), 100), counts(range(150, 200), 30)
    [change] = reused_ids(np.stack([np.fmax(old, new), *[counts(WHOLE, 50)] * 3]))
    assert change == SiteChange(0, 0, 79, 150, pytest.approx(100), pytest.approx(30))


@pytest.mark.parametrize(
    ("until", "since", "level"),
    [(80, 150, 60), (80, 150, 190), (100, 155, 30), (80, 190, 30)],  # a similar level, a short gap, few days since
)
def test_id_that_returns_soon_or_at_its_level_is_the_same_site(until: int, since: int, level: float) -> None:
    assert reused_ids(np.stack([np.fmax(counts(range(until), 100), counts(range(since, 200), level))])) == []


def test_level_change_shared_by_all_depots_is_not_another_site() -> None:
    factor = np.where(np.arange(200) < 100, 1, 0.3).astype(np.float32)
    back = np.fmax(counts(range(80), 100), counts(range(150, 200), 100)) * factor
    assert reused_ids(np.stack([back, *[counts(WHOLE, 50) * factor] * 3])) == []


def found(folder: Path, demand: list[tuple[Any, ...]], **more: Any) -> tuple[Finding, ...]:
    known = knowledge(demand, **more)
    spec = spec_of(folder, depots=DEPOTS if "depots" in more else None)
    return changed_sites(known, build(known, spec), spec)


def rows(depot: str, first: date, last: date, level: float) -> list[tuple[Any, ...]]:
    days = [first + timedelta(days=day) for day in range((last - first).days + 1)]
    return [(depot, str(day), level + day.toordinal() % 3) for day in days]


RECODED = [
    *rows("Alder", date(2023, 12, 1), date(2024, 1, 31), 100),
    *rows("A-102", date(2024, 2, 1), NEWEST, 101),
    *rows("Cedar", date(2023, 12, 1), NEWEST, 40),
]


def test_finding_names_both_ids_and_the_key(tmp_path: Path) -> None:
    [finding] = found(tmp_path, RECODED)
    assert (finding.rule, finding.severity, finding.count) == ("successor", "warn", 1)
    assert finding.places == (("A-102", "2024-02-01"),)
    assert finding.message == (
        "depot A-102 begins on 2024-02-01, the day after Alder ends, at its level (about 101 a day, then 102): is it "
        "the same site? (depots.aliases); wanted one id a site: depots.aliases says which id became which, or a "
        "closing day that the former site ended"
    )


def test_declared_closing_day_suppresses_the_finding(tmp_path: Path) -> None:
    depots = [
        {"depot_id": name, "city": "", "country": "", "opened": None, "closed": day}
        for name, day in (("Alder", "2024-02-01"), ("A-102", None), ("Cedar", None))
    ]
    assert found(tmp_path, RECODED, depots=depots) == ()


def test_reused_id_gives_a_finding(tmp_path: Path) -> None:
    demand = [
        *rows("Alder", date(2023, 9, 1), date(2023, 11, 20), 100),
        *rows("Alder", date(2024, 2, 1), NEWEST, 20),
        *rows("Cedar", date(2023, 9, 1), NEWEST, 40),
    ]
    [finding] = found(tmp_path, demand)
    assert (finding.rule, finding.severity, finding.places) == ("reused_id", "warn", (("Alder", "2024-02-01"),))
    assert finding.message == (
        "depot Alder comes back on 2024-02-01, 73 days after its last count, at another level (about 101 a day, then "
        "21): is its id used again for another site?; wanted an id of its own for each site"
    )
