"""Scenarios of a game day, one row each, with the alerts that must reach on-call staff; any other
alert is a fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.benchmarks.game_day import around, lakes, nights, pages
from tests.benchmarks.game_day.patience import FACTOR
from tests.benchmarks.game_day.stage import Stage

BESIDES = ("NightSlow", "WorseThanJudged", "IntervalsOff", "PromotionsFrozen", "Drift")
"""Alerts that any scenario with a nightly run may raise in addition: the usual duration is that of
the two runs before, on a busy machine, and a model of three epochs misses its accuracy objectives
as soon as the first actuals arrive."""


@dataclass(frozen=True)
class Scenario:
    """A scenario; names of alerts have no prefix `Forecaster`."""

    name: str
    play: Callable[[Stage], None]
    must: tuple[str, ...] = ()
    held_back: tuple[str, ...] = ()
    """Alerts that must fire, but must not reach anyone."""
    may: tuple[str, ...] = ()
    template: str = "done"
    factor: int = FACTOR
    is_out: bool = True
    """True if the page must show a forecast at the end."""


SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario("nothing happens for an hour", pages.nothing),
        Scenario("page killed, nobody starts it again", pages.killed, ("Silent",)),
        Scenario("one page of two pipelines killed", pages.one_of_two, ("Silent",), may=("Fallback",)),
        Scenario("Alertmanager killed", pages.alarm_killed),
        Scenario("`up`: page, MLflow, Prefect's server, worker killed", around.parts_killed, factor=20),
        Scenario("`up` itself killed, and started again", around.up_killed, factor=20),
        Scenario("ledger moved away, and back", pages.ledger_away, ("Silent",), may=("PageBurns",)),
        Scenario(
            "ledger's disk full while a night is due",
            pages.ledger_full,
            ("NightMissing",),
            may=("CompilesAnew",),
            template="due",
        ),
        Scenario("lake on S3, each answer 0.3 s late", lakes.slow, may=("NightSlow",), template="due"),
        Scenario("lake on S3 answers 500 while a night is due", lakes.refuses, ("NightMissing",), template="due"),
        Scenario("lake on S3 says nothing while a night is due", lakes.hangs, ("NightMissing",), template="due"),
        Scenario(
            "memory limit kills the training of two nights", nights.training_killed, ("NightDegraded",), template="due"
        ),
        Scenario("two nights killed", nights.killed_twice, ("OutOfMemory",), may=("NightMissing",), template="due"),
        Scenario(
            "training hangs (SIGSTOP) past the deadline", nights.training_hangs, ("NightMissing",), template="due"
        ),
        Scenario(
            "two nights missed, nothing runs", nights.missed, ("NightMissing",), ("ForecastStale",), template="old"
        ),
        Scenario("registry away for four nights", nights.registry_away, ("RegistryBehind",), ("NightDegraded",)),
        Scenario("champion's bundle gone", nights.no_model, ("Fallback",)),
        Scenario("a quarter of the rows are bad", nights.bad_rows, ("QuarantineFlood",), template="due"),
        Scenario("empty cache, nothing changed", nights.empty_cache, ("CompilesAnew",), template="due"),
        Scenario("empty cache in a deploy window", nights.empty_cache_deploying, (), ("CompilesAnew",), template="due"),
        Scenario("new jaxlib with an empty cache", nights.new_jaxlib, template="due"),
        Scenario("50 readers a second, a publication every 10 s", pages.flood),
    )
}
