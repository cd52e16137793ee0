"""Fault injection: plant the mistakes of a real feed in simulated rows.

Duplicates, restated days, a negative count, a word for a count, a slip in a year, an unknown depot
and a gap: faults that the contract has to catch or tolerate. If a mistake replaces the true row,
that depot-day is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
import pandas as pd
from numpy.typing import NDArray

DUPLICATES, RESTATED, GAP = 12, 10, 9  # rows, rows, days
RESTATED_AFTER = 2  # days from the first export to the corrected one


@dataclass(frozen=True)
class FlawedFeed:
    """Rows of a feed with mistakes; its codes are positions in `ids` and `days`."""

    rows: pd.DataFrame  # depot, day, export: codes; orders: text
    ids: list[str]
    days: list[str]
    planted: pd.DataFrame  # flaw, depot, day, found


def plant(
    rows: pd.DataFrame, ids: list[str], steady: NDArray[np.int64], dates: list[date], random: np.random.Generator
) -> FlawedFeed:
    """Plant mistakes at random places; the rows are sorted by export and depot.

    `rows` hold codes: depot and day are positions in `ids` and `dates`, export is the day of the
    nightly export. Mistakes hit only `steady` depots (in business all the time) and spare the last
    seven days.
    """
    # the order of the draws is part of the recipe: another order gives other flaws from the same
    # seed
    gap_depot = int(random.choice(steady))
    gap = len(dates) - 50 + np.arange(GAP)
    usual = rows["depot"].isin(steady) & (rows["depot"] != gap_depot) & (rows["orders"] > 0)
    usual &= rows["day"].between(len(dates) // 5, len(dates) - 8)
    picked = np.sort(random.choice(np.flatnonzero(usual), DUPLICATES + RESTATED + 3, replace=False))
    shuffled = random.permutation(picked)
    twice, restated = np.sort(shuffled[:DUPLICATES]), np.sort(shuffled[DUPLICATES:-3])
    negative, text, typo = shuffled[-3:].tolist()
    depot, day, orders, export = (rows[name].to_numpy().copy() for name in ("depot", "day", "orders", "export"))
    final = orders[restated]
    early = (final * random.uniform(0.75, 0.95, RESTATED)).astype(orders.dtype)

    # the list of flaws, which the sample's README shows, is built before the rows change
    unknown = _unknown(ids)
    slip = f"{dates[day[typo]].year + 36}{dates[day[typo]].isoformat()[4:]}"
    stray_days, stray_orders = int(day[shuffled[0]]) + np.arange(2), np.array([41, 37])
    planted = [(name, ids[depot[k]], dates[day[k]].isoformat(), cell_text) for name, k, cell_text in (
        *(("duplicate", k, "the same row twice") for k in twice),
        *(("restated", k, f"{a}, then {b}") for k, a, b in zip(restated, early, final, strict=True)),
        ("negative", negative, str(-orders[negative])),
        ("text", text, "n/a?"),
        ("future", typo, slip),
    )]  # fmt: skip
    planted += [
        ("unknown depot", unknown, dates[k].isoformat(), str(n)) for k, n in zip(stray_days, stray_orders, strict=True)
    ]
    planted.append(("gap", ids[gap_depot], dates[gap[0]].isoformat(), f"no rows up to {dates[gap[-1]]}"))

    orders[restated], orders[negative] = early, -orders[negative]
    exported = ~((depot == gap_depot) & np.isin(day, gap))
    cells = orders.astype(str).astype(object)
    cells[text] = "n/a?"
    stated_day = day.copy()
    stated_day[typo] = len(dates)
    flawed = pd.DataFrame(
        {
            "depot": np.concatenate([depot[exported], depot[twice], depot[restated], [len(ids)] * 2]),
            "day": np.concatenate([stated_day[exported], day[twice], day[restated], stray_days]),
            "orders": np.concatenate([cells[exported], cells[twice], final.astype(str), stray_orders.astype(str)]),
            "export": np.concatenate([export[exported], export[twice], export[restated] + RESTATED_AFTER, stray_days]),
        }
    ).sort_values(["export", "depot"], kind="stable", ignore_index=True)
    listed = pd.DataFrame(planted, columns=["flaw", "depot", "day", "found"])
    return FlawedFeed(flawed, [*ids, unknown], [*(d.isoformat() for d in dates), slip], listed)


def _unknown(ids: list[str]) -> str:
    """Depot id after the last one, used by no depot."""
    prefix, number = ids[-1].split("-")
    return f"{prefix}-{'9' * len(number)}"
