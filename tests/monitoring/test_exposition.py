"""Metrics for Prometheus, also without a readable ledger."""

from __future__ import annotations

import sqlite3
import urllib.request
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from forecaster.config import Spec
from forecaster.core.metric_names import MEASURES, OF_LEDGER
from forecaster.errors import LedgerError, NoLedger, SpecError
from forecaster.ledger import connect, run_totals
from forecaster.ledger.store import Ledger
from forecaster.monitoring import exposition, listener
from forecaster.monitoring.exposition import LedgerCollector
from tests.monitoring.conftest import NOON

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset({"pipeline": "harbor-fleet", **labels}.items())


def test_names_follow_prometheus_conventions_and_are_unique() -> None:
    names = [measure.prometheus for measure in MEASURES.values()]
    assert len(set(names)) == len(names)
    for measure in MEASURES.values():
        assert measure.prometheus.startswith("forecaster_")
        assert measure.prometheus.endswith("_total") == (measure.kind == "counter")


def test_a_ledger_is_exposed_in_prometheus_format(spec: Spec, ledger: Ledger) -> None:
    read = samples(exposition.text(spec))
    assert read[of("forecaster_run_peak_memory_bytes", process="training")] == 9e8
    assert read[of("forecaster_runs_total", kind="night", outcome="published")] == 1
    assert read[of("forecaster_ledger_readable")] == 1
    assert {name for name, _ in read} <= {measure.prometheus for measure in MEASURES.values()}


def test_a_missing_ledger_is_reported_until_it_is_back(spec: Spec, ledger: Ledger) -> None:
    collector, path = LedgerCollector(spec, clock=lambda: NOON), Path(spec.ledger_url.removeprefix("sqlite:///"))
    names = [family.name for family in collector.collect()]
    assert "forecaster_publication_timestamp_seconds" in names
    path.rename(path.with_name("away"))
    [readable] = collector.collect()
    assert (readable.name, readable.samples[0].value) == (OF_LEDGER["ledger_readable"].prometheus, 0)
    path.with_name("away").rename(path)
    assert [family.name for family in collector.collect()] == names


def test_a_new_installation_has_no_missing_night_until_its_first_one_is_due(spec: Spec) -> None:
    def read(now: datetime) -> tuple[float | None, float]:
        registry = CollectorRegistry()
        registry.register(LedgerCollector(spec, clock=lambda: now))
        missing = {"pipeline": spec.name, "which": "newest"}
        readable = registry.get_sample_value("forecaster_ledger_readable", {"pipeline": spec.name})
        assert readable is not None
        return registry.get_sample_value("forecaster_nights_missing", missing), readable

    assert read(NOON) == (None, 1)  # no ledger yet
    with Ledger.open(spec.ledger_url) as ledger:
        assert read(NOON) == (0, 1)  # nothing scheduled yet
        with ledger.transaction() as connection:
            run_totals.open_deploy_window(connection, spec.name, NOON)
        assert [read(NOON + timedelta(hours=hours))[0] for hours in (0, 12, 18)] == [0, 0, 1]  # the night is at 03:15
        evening = NOON + timedelta(hours=9)
        ledger.start_run("first", pipeline=spec.name, as_of=evening, spec_digest="5pec", at=evening)
        ledger.finish_run("first", "failed", 1, at=evening)
        assert [read(evening + timedelta(hours=hours))[0] for hours in (0, 9)] == [0, 1]


def test_a_scrape_does_not_wait_for_a_writer(spec: Spec, ledger: Ledger) -> None:
    path = spec.ledger_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("begin immediate")
        writer.execute("delete from publications")
        read = samples(exposition.text(spec))
        writer.execute("rollback")
    assert read[of("forecaster_publication_tier", tier="fresh")] == 1


def test_readings_are_cached_until_the_ledger_changes(
    spec: Spec, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    real = exposition.readings.read
    monkeypatch.setattr(exposition.readings, "read", lambda *values: asked.append(1) or real(*values))
    collector = LedgerCollector(spec, clock=lambda: NOON)
    for _ in range(3):
        list(collector.collect())
    assert len(asked) == 1
    ledger.note("night-1", message="something new")
    list(collector.collect())
    assert len(asked) == 2


@pytest.fixture
def server(spec: Spec, ledger: Ledger) -> str:
    return listener.listen(exposition.registry(spec, process=True), "127.0.0.1:0", "--metrics")


def test_a_listener_includes_metrics_of_the_process(server: str) -> None:
    with urllib.request.urlopen(server, timeout=10) as answer:
        text = answer.read().decode()
    assert "\nprocess_resident_memory_bytes " in text
    assert samples(text)[of("forecaster_ledger_readable")] == 1


def test_a_port_in_use_is_reported_with_its_option(server: str) -> None:
    place = server.removeprefix("http://").removesuffix("/metrics")
    with pytest.raises(SpecError, match=r"--metrics: cannot listen on 127.0.0.1 port \d+: Address already in use"):
        listener.listen(CollectorRegistry(), place, "--metrics")


@pytest.mark.parametrize("text", ["9464", ":9464", "localhost", "localhost:http", "localhost:70000", ""])
def test_an_invalid_address_is_reported(text: str) -> None:
    with pytest.raises(SpecError, match=r"--metrics: found '.*', wanted HOST:PORT, as in 127.0.0.1:9464"):
        listener.parse_address(text, "--metrics")


def test_an_address_may_be_ipv4_or_ipv6() -> None:
    assert listener.parse_address("127.0.0.1:0", "--metrics") == ("127.0.0.1", 0)
    assert listener.parse_address("[::1]:9464", "--metrics") == ("::1", 9464)


def test_a_text_file_is_written_atomically_and_kept_on_errors(spec: Spec, ledger: Ledger) -> None:
    path = spec.folder / "metrics" / "forecaster.prom"
    with pytest.raises(SpecError, match=r"--textfile: .* cannot be written: No such file or directory"):
        exposition.write_textfile(spec, path)
    path.parent.mkdir()
    exposition.write_textfile(spec, path)
    before = path.read_text("utf-8")
    assert samples(before)[of("forecaster_ledger_readable")] == 1
    ledger.close()
    Path(spec.ledger_url.removeprefix("sqlite:///")).unlink()
    with pytest.raises(NoLedger):
        exposition.write_textfile(spec, path)
    assert [place.name for place in path.parent.iterdir()] == ["forecaster.prom"]
    assert path.read_text("utf-8") == before
    with pytest.raises(SpecError, match=r"found metrics.txt, wanted a name that ends in .prom"):
        exposition.write_textfile(spec, path.with_name("metrics.txt"))


def test_a_ledger_of_a_later_version_is_an_error(spec: Spec, ledger: Ledger) -> None:
    engine = connect.writer(spec.ledger_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("update forecaster_revision set version_num = '9999'")
    engine.dispose()
    with pytest.raises(LedgerError, match="has revision 9999"):
        exposition.text(spec)
