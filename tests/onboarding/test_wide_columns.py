"""Columns of a wide table that are depots: decided by values where the names suggest otherwise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from forecaster.onboarding.columns import Column
from forecaster.onboarding.description import wide
from forecaster.onboarding.description.counts import SiteRows

DAYS = pd.Series(pd.date_range("2026-01-05", periods=70))
WEEK = np.array([1.0, 1.1, 1.1, 1.2, 1.4, 0.8, 0.4])


def counts(level: int) -> np.ndarray:
    return np.random.default_rng(level).poisson(level * np.tile(WEEK, 10))


def looked_at(**values: np.ndarray) -> tuple[list[str], dict[str, str]]:
    columns = {name.replace("_", " "): Column(name, pd.Series(each)) for name, each in values.items()}
    chosen = wide.choose(columns, list(columns), SiteRows("", DAYS, DAYS.astype("str")))
    assert chosen is not None
    assert chosen.question is None
    return list(chosen.names), dict(chosen.others)


@pytest.mark.parametrize("name", ["NO", "ID", "Nr 3", "Weeks", "Holiday Inn", "Total Wine"])
def test_site_is_a_depot_whatever_its_name(name: str) -> None:
    depots, others = looked_at(**{"Nord": counts(50), "Ost": counts(80), name.replace(" ", "_"): counts(60)})
    assert depots == ["Nord", "Ost", name]
    assert others == {}


def test_sites_that_are_all_numbered_are_depots() -> None:
    depots, _ = looked_at(Nr_1=counts(40), Nr_2=counts(50), Nr_3=counts(60))
    assert depots == ["Nr 1", "Nr 2", "Nr 3"]


def test_sums_and_measures_next_to_counts_are_not_depots() -> None:
    north, east = counts(50), counts(80)
    random = np.random.default_rng(1)
    depots, others = looked_at(
        Nord=north,
        Total=north + east,
        Ost=east,
        temperature=random.integers(-3, 28, 70),
        week=DAYS.dt.isocalendar().week.to_numpy(),
        index=np.arange(70),
        forecast=north + 2,
    )
    assert depots == ["Nord", "Ost"]
    assert others == {
        "Total": "the sum of the others",
        "temperature": "by its name",
        "week": "by its name",
        "index": "by its name",
        "forecast": "by its name",
    }


def test_one_series_is_kept_next_to_correlated_columns() -> None:
    depots, others = looked_at(orders=counts(60), staff=counts(20), Nr=counts(50))
    assert depots == ["orders"]
    assert others == {"staff": "by its name", "Nr": "by its name"}


@pytest.mark.parametrize(
    "name", ["cost", "Kosten", "rain", "temperature", "forecast_total", "Total_all", "total last week"]
)
def test_columns_that_follow_the_depots_counts_are_not_depots(name: str) -> None:
    sites = {"Nord": counts(50), "Ost": counts(80), "West": counts(60)}
    whole = sum(sites.values(), counts(40))  # including a fourth one that is not in the file
    depots, others = looked_at(**sites, **{name.replace(" ", "_"): whole})
    assert depots == [*sites]
    assert others == {name.replace("_", " "): "by its name"}
