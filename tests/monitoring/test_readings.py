"""Readings from the ledger, as numbers."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from forecaster.config import Spec
from forecaster.ledger import run_totals, tables, value
from forecaster.ledger.lease import WAS_KILLED
from forecaster.ledger.publication import TIERS, PublishedTotal
from forecaster.ledger.store import Ledger
from forecaster.ledger.value import ValuedDay, WayCost
from forecaster.monitoring import readings
from forecaster.serving import keys
from tests.dashboards.seed import CUTOFF, PUBLISHED, fill, publication
from tests.monitoring.conftest import NOON, end


def numbers(spec: Spec, ledger: Ledger, now: datetime = NOON) -> dict[tuple[str, ...], float]:
    return {(row.name, *row.labels): row.value for row in readings.read(spec, ledger, now)}


def test_an_empty_ledger_has_a_deadline_and_nothing_else(spec: Spec) -> None:
    with Ledger.open(spec.ledger_url) as empty:
        known = {key: value for key, value in numbers(spec, empty).items() if value}
    assert known == {("deadline",): datetime(2025, 6, 17, 9, 30, tzinfo=UTC).timestamp()}  # 05:30 in New York


def test_a_publication_and_its_night_are_read(spec: Spec, ledger: Ledger) -> None:
    ledger.note("night-1", measures={"depots": {"fresh": 6}})
    read = numbers(spec, ledger)
    assert read["published_at",] == PUBLISHED.timestamp()
    assert read["cutoff",] == datetime(2025, 6, 17, 4, tzinfo=UTC).timestamp()  # midnight after 16 June in New York
    assert [read["tier", tier] for tier in TIERS] == [1, 0, 0, 0]
    assert read["depots_shown", "fresh"] == 6
    assert (read["run_seconds", "night"], read["runs", "night", "published"]) == (120.0, 1)
    assert (read["stage_seconds", "train"], read["stage_seconds", "predict"]) == (31.5, 2.5)
    assert ("stage_seconds", "night") not in read
    assert (read["compile_hits",], read["compile_misses",]) == (19, 1)
    assert (read["peak_memory_bytes", "training"], read["rows", "quarantined"]) == (9e8, 3)
    assert read["nights_missing", "newest"] == 0


def test_the_expiry_of_the_last_valid_key_is_read(spec: Spec, ledger: Ledger) -> None:
    keys.signer(spec.paths.folder)
    assert ("keys_expire_at",) not in numbers(spec, ledger)
    file = spec.paths.keys / "signing.pub.pem"
    public = file.read_text("utf-8")
    file.write_text(f"Expires: 2025-07-01\n{public}", "utf-8")
    assert numbers(spec, ledger)["keys_expire_at",] == datetime(2025, 7, 2, tzinfo=UTC).timestamp()
    for line in ("Expires: soon", "Expires: 2025-07-01\nRevoked: 2025-06-01"):
        file.write_text(f"{line}\n{public}", "utf-8")
        assert ("keys_expire_at",) not in numbers(spec, ledger)


def test_realized_accuracy_is_read_over_one_and_four_weeks(spec: Spec, ledger: Ledger) -> None:
    read = numbers(spec, ledger)
    # In each of three weeks: errors of 400 in 4,000 orders, 60 too few, 32 of 40 days within the
    # range; 640 for the naive.
    for weeks in ("1", "4"):
        assert read["realised_error", "published", weeks] == pytest.approx(0.1)
        assert read["realised_error", "seasonal_naive", weeks] == pytest.approx(0.16)
        assert read["realised_bias", "published", weeks] == pytest.approx(-0.015)
        assert read["realised_coverage", "published", weeks] == pytest.approx(0.8)
    assert ("realised_coverage", "seasonal_naive", "4") not in read


def test_the_usual_time_is_the_median_of_the_nights_before_the_last(spec: Spec, ledger: Ledger) -> None:
    for number, seconds in enumerate((100.0, 110.0, 300.0), 1):
        ledger.start_run(f"past-{number}", pipeline=spec.name, as_of=PUBLISHED, spec_digest="5pec")
        end(ledger, f"past-{number}", PUBLISHED - timedelta(days=number), seconds)
    assert numbers(spec, ledger)["run_usual_seconds", "night"] == 110.0


def test_a_counter_never_falls_when_runs_are_removed(spec: Spec, ledger: Ledger) -> None:
    begun, ended = PUBLISHED - timedelta(days=501), PUBLISHED - timedelta(days=500)
    for run_id, message in (("a", None), ("b", None), ("c", f"{WAS_KILLED}, or its machine went down")):
        ledger.start_run(run_id, pipeline=spec.name, as_of=begun, spec_digest="5pec", at=begun)
        ledger.finish_run(run_id, "failed", 1, message, at=ended)

    def counts() -> dict[tuple[str, ...], float]:
        return {key: value for key, value in numbers(spec, ledger).items() if key[0] == "runs"}

    before = counts()
    outcomes = {"failed": 2, "killed": 1, "published": 1, "degraded": 0}
    expected = {("runs", "night", outcome): number for outcome, number in outcomes.items()}
    assert before == expected
    assert ledger.forget_runs(spec.name, before=PUBLISHED - timedelta(days=400), keep="night-1") == 3
    assert counts() == before
    ledger.start_run("d", pipeline=spec.name, as_of=begun, spec_digest="5pec", at=begun)
    ledger.finish_run("d", "failed", 1, at=ended)
    ledger.forget_runs(spec.name, before=PUBLISHED - timedelta(days=400), keep="night-1")
    assert counts() == expected | {("runs", "night", "failed"): 3}


def test_a_run_at_work_is_read_with_its_start(spec: Spec, ledger: Ledger) -> None:
    ledger.start_run("r", pipeline=spec.name, as_of=NOON, spec_digest="5pec", kind="refresh", at=NOON)
    assert numbers(spec, ledger)["run_started_at", "refresh"] == NOON.timestamp()


def test_a_compilation_is_expected_only_if_versions_changed(spec: Spec, ledger: Ledger) -> None:
    assert numbers(spec, ledger)["versions_changed",] == 1  # nothing was trained before
    for number, version in enumerate(("0.10.2", "0.10.3"), 1):
        run_id = f"later-{number}"
        ledger.start_run(run_id, pipeline=spec.name, as_of=PUBLISHED, spec_digest="5pec")
        ledger.note(run_id, measures={"versions": {"jax": version}})
        end(ledger, run_id, PUBLISHED + timedelta(days=number), 100.0)
        assert numbers(spec, ledger)["versions_changed",] == number - 1


def test_a_deployment_window_lasts_half_an_hour(spec: Spec, ledger: Ledger) -> None:
    with ledger.transaction() as connection:
        run_totals.open_deploy_window(connection, spec.name, NOON - timedelta(days=1))
        run_totals.open_deploy_window(connection, spec.name, NOON)
    open_windows = [
        numbers(spec, ledger, NOON + timedelta(minutes=after))["deploy_window",] for after in (0, 29, 30, 31)
    ]
    assert open_windows == [1, 1, 0, 0]


def test_the_newest_override_of_a_day_counts_unless_withdrawn(spec: Spec, ledger: Ledger) -> None:
    def row(depot_id: str, day: int, until: int = 30) -> dict[str, object]:
        return {
            "at": NOON,
            "pipeline": spec.name,
            "depot_id": depot_id,
            "target_date": date(2025, 6, day),
            "orders": 5,
            "reason": "r",
            "note": "",
            "by": "me",
            "until": date(2025, 6, until),
        }

    rows = [row("A", 18), row("A", 18), row("B", 18), row("B", 16), row("C", 19, until=16)]
    with ledger.transaction() as connection:
        connection.execute(tables.overrides.insert(), rows)
        connection.execute(tables.withdrawals.insert().values(override_id=3, at=NOON, by="me", note=""))
    assert numbers(spec, ledger)["overrides",] == 1  # A's newest: B's was withdrawn or is past, C's has expired


def test_only_complete_records_of_the_outbox_are_counted(spec: Spec, ledger: Ledger) -> None:
    for name in ("night-1", "night-2.new", ".night-0"):
        (spec.paths.registry_outbox / name).mkdir(parents=True)
    assert numbers(spec, ledger)["registry_waiting",] == 1


def test_expected_orders_of_the_network_are_read_by_days_ahead(spec: Spec) -> None:
    days = [CUTOFF + timedelta(days=ahead) for ahead in range(1, 8)]
    totals = [PublishedTotal("", day, (80.0, 90.0, 100.0 + i, 110.0, 120.0)) for i, day in enumerate(days, 1)]
    totals += [
        PublishedTotal("Boston", day, (1.0, 2.0, 3.0, 4.0, 5.0)) for day in days
    ]  # totals of cities are not exposed
    fill(spec.ledger_url, publication(totals=tuple(totals)))
    with Ledger.open(spec.ledger_url) as ledger:
        read = numbers(spec, ledger)
    assert {key[1:]: number for key, number in read.items() if key[0] == "orders_forecast"} == {
        (str(ahead),): 100.0 + ahead for ahead in range(1, 8)
    }


def test_roster_costs_are_those_of_the_last_four_weeks_in_the_newest_currency(spec: Spec, ledger: Ledger) -> None:
    assert "roster_cost" not in {key[0] for key in numbers(spec, ledger)}
    days = [CUTOFF - timedelta(days=back) for back in (0, 7, 21, 28)]  # Mondays, the last of which is too long ago
    with ledger.transaction() as connection:
        value.replace_days(
            connection,
            spec.name,
            [ValuedDay(day, "b", "EUR", False, 0, "1", (1.0,)) for day in days]
            + [ValuedDay(CUTOFF - timedelta(days=1), "b", "USD", False, 0, "1", (1.0,))],
            [
                WayCost(day, city, way, cost, 1, 1, 5, 2)
                for day in (*days, CUTOFF - timedelta(days=1))
                for city in ("Boston", "New York")
                for way, cost in ((value.PUBLISHED, 10.0), (value.LAST_WEEK, 15.0), (value.MORE_VANS, 1.0))
            ],
            keep_from=CUTOFF - timedelta(days=100),
        )
    read = {key[1]: number for key, number in numbers(spec, ledger).items() if key[0] == "roster_cost"}
    assert read == {"published": 60.0, "last_week": 90.0}
