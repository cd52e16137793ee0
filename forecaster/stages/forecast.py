"""From a bundle, or without one, to what the depots read: forecast, archive, publish. No JAX, no MLflow.

There is always a forecast: with no bundle that can be used, the seasonal-naive fallback goes out, and says so.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from forecaster import desk, overrides, planning, revise, totals
from forecaster.demand import panel as panels
from forecaster.desk import Desk
from forecaster.errors import BundleError, DeskError, ForecasterError, LakeError
from forecaster.lake import TABLES, Lake
from forecaster.ledger import Ledger
from forecaster.overrides import Override
from forecaster.publication import (
    Publication,
    PublishedChange,
    PublishedDay,
    PublishedDepot,
    PublishedMark,
    PublishedOverride,
    PublishedTotal,
    RecentDay,
    Tier,
)
from forecaster.serving import bundle as bundles
from forecaster.serving import keys
from forecaster.serving.fallback import seasonal_naive
from forecaster.serving.predict import Predictor
from forecaster.spec import Spec
from forecaster.stages import caveats, rosters, why
from forecaster.stages.hindsight import look_back
from forecaster.stages.know import know
from forecaster.values import Forecast, Knowledge, Panel

RECENT = 60  # days of actuals that a publication carries
NAIVE = "seasonal naive"


@dataclass(frozen=True)
class Choice:
    """What shall forecast: a bundle's folder, its name for people, and the tier of what it says."""

    bundle: Path | None
    model: str
    tier: Tier


@dataclass(frozen=True)
class Made:
    """A forecast, what made it from which panel, and what has to be said of it."""

    forecast: Forecast
    panel: Panel
    choice: Choice  # the fallback where the chosen bundle could not be used
    digest: str | None
    told: list[str]
    lookback: int | None = None  # days that the bundle looks back
    strangers: frozenset[str] = frozenset()  # depots that got the seasonal naive, though a bundle made the others'


@dataclass(frozen=True)
class Published:
    """What went out."""

    publication_id: int | None  # None: it went into the archive alone
    tier: Tier
    model: str
    bundle_digest: str | None
    cutoff: str
    depots: int
    note: str | None
    forecast: Forecast
    trouble: str | None = None  # what could not be done besides

    def to_json(self) -> str:
        """Everything but the forecast itself."""
        return json.dumps({each.name: getattr(self, each.name) for each in fields(self) if each.name != "forecast"})

    def sentence(self) -> str:
        told = f"{self.depots:,} depots from {self.model}, tier {self.tier}, cutoff {self.cutoff}"
        where = f"as publication {self.publication_id}" if self.publication_id is not None else "in the archive"
        return "\n".join(line for line in (f"{told}, {where}", self.note, self.trouble) if line)


def choose(spec: Spec, ledger: Ledger, *, promoted_by: str | None = None) -> Choice:
    """The reigning champion, or the fallback when there is none; `promoted_by` is tonight's run."""
    reigning = ledger.champion(spec.name)
    if reigning is None:
        return Choice(None, NAIVE, "fallback")
    label = (
        f"{spec.name} v{reigning.model_version}" if reigning.model_version else f"{spec.name} {reigning.bundle_digest}"
    )
    tier: Tier = "fresh" if promoted_by is not None and reigning.run_id == promoted_by else "champion"
    return Choice(spec.state_folder / "bundles" / reigning.bundle_digest, label, tier)


def of_the_time(spec: Spec, at: datetime, bundle: Path | None) -> Choice:
    """What may forecast a past date: a bundle made as of it, else who reigned then, else the fallback."""
    if bundle is not None:
        return Choice(bundle, f"{spec.name} {bundle.name}", "fresh")
    with Ledger.open(spec.ledger_url) as ledger:
        reigned = ledger.champion(spec.name, at=at)
    if reigned is None:
        return Choice(None, NAIVE, "fallback")
    digest = reigned.bundle_digest
    return Choice(spec.state_folder / "bundles" / digest, f"{spec.name} {digest}", "champion")


def forecast(spec: Spec, choice: Choice, knowledge: Knowledge) -> Made:
    """What the chosen bundle says, or, where it cannot be used, the fallback; nothing is written.

    Raises NoUsableData when there is nothing to start from, StaleHistory when that is too old.
    """
    lookback, strangers = None, frozenset[str]()
    try:
        if choice.bundle is None:
            raise BundleError("no model was ever admitted")
        predictor = Predictor(bundles.read(choice.bundle, keys.trusted(spec.state_folder)))
        panel = panels.build(knowledge, spec, predictor.bundle.encoding)
        new = caveats.newcomers(panel, predictor.bundle)
        said, digest, told = predictor(panel), predictor.bundle.name, new.sentences()
        lookback, strangers = predictor.bundle.lookback, frozenset(new.strangers)
        if new.strangers:
            naive = seasonal_naive(panel, said.levels).quantiles
            said = replace(said, quantiles=np.where(new.rows[:, None, None], naive, said.quantiles))
    except BundleError as error:
        told, digest, strangers = [f"Seasonal-naive fallback: {error}."], None, frozenset()
        choice = Choice(None, NAIVE, "fallback")
        panel = panels.build(knowledge, spec)
        said = seasonal_naive(panel, spec.model.quantiles)
    caveats.refuse_stale(panel, spec, knowledge.as_of)
    return Made(said, panel, choice, digest, [*told, *caveats.silent(panel, spec)], lookback, strangers)


def publish(
    spec: Spec, choice: Choice, *, as_of: datetime, run_id: str, note: str | None = None, show: bool = True
) -> Published:
    """Forecast as of an instant, append to the archive in one commit, publish in one transaction.

    Without `show` the archive alone is written. Raises NoUsableData when nothing is known by then or what is known is
    too old, LakeError when the lake cannot be read, LedgerError when the ledger cannot be written. What goes out is
    worth more than what is kept: where the archive cannot take it, it is shown nevertheless, and `trouble` says so. A
    bundle that cannot be used is not an error here: the fallback goes out, with the reason in the note.
    """
    knowledge = know(spec, as_of=as_of)
    made = forecast(spec, choice, knowledge)
    panel, choice, digest = made.panel, made.choice, made.digest
    note = " ".join([*([note] if note else []), *made.told]) or None
    now = datetime.now(UTC)
    trouble = None
    planned = planned_on(made.forecast, spec, as_of) if show else {}
    try:
        Lake(spec.lake_url).append("forecasts", _archive_rows(made, planned, run_id, now))
    except LakeError as error:
        if not show:
            raise
        trouble = f"the archive does not have these forecasts: {error}"
    cutoff, depots = panel.cutoff.isoformat(), len(panel.depot_ids)
    if not show:
        return Published(None, choice.tier, choice.model, digest, cutoff, depots, note, made.forecast)
    try:
        kept = desk.write(spec.state_folder / desk.FOLDER, _desk(made, spec))
    except DeskError as error:
        kept, trouble = None, "; ".join(each for each in (trouble, str(error)) if each)
    said = overrides.applied(made.forecast, planned)
    replaced = {cell: each.shown(made.forecast.quantiles[cell].tolist()) for cell, each in planned.items()}
    with Ledger.open(spec.ledger_url) as ledger:
        changes = why.changes(ledger, spec, knowledge, made, said, as_of)
        ledger.note(run_id, lake_versions=knowledge.versions)
        number = ledger.publish(
            Publication(
                pipeline=spec.name,
                run_id=run_id,
                published_at=now,
                as_of=as_of,
                cutoff=panel.cutoff,
                horizon=panel.horizon,
                tier=choice.tier,
                model=choice.model,
                timezone=spec.timezone,
                levels=made.forecast.levels,
                depots=_depots(said, panel, spec, replaced, changes, _zones(knowledge), made.strangers),
                totals=_totals(said, panel),
                bundle_digest=digest,
                note=note,
                desk=kept,
            ),
            keep=spec.retention.publications,
        )
        revise.refresh(ledger, spec.name, spec.state_folder / desk.FOLDER)  # what was overridden since we looked
        desk.prune(spec.state_folder / desk.FOLDER, ledger.desks())
    try:
        look_back(spec, panel)
    except ForecasterError as error:
        untold = f"what came of earlier forecasts is not told: {error}"
        trouble = "; ".join(each for each in (trouble, untold) if each)
    return Published(number, choice.tier, choice.model, digest, cutoff, depots, note, made.forecast, trouble)


def planned_on(forecast: Forecast, spec: Spec, as_of: datetime) -> dict[tuple[int, int], Override]:
    """The planners' overrides that hold as of an instant's local day, by the positions of depot and day."""
    with Ledger.open(spec.ledger_url) as ledger:
        held = overrides.holding(planning.written(ledger, spec.name), as_of.astimezone(spec.zone).date())
    return overrides.placed(forecast, held)


def _desk(made: Made, spec: Spec) -> Desk:
    lookback = made.lookback or desk.LOOKBACK
    return Desk(desk.kept(made.panel, lookback), made.digest, made.strangers, spec.staffing)


def _archive_rows(made: Made, planned: Mapping[tuple[int, int], Override], run_id: str, now: datetime) -> pa.Table:
    """The model's forecast, and beside it the numbers of planners."""
    forecast = made.forecast
    depots, horizon, levels = forecast.quantiles.shape
    count = depots * horizon
    schema = TABLES["forecasts"]
    offsets = pa.array(np.arange(0, count * levels + 1, levels, dtype=np.int32))
    columns = {
        "run_id": pa.repeat(run_id, count),
        "recorded_at": pa.repeat(pa.scalar(now, pa.timestamp("us", "UTC")), count),
        "bundle": pa.repeat(pa.scalar(made.digest, pa.string()), count),
        "tier": pa.repeat(made.choice.tier, count),
        "depot_id": pa.array(np.repeat(np.asarray(forecast.depot_ids, object), horizon)),
        "cutoff": pa.repeat(pa.scalar(forecast.cutoff, pa.date32()), count),
        "target_date": pa.array(np.tile(np.asarray(forecast.target_dates, "datetime64[D]"), depots)),
        "horizon": pa.array(np.tile(np.arange(1, horizon + 1, dtype=np.int32), depots)),
        "levels": pa.ListArray.from_arrays(offsets, pa.array(np.tile(np.asarray(forecast.levels, np.float64), count))),
        "quantiles": pa.ListArray.from_arrays(offsets, pa.array(forecast.quantiles.ravel())),
        "override": pa.array(_numbers(planned, depots, horizon), pa.int64()),
    }
    return pa.table(columns).select(schema.names).cast(schema)


def _numbers(planned: Mapping[tuple[int, int], Override], depots: int, horizon: int) -> list[int | None]:
    found: list[int | None] = [None] * (depots * horizon)
    for (row, step), override in planned.items():
        found[row * horizon + step] = override.orders
    return found


def _totals(forecast: Forecast, panel: Panel) -> tuple[PublishedTotal, ...]:
    return tuple(
        PublishedTotal(city, day, tuple(quantiles))
        for city, days in sorted(totals.of(forecast, panel).items())
        for day, quantiles in zip(forecast.target_dates, days.tolist(), strict=True)
    )


def _zones(knowledge: Knowledge) -> dict[str, str]:
    """The time zones of depots that have one of their own."""
    depots = knowledge.depots
    if "timezone" not in depots:
        return {}
    own = depots[depots["timezone"].notna()]
    return dict(zip(own["depot_id"], own["timezone"], strict=True))


def _depots(
    forecast: Forecast,
    panel: Panel,
    spec: Spec,
    replaced: Mapping[tuple[int, int], PublishedOverride] = MappingProxyType({}),
    changes: Mapping[tuple[int, int], PublishedChange] = MappingProxyType({}),
    zones: Mapping[str, str] = MappingProxyType({}),
    strange: Collection[str] = (),
) -> tuple[PublishedDepot, ...]:
    """What the page shows of each depot; a depot that closed before its recent days began is left out."""
    planned = rosters.plan(forecast, panel, spec)
    told = rosters.told(planned, forecast) if planned else {}
    first = max(panel.history - RECENT, 0)
    recent_days = panel.days[first : panel.history].astype(object)
    found = []
    for row, depot_id in enumerate(panel.depot_ids):
        if not panel.open[row, first:].any():
            continue
        days = tuple(
            PublishedDay(
                target_date=day,
                horizon=step + 1,
                open=bool(forecast.open[row, step]),
                quantiles=tuple(float(q) for q in forecast.quantiles[row, step]),
                drivers=int(planned.drivers[row, step]) if planned else None,
                roster=told.get((row, step)),
                override=replaced.get((row, step)),
                change=changes.get((row, step)),
            )
            for step, day in enumerate(forecast.target_dates)
        )
        recent = tuple(
            RecentDay(day, float(panel.demand[row, first + i]), bool(panel.open[row, first + i]))
            for i, day in enumerate(recent_days)
        )
        named = tuple(PublishedMark(mark.date, mark.kind, mark.name) for mark in panel.marks.of(row))
        attributes = {name: panel.attributes[name][row] for name in spec.depots.static} if spec.depots else {}
        tier: Tier | None = "fallback" if depot_id in strange else None
        found.append(PublishedDepot(depot_id, days, recent, attributes, named, zones.get(depot_id), tier))
    return tuple(found)
