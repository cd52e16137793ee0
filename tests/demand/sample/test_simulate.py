"""The Harbor Fleet sample: reproducible, as described in its README, and like a real feed."""

from __future__ import annotations

import re
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.config import load
from forecaster.demand.sample.simulate import Sample, simulate, write

DATA = Path(__file__).parents[3] / "data"
COMMITTED = DATA / "harbor_fleet"
FILES = ("demand.csv", "depots.csv", "events.csv")
END = date(2026, 10, 31)


@pytest.fixture(scope="module")
def sample() -> Sample:
    return simulate()


@pytest.fixture(scope="module")
def clean() -> Sample:
    return simulate(flaws=False)


@pytest.fixture(scope="module")
def feed() -> pd.DataFrame:
    """demand.csv of the repository, as text."""
    return pd.read_csv(COMMITTED / "demand.csv", dtype=str, keep_default_na=False)


def _bytes(sample: Sample, folder: Path) -> list[bytes]:
    write(sample, folder)
    return [(folder / name).read_bytes() for name in FILES]


def _wide(sample: Sample) -> pd.DataFrame:
    text = sample.demand.astype({"depot": str, "day": str})
    return text.pivot(index="depot", columns="day", values="orders").astype(float)


def test_the_same_seed_writes_the_same_bytes_and_another_seed_does_not(tmp_path: Path) -> None:
    small = {"end": date(2025, 3, 1), "days": 90, "depots": 12}
    first = _bytes(simulate(**small, seed=1), tmp_path / "first")
    assert _bytes(simulate(**small, seed=1), tmp_path / "second") == first
    assert all(a != b for a, b in zip(_bytes(simulate(**small, seed=2), tmp_path / "third"), first, strict=True))


def test_committed_files_equal_the_simulators_output(sample: Sample, tmp_path: Path) -> None:
    for name, written in zip(FILES, _bytes(sample, tmp_path), strict=True):
        assert (COMMITTED / name).read_bytes() == written, name
        assert b"\r" not in written


def test_there_are_64_depots_in_three_cities_with_120_vans_over_18_months(feed: pd.DataFrame) -> None:
    depots = pd.read_csv(COMMITTED / "depots.csv", dtype={"vans": int}, keep_default_na=False)
    assert len(depots) == depots["depot"].nunique() == 64
    assert dict(depots.groupby("city")["subdivision"].unique().str.join("")) == {
        "Baltimore": "MD",
        "Boston": "MA",
        "New York": "NY",
    }
    assert depots["vans"].sum() == depots.loc[depots["closed"] == "", "vans"].sum() == 120
    assert (depots["vans"] > 0).equals(depots["closed"] == "")
    assert feed.loc[feed["day"] <= END.isoformat(), "day"].nunique() >= 548


def test_rows_are_in_the_order_of_their_exports(feed: pd.DataFrame) -> None:
    at = pd.to_datetime(feed["recorded_at"], utc=True)
    assert list(feed.assign(at=at).sort_values(["at", "depot"], kind="stable").index) == list(range(len(feed)))
    local = at.dt.tz_convert("America/New_York")
    assert set(local.dt.strftime("%H:%M")) == {"01:30"}
    assert feed["recorded_at"].iloc[-1] == "2026-11-01T01:30:00-04:00"


def test_twelve_rows_are_exact_duplicates(feed: pd.DataFrame, sample: Sample) -> None:
    duplicates = feed[feed.duplicated()]
    assert _places(duplicates) == _planted(sample, "duplicate")
    assert len(duplicates) == 12


def test_ten_days_are_restated_upwards_two_days_later(feed: pd.DataFrame, sample: Sample) -> None:
    once = feed.drop_duplicates()
    again = once[once.duplicated(["depot", "day"], keep=False)].sort_values(["depot", "day"], kind="stable")
    first, last = again.iloc[::2].reset_index(drop=True), again.iloc[1::2].reset_index(drop=True)
    assert _places(first) == _places(last) == _planted(sample, "restated")
    assert len(first) == 10
    assert (last["orders"].astype(int) > first["orders"].astype(int)).all()
    apart = pd.to_datetime(last["recorded_at"], utc=True) - pd.to_datetime(first["recorded_at"], utc=True)
    assert set(apart.dt.total_seconds() / 3600) <= {47.0, 48.0, 49.0}  # clocks may change in between


def test_one_count_is_negative_and_one_is_text_and_both_days_are_lost(feed: pd.DataFrame, sample: Sample) -> None:
    for flaw, pattern in (("negative", r"-\d+"), ("text", r"n/a\?")):
        flawed = feed[feed["orders"].str.fullmatch(pattern)]
        assert _places(flawed) == _planted(sample, flaw)
        (place,) = _places(flawed)
        assert [(d, k) for d, k in zip(feed["depot"], feed["day"], strict=True) if (d, k) == place] == [place]
    assert (~feed["orders"].str.fullmatch(r"\d+")).sum() == 2


def test_one_date_is_36_years_ahead_and_its_real_day_is_lost(feed: pd.DataFrame, sample: Sample) -> None:
    flawed = feed[feed["day"] > END.isoformat()]
    ((depot, meant),) = _planted(sample, "future")
    assert list(flawed["day"]) == [f"2062{meant[4:]}"]
    assert list(flawed["depot"]) == [depot]
    assert flawed["recorded_at"].iloc[0].startswith((date.fromisoformat(meant) + timedelta(1)).isoformat())
    assert (depot, meant) not in _places(feed)


def test_two_rows_name_a_depot_that_does_not_exist(feed: pd.DataFrame, sample: Sample) -> None:
    flawed = feed[~feed["depot"].isin(sample.depots["depot"])]
    assert list(flawed["depot"]) == ["NYC-99", "NYC-99"]
    assert _places(flawed) == _planted(sample, "unknown depot")


def test_one_depot_has_a_gap_of_nine_days_and_nothing_else_is_missing(
    feed: pd.DataFrame, sample: Sample, clean: Sample
) -> None:
    ((depot, start),) = _planted(sample, "gap")
    gap = {(depot, (date.fromisoformat(start) + timedelta(k)).isoformat()) for k in range(9)}
    assert _places(clean.demand) - _places(feed) == gap | _planted(sample, "future")


def test_without_flaws_every_day_in_business_has_one_row_and_a_count(clean: Sample) -> None:
    assert clean.planted.empty
    assert not clean.demand.duplicated(["depot", "day"]).any()
    assert clean.demand["orders"].min() == 0
    assert len(clean.demand) == 62 * 549 + 35 + (549 - 121)  # steady depots, the young one, the closed one


def test_one_depot_opened_five_weeks_ago_and_one_closed_four_months_ago(feed: pd.DataFrame) -> None:
    depots = pd.read_csv(COMMITTED / "depots.csv", keep_default_na=False)
    opened, closed = depots[depots["opened"] != ""], depots[depots["closed"] != ""]
    assert [list(opened["opened"]), list(closed["closed"])] == [["2026-09-27"], ["2026-07-03"]]
    assert feed.loc[feed["depot"] == opened["depot"].item(), "day"].agg(["min", "max"]).tolist() == [
        "2026-09-27",
        "2026-10-31",
    ]
    assert feed.loc[feed["depot"] == closed["depot"].item(), "day"].max() == "2026-07-02"


def test_planned_closures_apply_to_one_depot_and_have_no_orders(clean: Sample) -> None:
    closures = clean.events[clean.events["kind"] == "closure"]
    past, future = closures[closures["date"] <= END.isoformat()], closures[closures["date"] > END.isoformat()]
    orders = clean.demand.astype({"depot": str, "day": str}).set_index(["depot", "day"])["orders"]
    assert (orders.loc[list(zip(past["depot_id"], past["date"], strict=True))] == 0).all()
    assert (orders == 0).sum() == len(past)
    assert len(future) >= 1


@pytest.mark.parametrize("end", [END, date(2024, 2, 29), date(2031, 12, 25)])
def test_promotions_of_the_next_seven_days_are_announced_in_every_city(end: date) -> None:
    sample = simulate(end=end, days=120, depots=12)
    ahead = sample.events[sample.events["date"].between(*((end + timedelta(k)).isoformat() for k in (1, 7)))]
    assert set(ahead.loc[ahead["kind"] == "promo", "city"]) == {"Baltimore", "Boston", "New York"}
    assert sample.events["date"].max() <= (end + timedelta(21)).isoformat()
    assert sample.demand["recorded_at"].max().startswith((end + timedelta(1)).isoformat())


def test_promotions_raise_a_citys_orders_and_fall_on_every_weekday(clean: Sample) -> None:
    promotions = clean.events[(clean.events["kind"] == "promo") & (clean.events["date"] <= END.isoformat())]
    assert set(pd.to_datetime(promotions["date"]).dt.day_of_week) == set(range(7))
    days = set(promotions.loc[promotions["city"] == "Boston", "date"])
    wide = _wide(clean)
    boston = wide[wide.index.str.startswith("BOS")].sum()
    weekday = pd.to_datetime(boston.index).day_of_week
    on = boston.index.isin(list(days))
    lift = boston[on] / boston[~on].groupby(weekday[~on]).mean()[weekday[on]].to_numpy()
    assert 1.2 < lift.mean() < 1.5


def test_expected_orders_have_less_than_half_the_error_of_last_week(clean: Sample) -> None:
    orders, expected = _wide(clean), clean.truth.astype({"depot": str, "day": str})
    mean = expected.pivot(index="depot", columns="day", values="expected")[orders.columns].to_numpy()
    actual, week_before = orders.to_numpy()[:, -30:], orders.to_numpy()[:, -37:-7]
    scored = (actual > 0) & (week_before > 0)
    wape = [np.abs(actual - guess)[scored].sum() / actual[scored].sum() for guess in (mean[:, -30:], week_before)]
    (sentence,) = _readme("WAPE of")
    assert [f"{100 * share:.1f}" for share in wape] == re.findall(r"(\d+\.\d) %", sentence)
    assert 2 * wape[0] < wape[1]


def test_noise_is_slightly_above_poisson_around_truth_and_weather(clean: Sample) -> None:
    orders = _wide(clean)
    mean = clean.truth.astype({"depot": str, "day": str}).pivot(index="depot", columns="day", values="expected")
    ratio = (orders / mean[orders.columns]).where(orders > 0)
    city = ratio.groupby(ratio.index.str[:3]).transform("mean")  # the weather, estimated from the city
    spread = ((ratio / city - 1) ** 2 * mean[orders.columns]).to_numpy()
    assert 1.0 < np.nanmean(spread) < 1.6
    assert 0.03 < np.nanstd(city.to_numpy()) < 0.06


def test_two_thousand_depots_can_be_simulated_at_once() -> None:
    sample = simulate(days=400, depots=2000, flaws=False)
    assert sample.depots["depot"].is_unique
    assert sample.depots["vans"].sum() == 3750
    assert len(sample.demand) == 1998 * 400 + 35 + (400 - 121)
    assert 60 < sample.demand["orders"].median() < 400


def test_rejects_a_too_small_sample() -> None:
    with pytest.raises(ValueError, match="found 7 depots and 549 days, wanted at least 8 depots and 60 days"):
        simulate(depots=7)
    assert len(simulate(depots=8, days=60).planted) == 28


def test_the_readme_lists_every_planted_flaw(sample: Sample) -> None:
    listed = [re.sub("`", "", line) for line in _readme("|")]
    for row in sample.planted.itertuples():
        assert f"| {row.flaw} | {row.depot} | {row.day} | {row.found} |" in listed


@pytest.mark.parametrize("name", ["rossmann", "favorita_transactions", "recruit_restaurants"])
def test_the_pipeline_files_of_real_datasets_load(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FORECASTER_DATASETS", str(tmp_path))
    spec = load(DATA / "real" / f"{name}.yaml")
    assert spec.name == name
    assert spec.path(spec.demand.source.path) == tmp_path / f"{name}.parquet"
    assert spec.demand.recorded == "next_day"
    assert spec.paths.folder == DATA.parent / "var" / name
    assert "open" not in spec.calendar.known_future


def _places(rows: pd.DataFrame) -> set[tuple[str, str]]:
    return set(zip(rows["depot"], rows["day"], strict=True))


def _planted(sample: Sample, flaw: str) -> set[tuple[str, str]]:
    return _places(sample.planted[sample.planted["flaw"] == flaw])


def _readme(part: str) -> list[str]:
    return [line for line in (COMMITTED / "README.md").read_text("utf-8").splitlines() if part in line]
