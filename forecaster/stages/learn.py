"""Tonight's model, from the panel to a bundle that may reign: train, backtest, judge, export, record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from forecaster.errors import ForecasterError, SpecError
from forecaster.evaluation import backtest as backtests
from forecaster.evaluation import baselines, calibrate, gate
from forecaster.evaluation.rolling import Rolling
from forecaster.fan import Fan, in_turn
from forecaster.lake import TABLES, Lake
from forecaster.model import compiling, export, hosts, train
from forecaster.model.epochs import Epoch
from forecaster.model.train import VALIDATION
from forecaster.serving import archive, encryption, keys
from forecaster.serving import bundle as bundles
from forecaster.serving.fallback import seasonal_naive
from forecaster.serving.predict import Predictor
from forecaster.spec import Spec
from forecaster.stages import graphs, parity
from forecaster.stages.parity import Agreement
from forecaster.stages.past import Past
from forecaster.values import Candidate, Floats, Forecast, Knowledge, Panel, Scores, Verdict

CANDIDATE, CHAMPION, NAIVE = "candidate", "champion", "seasonal_naive"
ALWAYS = (NAIVE, "seasonal_window_average")
FIRST, LAST = "calibration", "last_calibration"  # in a candidate's summary: before its backtest, and after it


@dataclass(frozen=True)
class Exported:
    """A bundle on disk that said what the trained model says."""

    folder: Path
    parity: Agreement  # of ONNX, NumPy and JAX


def fit(
    panel: Panel,
    spec: Spec,
    *,
    seen: backtests.Seen | None = None,
    cutoff: date | None = None,
    checkpoints: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_trouble: Callable[[str], None] | None = None,
    profile: Path | None = None,
) -> Candidate:
    """A candidate trained and calibrated on what was known at the cutoff, by default the backtest's first one.

    `seen` is the panel as it was at a cutoff (`past.Past`), by default tonight's, cut off. A training that was
    killed goes on from its checkpoint, in the night's folder unless `checkpoints` is another. `on_trouble` hears what
    else happened on the way; `profile` is a folder for a trace of two epochs.
    Raises NoUsableData when the history is too short, TrainingError when the loss stops being a number.
    """
    seen = seen or panel.at
    before = seen(cutoff or first_cutoff(panel, spec))
    candidate = _together(
        before, spec, 0, checkpoints=checkpoints, on_epoch=on_epoch, on_trouble=on_trouble, profile=profile
    )
    return first_calibrated(candidate, before, seen)


def first_calibrated(candidate: Candidate, before: Panel, seen: backtests.Seen | None = None) -> Candidate:
    """The candidate calibrated on the days before the backtest that it was not trained on."""
    cutoffs = backtests.cutoffs(before, VALIDATION)
    held_out = backtests.folds(export.forecaster(candidate), before, cutoffs, seen or before.at)
    return _calibrated(candidate, calibrate.factors(held_out), FIRST)


def first_cutoff(panel: Panel, spec: Spec) -> date:
    """Where training ends and the backtest begins. Raises NoUsableData when the history is too short."""
    return backtests.cutoffs(panel, spec.backtest.days)[0]


def train_alone(
    before: Panel,
    spec: Spec,
    *,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_trouble: Callable[[str], None] | None = None,
    profile: Path | None = None,
) -> Candidate:
    """The candidate of `fit`, not yet calibrated, of a panel that ends at the cutoff. Its last checkpoint stays, from
    which `fit` picks it up."""
    return _together(before, spec, 0, on_epoch=on_epoch, on_trouble=on_trouble, profile=profile)


def assist(spec: Spec, number: int, *, on_epoch: Callable[[Epoch], None] | None = None) -> None:
    """Train as host `number` of `training.hosts` beside the night's own, whose panel comes to this one.

    Raises SpecError where the pipeline file names no such host, TrainingError as `fit` does.
    """
    if spec.training.hosts is None:
        raise SpecError("training.hosts is not in the pipeline file: the night trains on its own machine alone")
    _together(None, spec, number, on_epoch=on_epoch)


def _together(
    panel: Panel | None,
    spec: Spec,
    number: int,
    *,
    checkpoints: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_trouble: Callable[[str], None] | None = None,
    profile: Path | None = None,
) -> Candidate:
    """Train as host `number`, with the others where there are any; each ends with the same candidate."""
    declared = spec.training.hosts
    compiling.configure(spec.state_folder / "jax_cache")
    hosts.join(hosts.Hosts(declared.coordinator, declared.count, number) if declared else None)
    try:
        found = train.fit(
            hosts.agreed(panel, spec),
            spec,
            on_epoch=on_epoch,
            on_trouble=on_trouble,
            checkpoints=checkpoints or checkpoint_folder(spec),
            profile=profile,
        )
    except ForecasterError:  # which the others raise too; where one of them died, there is no parting
        hosts.part()
        raise
    hosts.part()
    return found


def backtest(
    models: Mapping[str, backtests.Predictor],
    champion: Path | None,
    panel: Panel,
    knowledge: Knowledge,
    spec: Spec,
    *,
    seen: backtests.Seen | None = None,
    on_model: Callable[[str], None] | None = None,
    fan: Fan = in_turn,
) -> tuple[dict[str, Scores], list[str]]:
    """The scores of the models (the candidate among them), baselines and champion on the same last days, which none of
    them trained on, each forecasting from what was known at the cutoff.

    `on_model` hears each one's name before it is fitted; `fan` fits the declared baselines and does their folds. The
    second value says why a champion or a declared baseline could not be compared, empty when all were.
    """
    days, every, levels = spec.backtest.days, spec.backtest.every, tuple(spec.model.quantiles)
    seen = seen or panel.at
    before, troubles = seen(backtests.cutoffs(panel, days, every)[0]), []
    # The seasonal naive is the one that goes out as the fallback.
    naive = {name: baselines.fit(name, before, levels) for name in ALWAYS} | {
        NAIVE: partial(seasonal_naive, levels=levels)
    }
    declared: list[str] = [name for name in spec.backtest.baselines if name not in ALWAYS]
    fitted = dict(zip(declared, fan(_fits(declared, before, levels, on_model)), strict=True))
    troubles += [absent for absent in fitted.values() if isinstance(absent, str)]
    shared: dict[str, backtests.Predictor]
    shared = {name: predict for name, predict in fitted.items() if not isinstance(predict, str)}
    told = {name: _telling(name, predict, on_model) for name, predict in ({**models, **naive}).items()}
    scores = backtests.run({**told, **shared}, panel, days, every=every, seen=seen, shared=shared, fan=fan)
    if champion is not None:
        try:
            reigning = Predictor(bundles.of(champion, spec.state_folder))
            read = seen if isinstance(seen, Past) else Past(knowledge, panel, spec)
            its_own = read.under(reigning.bundle.encoding)
            told = {CHAMPION: _telling(CHAMPION, _as_judged(reigning), on_model)}
            scores |= backtests.run(told, panel, days, every=every, seen=its_own)
        except ForecasterError as error:
            troubles.append(f"the champion could not be compared: {error}")
    return scores, troubles


def rolling(
    candidate: Candidate, panel: Panel, spec: Spec, *, seen: backtests.Seen | None = None, cutoff: date | None = None
) -> Rolling:
    """A candidate of `fit` as it forecasts cutoff after cutoff, its intervals calibrated on all that it was not trained
    on: from the days that calibrated it first on."""
    predict, seen = export.forecaster(candidate), seen or panel.at
    before = seen(cutoff or first_cutoff(panel, spec))
    return Rolling(predict, [predict(seen(each)) for each in backtests.cutoffs(before, VALIDATION)])


def calibrated(candidate: Candidate, judged: Rolling, panel: Panel) -> Candidate:
    """The candidate as it forecasts from the panel's own cutoff, all held-out days being known."""
    factors = np.asarray(candidate.parameters["calibration"]) * judged.factors(panel)
    return _calibrated(candidate, np.clip(factors, calibrate.NARROWEST, calibrate.WIDEST), LAST)


def _calibrated(candidate: Candidate, factors: Floats, when: str) -> Candidate:
    return replace(
        candidate,
        parameters={**candidate.parameters, "calibration": factors},
        summary={**candidate.summary, when: factors.tolist()},
    )


def _as_judged(reigning: Predictor) -> backtests.Predictor:
    """A champion with the intervals from before its own backtest, whose days may be those of this one."""
    summary = reigning.bundle.manifest["training"]
    if FIRST not in summary or LAST not in summary:
        return reigning
    back = (np.asarray(summary[FIRST]) / np.asarray(summary[LAST])).astype(np.float32)
    return lambda panel: calibrate.stretched(reigning(panel), back)


def _telling(name: str, predict: backtests.Predictor, on_model: Callable[[str], None] | None) -> backtests.Predictor:
    def told(panel: Panel) -> Forecast:
        if on_model is not None:
            on_model(f"{name} from {panel.cutoff}")
        return predict(panel)

    return told


def _fits(
    names: Sequence[str], before: Panel, levels: tuple[float, ...], on_model: Callable[[str], None] | None
) -> Iterator[Callable[[], backtests.Predictor | str]]:
    for name in names:
        if on_model is not None:
            on_model(name)
        yield partial(baselines.fitted, name, before, levels)


def judge(scores: Mapping[str, Scores], spec: Spec) -> Verdict:
    """The gate's verdict on the candidate."""
    rivals = {name: found for name, found in scores.items() if name != CANDIDATE}
    return gate.judge(scores[CANDIDATE], rivals, spec.gate)


def keep_scores(scores: Mapping[str, Scores], lake: Lake, *, run_id: str, now: datetime) -> int:
    """Append every fold's forecasts and actuals to the lake in one commit, so that any metric can be computed later."""
    tables = [_rows(found, run_id, now) for found in scores.values()]
    return lake.append("scores", pa.concat_tables(tables))


def _rows(scores: Scores, run_id: str, now: datetime) -> pa.Table:
    parts = []
    for fold in scores.folds:
        said = fold.forecast
        depots, horizon, levels = said.quantiles.shape
        count = depots * horizon
        days = np.asarray(said.target_dates, "datetime64[D]")
        columns = {
            "run_id": pa.repeat(run_id, count),
            "recorded_at": pa.repeat(pa.scalar(now, pa.timestamp("us", "UTC")), count),
            "model": pa.repeat(scores.model, count),
            "cutoff": pa.repeat(pa.scalar(said.cutoff, pa.date32()), count),
            "depot_id": pa.array(np.repeat(np.asarray(said.depot_ids, object), horizon)),
            "target_date": pa.array(np.tile(days, depots)),
            "horizon": pa.array(np.tile(np.arange(1, horizon + 1, dtype=np.int32), depots)),
            "levels": lists(np.tile(np.asarray(said.levels, np.float64), (count, 1))),
            "quantiles": lists(said.quantiles.reshape(count, levels)),
            "actual": pa.array(fold.actuals.reshape(count), from_pandas=True),
        }
        parts.append(pa.table(columns).select(TABLES["scores"].names).cast(TABLES["scores"]))
    return pa.concat_tables(parts)


def lists(rows: NDArray[Any]) -> pa.Array:
    """A column of lists from a (rows, levels) array."""
    offsets = pa.array(np.arange(0, rows.size + 1, rows.shape[1], dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(rows.ravel()))


def to_bundle(
    candidate: Candidate, panel: Panel, scores: Mapping[str, Scores], knowledge: Knowledge, spec: Spec
) -> Exported:
    """Export the candidate, compare ONNX and NumPy with JAX, and only then write the bundle, as a folder and as a file.

    Raises ExportError when they differ, BundleError when the bundle would not be believed: such a model never reigns.
    """
    graph, weights = graphs.graph(candidate, spec), export.weights(candidate)
    agreement = parity.agree(candidate, graph, bundles.npz(weights), export.about(candidate), panel)
    about = {
        **export.about(candidate),
        "pipeline": spec.name,
        "spec_digest": spec.digest,
        "lake_versions": {table: knowledge.versions[table] for table in ("demand", "depots", "events")},
        "cutoff": str(panel.cutoff),
        "depots": list(panel.depot_ids),
        "scores": {
            name: {key: float(f"{value:.6g}") for key, value in found.metrics.items() if value == value}
            for name, found in scores.items()
            if name != CHAMPION
        },
    }
    cipher = encryption.to_write(spec.state_folder) if spec.encrypt_bundles else None
    folder = bundles.write(bundle_folder(spec), graph, weights, about, keys.signer(spec.state_folder), cipher)
    bundles.of(archive.pack(folder), spec.state_folder)
    bundles.of(folder, spec.state_folder)
    return Exported(folder, agreement)


def bundle_folder(spec: Spec) -> Path:
    return spec.state_folder / "bundles"


def checkpoint_folder(spec: Spec) -> Path:
    """Where the night's training keeps what it goes on from."""
    return spec.state_folder / "checkpoints"
