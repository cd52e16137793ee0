"""A backtest gives the same result with any runner: this thread, several threads, or processes of a
cluster."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import dask
import distributed  # noqa: F401  before any of its settings is changed
import numpy as np
import pytest

from forecaster.config import Spec
from forecaster.core.forecast import Scores
from forecaster.core.parallel import Fan, in_turn
from forecaster.errors import MissingExtra, TimeLimitExceeded
from forecaster.serving import totals
from forecaster.serving.fallback import seasonal_naive
from forecaster.training import backtest
from tests.flows import worker_calls
from tests.panels import LEVELS, panel
from tests.publishing.groups import fleet

pytestmark = pytest.mark.usefixtures("prefect")

DECLARED = ("prophet", "lightgbm")


def spec(execution: Mapping[str, Any]) -> Spec:
    return Spec.model_validate(
        {
            "name": "t",
            "demand": {"source": {"kind": "csv", "path": "demand.csv"}},
            "model": {"quantiles": LEVELS},
            "backtest": {"days": 14, "baselines": DECLARED},
            "execution": execution,
        }
    )


def backtested(declared: Spec, fan: Fan) -> dict[str, Scores]:
    history: Any = panel(2, 80, 7)
    ours = {backtest.CANDIDATE: partial(seasonal_naive, levels=LEVELS)}
    scores, troubles = backtest.backtest(ours, None, history, None, declared, fan=fan)  # type: ignore[arg-type]
    assert troubles == []
    return scores


def from_a_task(fan: Fan, calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Return the results of calls submitted from within a task, as in a run; the task has a value
    that cannot be pickled."""
    from prefect import task
    from prefect.cache_policies import NO_CACHE

    @task(cache_policy=NO_CACHE, persist_result=False)
    def step(night: object) -> list[Any]:
        return fan(calls)

    return step(threading.local())


@cache
def alone() -> dict[str, Scores]:
    return backtested(spec({}), in_turn)


def same(ours: dict[str, Scores], other: dict[str, Scores]) -> None:
    """Compare bit by bit, in the same order."""
    assert list(ours) == list(other)
    assert set(DECLARED) < set(ours)
    for name, scores in ours.items():
        assert scores.metrics == other[name].metrics
        for fold, again in zip(scores.folds, other[name].folds, strict=True):
            assert fold.forecast.quantiles.tobytes() == again.forecast.quantiles.tobytes()
            np.testing.assert_array_equal(fold.actuals, again.actuals)


def test_two_threads_give_the_same_result_as_one() -> None:
    from flows import runners

    declared, troubles = spec({"runner": "threads", "workers": 2}), list[str]()
    with runners.open_fan(declared, troubles.append) as fan:
        same(backtested(declared, fan), alone())
        assert fan(partial(int, number) for number in range(9)) == list(range(9))
    assert troubles == []


@pytest.mark.long
def test_two_dask_processes_give_the_same_result_despite_killed_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows import runners
    from flows.orchestration import dask_workers, grouped_prediction

    monkeypatch.setattr(totals, "CHUNK", fleet.AT_A_TIME)
    several, marker, smaller = fleet.build(tmp_path / "fleet"), tmp_path / "killed", list[str]()
    whole = fleet.whole(several)
    declared, troubles = spec({"runner": "dask", "workers": 2}), list[str]()
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        runners.open_fan(declared, troubles.append) as fan,
    ):
        same(backtested(declared, fan), alone())
        assert os.getpid() not in from_a_task(fan, [os.getpid, os.getpid])

        def deadly(calls: Iterable[Callable[[], Any]], /) -> list[Any]:
            fatal = (partial(worker_calls.too_large_above, fleet.AT_A_TIME + 1, call) for call in calls)
            return fan(partial(worker_calls.after_dying_once, marker, call) for call in fatal)

        def publish(depots: int) -> fleet.Outcome:
            return fleet.by_groups(several, deadly, depots)

        grouped = grouped_prediction.by_smaller_groups(publish, 2 * fleet.AT_A_TIME, smaller.append)
        fleet.same(whole, grouped)
        monkeypatch.setattr(dask_workers, "LOOK", 0.1)
        monkeypatch.setattr(dask_workers, "STILL", 0.5)
        assert {*fan([worker_calls.pauses_at] * 4)} == {False}
        # a worker killed before may still be restarting
        with pytest.raises(TimeLimitExceeded, match=r"at work for 0 s, all [12] are paused"):
            fan([worker_calls.pause] * 8)
    assert int(marker.read_text("utf-8")) != os.getpid()
    assert troubles == []
    [message] = smaller
    assert message.startswith(f"groups were made smaller, of {fleet.AT_A_TIME} depots: 2 workers of ")


@pytest.mark.long
def test_reports_an_unavailable_cluster_and_works_sequentially(monkeypatch: pytest.MonkeyPatch) -> None:
    from flows import runners

    declared, troubles = spec({"runner": "dask", "address": "tcp://127.0.0.1:9"}), list[str]()
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        runners.open_fan(declared, troubles.append) as fan,
    ):
        assert fan([os.getpid]) == [os.getpid()]
    [trouble] = troubles
    assert trouble.startswith("dask on tcp://127.0.0.1:9 did not start; its work was done sequentially: OSError")


def test_names_a_missing_runner_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    from flows import runners

    monkeypatch.setitem(sys.modules, "prefect_dask.task_runners", None)
    expected = r"execution\.runner is dask, which needs prefect_dask.*, .*pip install 'harbor-forecaster\[cluster\]'"
    with pytest.raises(MissingExtra, match=expected), runners.open_fan(spec({"runner": "dask"}), str):
        pass


def test_rejects_an_address_without_a_cluster() -> None:
    with pytest.raises(ValueError, match="found address 'http://head:8787', wanted tcp:// or tls://"):
        spec({"runner": "dask", "address": "http://head:8787"})
    with pytest.raises(ValueError, match="wanted no address with runner: threads"):
        spec({"address": "tcp://scheduler:8786"})
