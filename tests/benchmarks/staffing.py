"""Measure what our rosters would have cost in the last eight weeks beside their rivals', and how fast vans are placed.

python -m tests.benchmarks.staffing [--datasets harbor_fleet,favorita_transactions,…]

Crews, costs and vans of the real datasets are made up: as many orders a driver as give a usual depot some ten drivers,
and no fleet. Models are trained with `preset: quick`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from datetime import UTC, date, datetime

import numpy as np

from forecaster.config import Spec, Staffing, load
from forecaster.core.forecast import Forecast
from forecaster.core.progress import NightProgress
from forecaster.demand.history.past_panels import Past
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.panel import build
from forecaster.evaluation.backtest import cutoffs, folds
from forecaster.operations.leaderboard import board
from forecaster.staffing import cost_backtest, newsvendor
from forecaster.staffing.cost_backtest import Bills
from forecaster.staffing.rosters import van_pool
from forecaster.staffing.vans import VanPool
from forecaster.training import fit_candidate
from tests.benchmarks import fair_vans, real
from tests.benchmarks.report import ROOT, Figure, below, tell

SAMPLE = "harbor_fleet"
ORDERS = {"favorita_transactions": 150, "recruit_restaurants": 4, "rossmann": 60, "muenster_bike_counters": 300}
NO_LIMIT = "harbor_fleet without its vans"
SHOWN = (SAMPLE, NO_LIMIT, "favorita_transactions", "recruit_restaurants")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(SHOWN))
    figures = [figure for depots in (64, 5_000) for figure in speed(depots)]
    figures += fair_vans.exactness()
    datasets = parser.parse_args().datasets.split(",")
    with tempfile.TemporaryDirectory() as folder:
        for name in datasets:
            bills = replayed(name, folder)
            print(f"\n{name}")
            print("\n".join(bills.lines()), flush=True)
            figures += cost_figures(name, bills)
        figures += shared_vans(folder)
    tell("staffing", figures)


def replayed(name: str, folder: str) -> Bills:
    """The bills of one dataset's last eight weeks, by the way of `forecaster backtest --staffing`."""
    spec, now = _spec(name)
    quick = spec.training.model_copy(update={"preset": "quick"})
    settings = {"state": folder, "lake": f"{folder}/{name}", "training": quick}
    spec = cost_backtest.holdout_spec(spec.model_copy(update=settings), None, staffing=True)
    ingest(spec, now=now)
    progress = NightProgress()
    with progress.live_bar():
        bills = board(spec, as_of=now, progress=progress, staffing=True).rosters
    assert bills is not None
    return bills


def shared_vans(folder: str) -> list[Figure]:
    """How the sample's vans are shared on the scarce days of the last eight weeks, beside the linear optimum."""
    spec, now = _spec(SAMPLE)
    quick = spec.training.model_copy(update={"preset": "quick"})
    settings = {"state": folder, "lake": f"{folder}/{SAMPLE}", "training": quick}
    spec = cost_backtest.holdout_spec(spec.model_copy(update=settings), None, staffing=True)
    knowledge = read_as_of(spec, as_of=now)
    panel = build.build(knowledge, spec)
    panel_at, fleet = Past(knowledge, panel, spec), van_pool(panel, spec)
    candidate = fit_candidate.train_and_calibrate(panel, spec, panel_at=panel_at)
    predict = fit_candidate.rolling_forecaster(candidate, panel, spec, panel_at=panel_at)
    replayed_folds = folds(predict, panel, cutoffs(panel, spec.backtest.days, spec.backtest.every), panel_at)
    assert spec.staffing is not None
    assert fleet is not None
    pair = fair_vans.before_and_after([fold.forecast for fold in replayed_folds], spec.staffing, fleet)
    return fair_vans.fairness_figures(SAMPLE, *pair)


def cost_figures(name: str, bills: Bills) -> list[Figure]:
    """The costs, and ours over the cheapest rival's that does not know the future."""
    costs = {bill.roster: bill.cost for bill in bills.bills}
    rivals = [cost for roster, cost in costs.items() if roster not in (cost_backtest.OURS, cost_backtest.FORESIGHT)]
    ratio = costs[cost_backtest.OURS] / min(rivals)
    return [
        *(Figure(f"{name}: cost, {bill.roster}", bill.cost, "money", n=bill.days) for bill in bills.bills),
        below(f"{name}: our cost over the cheapest rival's", ratio, "ratio", 1),
    ]


def speed(depots: int) -> list[Figure]:
    """Seconds for a week's rosters, alone and with two vans for three that are wanted, homes and loans."""
    random = np.random.default_rng(0)
    levels = tuple(tenth / 10 for tenth in range(1, 10))
    orders = np.sort(random.gamma(4, 100, (depots, 7, len(levels))), axis=-1).astype(np.float32)
    days = tuple(date(2026, 1, day) for day in range(2, 9))
    forecast = Forecast(
        tuple(map(str, range(depots))), date(2026, 1, 1), days, levels, orders, np.ones((depots, 7), bool)
    )
    costs = Staffing(orders_per_driver=45, cost_short=38, cost_idle=22)
    begun = time.perf_counter()
    drivers = newsvendor.roster(forecast, costs).drivers
    alone = time.perf_counter() - begun
    total = int(drivers.sum(axis=0).mean() * 2 / 3)
    home = random.multinomial(total, np.full(depots, 1 / depots)).astype(np.int32)
    begun = time.perf_counter()
    newsvendor.roster(forecast, costs, VanPool(total, random.integers(0, max(depots // 20, 1), depots), home))
    placed = time.perf_counter() - begun
    return [
        below(f"rosters of {depots:,} depots for 7 days", alone, "s", 1),
        below(f"the same with {total:,} vans and loans", placed, "s", 1 if depots < 100 else 2),
    ]


def _spec(name: str) -> tuple[Spec, datetime]:
    if name in (SAMPLE, NO_LIMIT):
        spec, now = load(ROOT / "data" / SAMPLE / "pipeline.yaml"), datetime.fromisoformat("2026-11-01T03:15:00-05:00")
        assert spec.staffing is not None
        costs = spec.staffing if name == SAMPLE else spec.staffing.model_copy(update={"vans": None})
        return spec.model_copy(update={"staffing": costs}), now
    costs = Staffing(orders_per_driver=ORDERS[name], cost_short=38, cost_idle=22)
    return real.spec_of(name).model_copy(update={"staffing": costs}), datetime.now(UTC)


if __name__ == "__main__":
    main()
