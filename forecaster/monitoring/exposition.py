"""Exposition of a pipeline to Prometheus: a collector that reads the ledger on each scrape.

Nothing is pushed, so nothing is ever stale: measurements of a night are in its ledger row, and
outlive its process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from forecaster.config import Spec
from forecaster.core.metric_names import MEASURES
from forecaster.errors import LedgerError, MissingExtra, NoLedger, SpecError
from forecaster.ledger.store import Ledger
from forecaster.monitoring import readings, slo
from forecaster.monitoring.readings import Reading

try:
    from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.exposition import generate_latest, write_to_textfile
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    raise MissingExtra(f"{error}; this needs: pip install 'harbor-forecaster[metrics]'") from error

# lifetime of cached readings while the ledger's files are unchanged
SAVED_SECONDS = 15.0


class LedgerCollector(Collector):
    """Collector of `readings` from the ledgers of pipelines. For an unreadable ledger,
    `forecaster_ledger_readable` is 0 and all other metrics are absent, which triggers an alert. A
    new installation has no ledger before its first run or deployment; that is not a fault.
    Thread-safe."""

    def __init__(self, *specs: Spec, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._sources = [LedgerSource(spec, clock) for spec in specs]

    def describe(self) -> list[Metric]:
        """Describe no metrics, so that registration does not read the ledger."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from families({source.pipeline: source.read() for source in self._sources})


class LedgerSource:
    """The readings of one pipeline, cached while its ledger's files are unchanged."""

    def __init__(self, spec: Spec, clock: Callable[[], datetime]) -> None:
        self.pipeline, self._spec, self._clock = spec.name, spec, clock
        # of two simultaneous scrapes, the second gets the readings of the first
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None
        self._was_there = False
        self._saved: tuple[object, float, list[Reading]] | None = None

    def read(self) -> list[Reading]:
        with self._lock:
            try:
                return [*self._read(), Reading("ledger_readable", 1.0)]
            except LedgerError as error:
                is_lost = self._was_there or any(self._spec.paths.bundles.glob("*/manifest.json"))
                is_new = isinstance(error, NoLedger) and not is_lost
                self._ledger = self._saved = None
                return [Reading("ledger_readable", float(is_new))]

    def _read(self) -> list[Reading]:
        if self._ledger is None:
            self._ledger = Ledger.open_reader(self._spec.ledger_url)
            self._was_there = True
        stamp = self._ledger.stamp()
        if self._saved is not None:
            saved_stamp, at, rows = self._saved
            if stamp is not None and stamp == saved_stamp and monotonic() - at < SAVED_SECONDS:
                return rows
        now = self._clock()
        rows = [*readings.read(self._spec, self._ledger, now), *slo.numbers(self._spec, self._ledger, now)]
        self._saved = stamp, monotonic(), rows
        return rows


def families(by_pipeline: Mapping[str, list[Reading]]) -> Iterator[Metric]:
    """Yield readings as Prometheus metrics, one family after the other."""
    by_name: dict[str, list[tuple[str, Reading]]] = {}
    for pipeline, rows in by_pipeline.items():
        for row in rows:
            by_name.setdefault(row.name, []).append((pipeline, row))
    for name, of_name in by_name.items():
        measure = MEASURES[name]
        kind = CounterMetricFamily if measure.kind == "counter" else GaugeMetricFamily
        prometheus, meaning, labels = measure.described
        family = kind(prometheus, meaning, labels=labels)
        for pipeline, row in of_name:
            family.add_metric((pipeline, *map(str, row.labels)), float(row.value))
        yield family


def registry(*specs: Spec, process: bool = False) -> CollectorRegistry:
    """Return a registry with the ledgers' collector and, with `process`, those of this Python
    process."""
    collectors = CollectorRegistry()
    collectors.register(LedgerCollector(*specs))
    if process:
        ProcessCollector(registry=collectors)
        PlatformCollector(registry=collectors)
        GCCollector(registry=collectors)
    return collectors


def text(spec: Spec) -> str:
    """Return all metrics of the ledger in Prometheus's text format. Raises LedgerError if it cannot
    be read."""
    Ledger.open_reader(spec.ledger_url).close()
    return generate_latest(registry(spec)).decode()


def write_textfile(spec: Spec, path: Path) -> None:
    """Write the metrics for node exporter's textfile collector, atomically.

    Raises LedgerError if the ledger cannot be read, SpecError if the file cannot be written; the
    previous file is then kept.
    """
    if path.suffix != ".prom":
        raise SpecError(
            f"--textfile: found {path.name}, wanted a name that ends in .prom: node exporter reads no other"
        )
    Ledger.open_reader(spec.ledger_url).close()
    try:
        write_to_textfile(str(path), registry(spec))
    except OSError as error:
        raise SpecError(f"--textfile: {path} cannot be written: {error.strerror}; wanted a place of ours") from error
