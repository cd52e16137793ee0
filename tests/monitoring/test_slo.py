"""Standings of service level objectives calculated by hand, and the effect of a violated objective
of accuracy."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from forecaster.config import Slo, Spec, load
from forecaster.errors import SpecError
from forecaster.ledger import accuracy
from forecaster.ledger.accuracy import Tally
from forecaster.ledger.store import GATE, Ledger
from forecaster.monitoring import slo
from forecaster.monitoring.page_answers import AnswerLog, Answers, between, written_regularly
from forecaster.monitoring.slo import Standing
from tests.dashboards.seed import PUBLISHED
from tests.monitoring.conftest import NOON, end

WAPE = 0.1  # of the champion's backtest


def by_label(spec: Spec, ledger: Ledger, now: datetime = NOON) -> dict[str, Standing]:
    return {standing.label: standing for standing in slo.standings(spec, ledger, now)}


def promising(spec: Spec, **promises: object) -> Spec:
    return spec.model_copy(update={"slo": Slo(**promises)})  # type: ignore[arg-type]


def reign(ledger: Ledger, spec: Spec, digest: str = "b0", by: str = GATE, at: datetime = PUBLISHED) -> None:
    ledger.note("night-1", verdict={"admitted": True, "objections": [], "compared": {"candidate": {"wape": WAPE}}})
    ledger.finish_run("night-1", "published", 0, at=PUBLISHED)
    ledger.promote(spec.name, run_id="night-1", bundle_digest=digest, by=by, reason="because", at=at)


def week(ledger: Ledger, monday: date, absolute: float, error: float = 0.0, covered: int = 80, days: int = 7) -> None:
    """Record 100 depot-days with 10,000 orders, on a given number of days of the week."""
    tally = Tally(monday, accuracy.FORECAST, accuracy.ALL, "", 100, 10_000.0, error, absolute, covered)
    of_weekdays = [replace(tally, part=accuracy.WEEKDAY, label=label) for label in "1234567"[:days]]
    with ledger.transaction() as connection:
        accuracy.replace_weeks(connection, "harbor-fleet", [monday], [tally, *of_weekdays])


def weeks(ledger: Ledger, *absolute: float) -> None:
    """Replace the ledger's weeks, the newest last."""
    for number, value in enumerate(reversed(absolute)):
        week(ledger, date(2025, 6, 9) - timedelta(weeks=number), value)


def test_all_objectives_are_listed_in_order(spec: Spec, ledger: Ledger) -> None:
    keys = [standing.key for standing in slo.standings(spec, ledger, NOON)]
    assert keys == ["S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S9", "S9"]


def test_a_late_night_spends_most_of_the_budget_of_ninety_nights(spec: Spec, ledger: Ledger) -> None:
    assert by_label(spec, ledger)["S1_deadline"].budget_left == 1  # at 03:24 in New York
    # The night before ended at 05:40, ten minutes late; its last 15 minutes only recorded its
    # forecast.
    before = datetime(2025, 6, 16, 9, 40, tzinfo=PUBLISHED.tzinfo)
    ledger.start_run("night-0", pipeline=spec.name, as_of=before, spec_digest="5pec")
    end(ledger, "night-0", before, 8000.0)
    late = by_label(spec, ledger)["S1_deadline"]
    assert late.measured == "1 night late of 2"
    assert late.budget_left == pytest.approx(1 - 1 / 90 / 0.012)  # one night of the 1.08 that may be late
    assert late.burn_rate == pytest.approx(0.5 / 0.012)
    assert late.state == "burning"
    ledger.note("night-0", timings={"record": 300.0, "register": 600.0})
    assert by_label(spec, ledger)["S1_deadline"].budget_left == 1


def test_a_missing_night_is_late(spec: Spec, ledger: Ledger) -> None:
    standing = by_label(spec, ledger, NOON + timedelta(days=3))["S1_deadline"]
    assert (standing.measured, standing.state) == ("3 nights late of 4", "broken")


def test_depots_of_the_fallback_are_counted_by_night(spec: Spec, ledger: Ledger) -> None:
    assert by_label(spec, ledger)["S2_tier"].state == "unknown"
    ledger.note("night-1", measures={"depots": {"fresh": 98, "fallback": 2}})
    tier = by_label(spec, ledger)["S2_tier"]
    assert tier.measured == "98.00% of 100"
    assert tier.budget_left == pytest.approx(1 - 0.02 / 0.03)
    assert tier.burn_rate == pytest.approx(0.02 / 0.03)


def test_responses_of_all_page_processes_are_added_up(spec: Spec, ledger: Ledger) -> None:
    for host, errors in (("a", 1), ("b", 0)):
        log = AnswerLog(spec.paths.page_answers / f"{host}.json")
        for number in range(500):
            log.count(NOON, 500 if number < errors else 200, 0.3 if number < 4 else 0.01)
        log.count(NOON, 429, 9.0)
        log.count(NOON - timedelta(days=40), 500, 0.1)
        log.write(NOON)
    read = by_label(spec, ledger)
    assert (read["S3_availability"].measured, read["S4_latency"].measured) == ("99.90% of 1,000", "99.20% of 1,000")
    assert read["S3_availability"].budget_left == pytest.approx(0)
    assert read["S4_latency"].budget_left == pytest.approx(0.2)
    assert read["S4_latency"].burn_rate == pytest.approx(0.8)


def test_a_page_continues_counting_after_a_restart_and_ignores_a_damaged_file(tmp_path: Path) -> None:
    file = tmp_path / "answers" / "host.json"
    for _ in range(2):
        log = AnswerLog(file)
        with written_regularly([log]):
            log.count(NOON, 200, 0.01)
    file.with_name("damaged.json").write_text('{"2025-06-17T16": [1]', "utf-8")
    file.with_name("other.json").write_text("[1, 2]", "utf-8")
    hour = NOON - timedelta(hours=1), NOON
    assert (log.count(NOON, 200, 0.01), log.write(NOON)) == (None, None)
    assert between(file.parent, *hour).total <= 3
    assert between(tmp_path / "nowhere", *hour) == Answers()


def test_the_cache_is_measured_only_if_versions_are_unchanged(spec: Spec, ledger: Ledger) -> None:
    assert by_label(spec, ledger)["S7_cache"].state == "unknown"  # the first training compiles
    for number, (hits, misses, version) in enumerate(((18, 2, "0.10.2"), (0, 20, "0.10.3"), (20, 0, "0.10.3")), 1):
        run_id = f"later-{number}"
        ledger.start_run(run_id, pipeline=spec.name, as_of=PUBLISHED, spec_digest="5pec")
        end(ledger, run_id, PUBLISHED + timedelta(days=number), 100.0)
        ledger.note(run_id, measures={"compile_hits": hits, "compile_misses": misses, "versions": {"jax": version}})
    cache = by_label(spec, ledger, NOON + timedelta(days=3))["S7_cache"]
    assert cache.measured == "95.00% of 40"  # 2 of 20 and 0 of 20: the new version's 20 were expected
    assert cache.budget_left == pytest.approx(0)


def test_a_night_is_slow_compared_with_earlier_ones(spec: Spec, ledger: Ledger) -> None:
    for number, seconds in enumerate((100.0, 170.0, 110.0), 1):  # medians before: 120, 110, 120
        ledger.start_run(f"later-{number}", pipeline=spec.name, as_of=PUBLISHED, spec_digest="5pec")
        end(ledger, f"later-{number}", PUBLISHED + timedelta(days=number), seconds)
    standing = by_label(spec, ledger, NOON + timedelta(days=3))["S8_night_time"]
    assert standing.measured == "66.67% of 3"
    assert standing.budget_left == pytest.approx(1 - 1 / 3 / 0.05)
    assert standing.state == "broken"


def test_accuracy_spends_the_distance_to_its_bound(spec: Spec, ledger: Ledger) -> None:
    reign(ledger, spec)
    weeks(ledger, 1000, 1000, 1000, 1240)  # WAPE 10.6 % over four weeks, 12.4 % in the last, compared with 10 %
    read = by_label(spec, ledger)
    assert read["S9_error_ratio"].measured == "10.6% against 10.0%"
    assert read["S9_error_ratio"].budget_left == pytest.approx(1 - 0.06 / 0.15)
    assert read["S9_error_ratio"].burn_rate == pytest.approx(0.24 / 0.15)
    assert read["S9_error_ratio"].state == "burning"
    assert read["S9_coverage"].budget_left == pytest.approx(1)
    week(ledger, date(2025, 6, 9), 1240, error=-2000.0, covered=48)  # 72 % over four weeks, and 5 % too few
    read = by_label(spec, ledger)
    assert read["S9_coverage"].budget_left == pytest.approx(1 - 0.08 / 0.06)
    assert (read["S9_bias"].measured, read["S9_bias"].state) == ("-5.0%", "broken")
    assert read["S9_bias"].budget_left == pytest.approx(1 - 0.05 / 0.03)


def test_accuracy_is_not_measured_with_less_than_a_week(spec: Spec, ledger: Ledger) -> None:
    reign(ledger, spec)
    newest = date(2025, 6, 9)
    with ledger.transaction() as connection:
        mondays = [newest - timedelta(weeks=number) for number in range(4)]
        accuracy.replace_weeks(connection, "harbor-fleet", mondays, [])
    for days, broken in ((6, False), (7, True)):
        week(ledger, newest, 4000, days=days)
        standing = by_label(promising(spec), ledger)["S9_error_ratio"]
        assert (standing.state == "broken") is broken
        assert (standing.measured == "not measured yet") is not broken


def test_a_violated_objective_of_accuracy_freezes_promotions_until_a_manual_one(spec: Spec, ledger: Ledger) -> None:
    promised = promising(spec)
    weeks(ledger, 1200, 1200, 1200, 1200)
    reign(ledger, spec)
    freeze = slo.freeze(promised, ledger, NOON)
    assert freeze is not None
    assert freeze.sentence == (
        "promotions are frozen; missed objectives: WAPE at most 1.15 of the backtest's, and it is 12.0% against 10.0%"
    )
    assert slo.freeze(spec, ledger, NOON) is None  # no objective is declared
    assert slo.freeze(promising(spec, freeze=False), ledger, NOON) is None
    assert slo.freeze(promising(spec, error_ratio=1.3), ledger, NOON) is None
    reign(ledger, spec, "b1", by="Ada", at=NOON)
    assert slo.freeze(promised, ledger, NOON + timedelta(days=27)) is None
    assert slo.freeze(promised, ledger, NOON + timedelta(days=29)) is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slo: {availability: 1.0}", "slo.availability"),
        ("slo: {deadline: 90}", "slo.deadline"),
        ("slo: {coverage: [0.82, 0.9]}", "coverage: found"),
        ("slo: {latencie: 0.9}", "did you mean 'latency'"),
        ("slo: {error_ratio: .nan}", "slo.error_ratio"),
    ],
)
def test_an_invalid_objective_is_reported_with_its_key(file: Path, text: str, message: str) -> None:
    file.write_text(file.read_text("utf-8") + text + "\n", "utf-8")
    with pytest.raises(SpecError) as raised:
        load(file)
    assert message in str(raised.value)
