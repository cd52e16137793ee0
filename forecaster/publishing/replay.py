"""Replay (reproducibility check): recompute a published forecast from the versions of its run, and
compare each value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forecaster.config import Spec
from forecaster.core.forecast import Forecast
from forecaster.core.terminal import count
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.errors import LakeError, NoSuchRow
from forecaster.lake import Lake
from forecaster.ledger.publication import Publication
from forecaster.ledger.records import Run
from forecaster.ledger.store import Ledger
from forecaster.publishing.forecast import NAIVE, ForecastResult, ModelChoice, forecast

# relative, absolute for counts below one: allows for different rounding of another processor
TOLERANCE = 1e-6
MAX_LISTED = 5  # differences
PUBLICATION = "the publication"  # as opposed to the archive

Values = dict[tuple[str, str], tuple[float, ...]]  # depot and day → quantiles


@dataclass(frozen=True)
class ReplayReport:
    """A recomputed forecast of a run; `differences` are sentences, empty if there are none."""

    run: Run
    result: ForecastResult
    values: int
    largest: float  # relative difference
    differences: tuple[str, ...]
    remarks: tuple[str, ...]  # changes since the run

    def lines(self) -> Iterator[str]:
        """Lines of the report for the terminal; only the first differences."""
        depots = count(len(self.result.forecast.depot_ids), "depot")
        heading = f"{self.run.run_id}: {depots} from {self.run.bundle_digest or NAIVE}"
        yield f"{heading}, cutoff {self.result.forecast.cutoff}"
        yield from self.remarks
        if self.differences:
            yield f"{len(self.differences):,} of {self.values:,} values differ, by up to {self.largest:.2e}:"
            yield from self.differences[:MAX_LISTED]
        else:
            yield f"all {self.values:,} values are the published ones (largest relative difference {self.largest:.1e})"


def replay(spec: Spec, run_id: str) -> ReplayReport:
    """Forecast with the run's bundle from what the lake knew at its `as_of`, at its versions;
    nothing is written.

    Raises NoLedger if there is none, NoSuchRow if the run is not in the ledger or published
    nothing, BundleError if the bundle has changed, LakeError if the lake is unreadable.
    """
    with Ledger.open_reader(spec.ledger_url) as ledger:
        run = ledger.run(run_id)
        publication = ledger.published_by(run_id)
    archive = _archive(spec, run_id)
    archived = _archived_values(archive)
    if not archived:
        raise NoSuchRow(
            f"run {run_id!r} ended {run.outcome} and has no forecast in the archive; wanted a published one"
        )
    # Changes since then are remarks instead of errors: the forecast may still be the same.
    remarks = []
    if run.spec_digest != spec.digest:
        remarks.append("the pipeline file has changed since")
    try:
        knowledge = read_as_of(spec, as_of=run.as_of, versions=run.lake_versions)
    except LakeError as error:
        knowledge = read_as_of(spec, as_of=run.as_of)
        remarks.append(f"read from the newest version of the lake, as of then: {error}")
    bundle = spec.paths.bundle(run.bundle_digest) if run.bundle_digest else None
    tier = run.tier or "champion"
    result = forecast(spec, ModelChoice(bundle, run.bundle_digest or NAIVE, tier if bundle else "fallback"), knowledge)
    if bundle is not None and result.digest is None:
        remarks += [note.text for note in result.notes]
    reproduced = _forecast_values(result.forecast)
    for digest, depot_ids in _canary_depots(archive, run).items():
        canary = forecast(spec, ModelChoice(spec.paths.bundle(digest), digest, tier), knowledge)
        if canary.digest is None:
            remarks += [note.text for note in canary.notes]
        reproduced |= {cell: value for cell, value in _forecast_values(canary.forecast).items() if cell[0] in depot_ids}
    comparisons = [_compare("the archive", archived, reproduced)]
    if publication:
        comparisons.append(_compare(PUBLICATION, _published_values(publication), reproduced))
    return ReplayReport(
        run,
        result,
        values=sum(comparison.values for comparison in comparisons),
        largest=max(comparison.largest for comparison in comparisons),
        differences=tuple(line for comparison in comparisons for line in comparison.differences),
        remarks=tuple(remarks),
    )


@dataclass(frozen=True)
class _Comparison:
    """Number of compared values, the largest relative difference, and sentences on those that
    differ."""

    values: int
    largest: float
    differences: tuple[str, ...]


def _compare(where: str, before: Values, reproduced: Values) -> _Comparison:
    """Compare the values stored in one place with the recomputed ones, by depot and day."""
    count, largest, differences = 0, 0.0, []
    for key in sorted(before.keys() | reproduced.keys()):
        depot, day = key
        then, now = before.get(key), reproduced.get(key)
        if then is None or now is None or len(then) != len(now):
            if where == PUBLICATION and then is None:
                continue  # a depot that closed before its recent days is not shown
            differences.append(f"depot {depot!r}, {day}: {then} in {where}, {now} when made again")
            continue
        count += len(then)
        for old, new in zip(then, now, strict=True):
            difference = abs(old - new) / max(abs(old), 1.0)
            largest = max(largest, difference)
            if not difference <= TOLERANCE:  # NaN differs too
                differences.append(f"depot {depot!r}, {day}: {old:.7g} in {where}, {new:.7g} when made again")
    return _Comparison(count, largest, tuple(differences))


def _archive(spec: Spec, run_id: str) -> pa.Table:
    rows = Lake.of(spec).read("forecasts", where=ds.field("run_id") == run_id)
    # a resumed run may have appended twice; the last rows were published
    if len(rows):
        rows = rows.filter(pc.equal(rows["recorded_at"], pc.max(rows["recorded_at"])))
    return rows


def _archived_values(rows: pa.Table) -> Values:
    columns = (rows[name].to_pylist() for name in ("depot_id", "target_date", "quantiles"))
    return {(depot, str(day)): tuple(quantiles) for depot, day, quantiles in zip(*columns, strict=True)}


def _canary_depots(rows: pa.Table, run: Run) -> dict[str, set[str]]:
    """Bundle → depots that it forecast instead of the run's own bundle."""
    depots: dict[str, set[str]] = {}
    for depot, bundle in zip(rows["depot_id"].to_pylist(), rows["bundle"].to_pylist(), strict=True):
        if bundle is not None and bundle != run.bundle_digest:
            depots.setdefault(bundle, set()).add(depot)
    return depots


def _forecast_values(predicted: Forecast) -> Values:
    days = [str(day) for day in predicted.target_dates]
    quantiles = np.asarray(predicted.quantiles, float).tolist()
    return {
        (depot, day): tuple(quantiles[row][step])
        for row, depot in enumerate(predicted.depot_ids)
        for step, day in enumerate(days)
    }


def _published_values(publication: Publication) -> Values:
    """The model's quantiles of each day; planners' numbers are not recomputed."""
    return {
        (depot.depot_id, str(day.target_date)): day.override.quantiles if day.override else day.quantiles
        for depot in publication.depots
        for day in depot.days
    }
