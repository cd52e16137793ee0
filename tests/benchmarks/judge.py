"""Judge a model as nightly runs use it, and measure the contribution of each of its parts.

    python -m tests.benchmarks.judge [--panels a,b] [--name NAME] [--against NAME] [--ends 4] [--horizon 28]
        [--set training.members=4]

Each end is a nightly run with `preset: nightly`: it holds out `backtest.days`, trains on the days
before them, calibrates on them, and forecasts from four weekly cutoffs. Ends are before the last 56
days of a panel, which stay untouched: one is at the last Christmas if the panel has one, the others
are 12 weeks apart (4 in a panel of a year). At most 64 depots of a panel are judged, with their
last four years. Models and forecasts are kept in `var/bench/judge/NAME` and not measured again, so
an interrupted run can be resumed. `--against` compares with an earlier run. Differences are
relative, over the same depot-days, with their standard error over days.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from statistics import NormalDist
from typing import Any
from unittest.mock import patch

import jax
import numpy as np
import yaml

from forecaster.config import Spec
from forecaster.core import artifact
from forecaster.core.arrays import Bools
from forecaster.core.forecast import Candidate, Fold, Forecast, Scale
from forecaster.core.panel import Panel
from forecaster.evaluation import backtest
from forecaster.evaluation.backtest import Predictor
from forecaster.evaluation.metrics import HIGH, LOW, Scored, measure, scored, seasonal_scale
from forecaster.evaluation.paired_test import CONFIDENCE, Difference, Pairs, pairs
from forecaster.evaluation.rolling_calibration import RollingCalibration
from forecaster.model.export import serialization, to_onnx
from forecaster.model.fitting.train import VALIDATION
from forecaster.model.network import encoder_decoder, level_moves
from forecaster.training import fit_candidate
from tests.benchmarks import real
from tests.benchmarks.report import FOLDER, machine

UNTOUCHED = 56  # days at the end of a panel that are only for reports
CUTOFFS = 4  # weekly, per end
MOST_DEPOTS, MOST_DAYS = 64, 1461
APART, APART_IN_A_YEAR = 84, 28  # days between ends
LEAST_KNOWN = 190  # days before an end
METRICS = ("mase", "wql")
WHOLE = "whole"


@dataclass(frozen=True, eq=False)
class End:
    """A nightly run of a panel: its cutoff, and its forecasts by part of the model."""

    panel: str
    cutoff: date
    settings: tuple[str, ...]  # keys of the pipeline file
    folds: Mapping[str, Sequence[Fold]]
    scale: Scale
    seconds: float  # of training and judging


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--panels", default=",".join(real.NAMES))
    parser.add_argument("--name", default="now", help="folder of this run")
    parser.add_argument("--against", help="name of an earlier run")
    parser.add_argument("--ends", type=int, default=4, help="number of judged runs per panel")
    parser.add_argument("--horizon", type=int, help="days ahead; default: that of the pipeline")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="setting of the pipeline file"
    )
    options = parser.parse_args()
    if options.against and not (FOLDER / "judge" / options.against).is_dir():
        parser.error(f"--against {options.against}: no run of that name in {FOLDER / 'judge'}")
    ends: list[End] = []
    for name in options.panels.split(","):
        panel = part_of(real.panel_of(name, options.horizon))
        settings = ["training.preset=nightly", f"horizon={panel.horizon}", *options.set]
        for cutoff in cutoffs_of(panel, options.ends):
            ends.append(_end(panel, settings, name, cutoff, FOLDER / "judge" / options.name))
            print(_line(ends[-1]), flush=True)
    print(f"\n{machine()}")
    print_parts(ends)
    print_coverage(ends)
    if options.against:
        print_against(ends, FOLDER / "judge" / options.against)


def changed(spec: Spec, settings: Sequence[str]) -> Spec:
    """Return the pipeline with other values of some keys, each as `section.key=value`."""
    for setting in settings:
        path, _, value = setting.partition("=")
        section, _, key = path.rpartition(".")
        update = {key: yaml.safe_load(value)}
        spec = spec.model_copy(
            update={section: getattr(spec, section).model_copy(update=update)} if section else update
        )
    return spec


def part_of(panel: Panel) -> Panel:
    """Return the last days of a panel, with at most `MOST_DEPOTS` of its depots, evenly spaced."""
    rows = np.linspace(0, len(panel.depot_ids) - 1, min(len(panel.depot_ids), MOST_DEPOTS)).astype(int)
    return panel.among([panel.depot_ids[row] for row in rows]).last(MOST_DAYS)


def judged_days(horizon: int) -> int:
    """Return the number of days after an end that its cutoffs forecast."""
    return 7 * (CUTOFFS - 1) + horizon


def cutoffs_of(panel: Panel, count: int) -> list[date]:
    """Return the cutoffs of the ends of a panel, oldest first."""
    last = panel.cutoff - timedelta(days=UNTOUCHED + judged_days(panel.horizon))
    first = panel.cutoff - timedelta(days=panel.history - LEAST_KNOWN)
    christmas = [day for year in (last.year, last.year - 1) if first <= (day := date(year, 12, 18)) <= last][:1]
    apart = APART if (last - first).days >= APART * count else APART_IN_A_YEAR
    spaced = (last - timedelta(days=back) for back in range(0, (last - first).days, apart))
    others = [
        day for day in spaced if all(abs((day - other).days) >= judged_days(panel.horizon) for other in christmas)
    ]
    return sorted([*christmas, *others[: count - len(christmas)]])


def _end(panel: Panel, settings: Sequence[str], name: str, cutoff: date, folder: Path) -> End:
    """Return the results of one end; earlier ones are read. Raises SystemExit if these have other
    settings."""
    path = folder / f"{name}-{cutoff}.npz"
    if path.exists():
        end = _saved(path, name, cutoff)
        if end.settings != tuple(settings):
            raise SystemExit(f"{path}: measured with {' '.join(end.settings)}, wanted {' '.join(settings)}: set --name")
        return end
    spec = changed(real.spec_of(name), settings)
    past = panel.at(cutoff)
    held_out = backtest.cutoffs(past, spec.backtest.days, spec.backtest.every)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as checkpoints:
        candidate = fit_candidate.train_and_calibrate(past, spec, cutoff=held_out[0], checkpoints=Path(checkpoints))
    artifact.write(path.with_suffix(".model"), serialization.to_bytes(candidate))
    folds, scale = judged(candidate, panel, spec, cutoff)
    end = End(name, cutoff, tuple(settings), folds, scale, time.perf_counter() - begun)
    _save(end, path)
    return end


def judged(candidate: Candidate, panel: Panel, spec: Spec, cutoff: date) -> tuple[Mapping[str, Sequence[Fold]], Scale]:
    """Return the folds after an end by part of its trained model, and the scale of their errors."""
    past = panel.at(cutoff)
    held_out = backtest.cutoffs(past, spec.backtest.days, spec.backtest.every)
    at = [cutoff + timedelta(weeks=week) for week in range(CUTOFFS)]
    predictors = parts(candidate)
    folds = {
        part: backtest.folds(_as_in_nights(predict, past, spec, held_out), panel, at)
        for part, predict in predictors.items()
    }
    folds["calibrated once"] = backtest.folds(predictors[WHOLE], panel, at)
    jax.clear_caches()  # programs of many shapes would reach the system's limit on memory mappings
    return folds, seasonal_scale(past.demand, past.open[:, : past.history])


def _as_in_nights(predict: Predictor, past: Panel, spec: Spec, held_out: Sequence[date]) -> Predictor:
    """Return a predictor whose intervals are calibrated on the held-out days too."""
    before = past.at(held_out[0])
    earlier = [predict(past.at(day)) for day in (*backtest.reaching_cutoffs(before, VALIDATION), *held_out)]
    return RollingCalibration(predict, earlier, trained_until=before.cutoff - timedelta(days=VALIDATION))


def parts(candidate: Candidate) -> dict[str, Predictor]:
    """Return predictors of the model, and of the model without one of its parts."""
    blend = dict(candidate.parameters["blend"])
    alone = {**candidate.parameters, "blend": {name: value for name, value in blend.items() if name != "trees"}}
    alone.pop("trees", None)
    predictors = {
        WHOLE: to_onnx.forecaster(candidate),
        "network alone": to_onnx.forecaster(replace(candidate, parameters=alone)),
        "without moves of levels": _without_moves(candidate),
    }
    if "trees" in blend:
        only = {**candidate.parameters, "blend": {**blend, "trees": np.float32(1)}}
        predictors["trees alone"] = to_onnx.forecaster(replace(candidate, parameters=only))
    return predictors


def _without_moves(candidate: Candidate) -> Predictor:
    def forward(*arguments: Any, **sizes: Any) -> Any:  # a separate function: JAX keeps one program per function
        with patch.object(level_moves, "followed", lambda center, *_: center):
            return encoder_decoder.forward(*arguments, **sizes)

    compiled = jax.jit(forward, static_argnames="shape")

    def predict(panel: Panel) -> Forecast:
        with patch.object(to_onnx, "_compiled", compiled):
            forecast: Forecast = to_onnx.forecaster(candidate)(panel)
        return forecast

    return predict


def _save(end: End, path: Path) -> None:
    arrays: dict[str, Any] = {"absolute": end.scale.absolute, "squared": end.scale.squared}
    for part, folds in end.folds.items():
        for number, fold in enumerate(folds):
            arrays |= {f"{part}/{number}/quantiles": fold.forecast.quantiles, f"{part}/{number}/actuals": fold.actuals}
    first = end.folds[WHOLE][0].forecast
    about = {
        "seconds": end.seconds,
        "settings": end.settings,
        "parts": list(end.folds),
        "cutoffs": [str(fold.forecast.cutoff) for fold in end.folds[WHOLE]],
        "depot_ids": first.depot_ids,
        "levels": first.levels,
    }
    file = io.BytesIO()
    np.savez_compressed(file, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)
    artifact.write(path, file.getvalue())


def _saved(path: Path, name: str, cutoff: date) -> End:
    with np.load(path, allow_pickle=False) as file:
        about = json.loads(file["about"].tobytes())
        ids, levels = tuple(about["depot_ids"]), tuple(about["levels"])
        folds: dict[str, list[Fold]] = {}
        for part in about["parts"]:
            folds[part] = []
            for number, day in enumerate(map(date.fromisoformat, about["cutoffs"])):
                quantiles, actuals = (file[f"{part}/{number}/{array}"] for array in ("quantiles", "actuals"))
                targets = tuple(day + timedelta(days=1 + ahead) for ahead in range(quantiles.shape[1]))
                forecast = Forecast(ids, day, targets, levels, quantiles, np.isfinite(actuals))
                folds[part].append(Fold(forecast, actuals))
        scale = Scale(file["absolute"], file["squared"])
        return End(name, cutoff, tuple(about["settings"]), folds, scale, about["seconds"])


def _line(end: End) -> str:
    metrics = measure(end.folds[WHOLE], end.scale)
    numbers = " ".join(f"{name} {metrics[name]:.4f}" for name in (*METRICS, "bias", "coverage"))
    return f"{end.panel:24}{end.cutoff}  {numbers}  {end.seconds:.0f} s"


def print_parts(ends: Sequence[End]) -> None:
    """Print a row per panel, with the loss or gain of each variant against the whole model."""
    others = [part for part in dict.fromkeys(part for end in ends for part in end.folds) if part != WHOLE]
    for metric in METRICS:
        rows = {
            part: {
                panel: difference([(e.folds[part], e.folds[WHOLE], e.scale) for e in mine if part in e.folds], metric)
                for panel, mine in _by_panel(ends).items()
            }
            for part in others
        }
        _table(metric, ends, rows)


def print_coverage(ends: Sequence[End]) -> None:
    """Print the coverage of the 80 % interval by week ahead."""
    for panel, mine in _by_panel(ends).items():
        days = [scored(end.folds[WHOLE], end.scale) for end in mine]
        week = (np.concatenate([of_end.ahead for of_end in days]) - 1) // 7
        is_covered = np.concatenate([_is_covered(of_end) for of_end in days])
        shares = ", ".join(f"{100 * is_covered[week == number].mean():.1f} %" for number in np.unique(week))
        print(f"coverage by week ahead, {panel}: {shares}")


def _is_covered(days: Scored) -> Bools:
    low, high = (days.quantiles[:, days.levels.index(level)] for level in (LOW, HIGH))
    return (low <= days.actual) & (days.actual <= high)


def print_against(ends: Sequence[End], folder: Path) -> None:
    """Compare this run's model with an earlier run's, on the ends that both have."""
    files = {end: folder / f"{end.panel}-{end.cutoff}.npz" for end in ends}
    both = {end: _saved(file, end.panel, end.cutoff) for end, file in files.items() if file.exists()}
    for metric in METRICS:
        row = {
            panel: difference([(e.folds[WHOLE], both[e].folds[WHOLE], e.scale) for e in mine], metric)
            for panel, mine in _by_panel(list(both)).items()
        }
        _table(metric, list(both), {f"this run against {folder.name}": row})


def difference(compared: Sequence[tuple[Sequence[Fold], Sequence[Fold], Scale]], metric: str) -> Difference:
    """Return the relative difference of two models over several ends, each with its own scale."""
    parts = [pairs(ours, theirs, scale, metric) for ours, theirs, scale in compared]
    if not parts:
        return Difference(float("nan"), float("nan"), float("nan"), 0)
    return Pairs(
        *(np.concatenate([getattr(p, name) for p in parts]) for name in ("depot", "day", "ours", "theirs"))
    ).difference()


def _table(metric: str, ends: Sequence[End], columns: Mapping[str, Mapping[str, Difference]]) -> None:
    by_panel = _by_panel(ends)
    print(f"\n| {metric} | {WHOLE} | bias | coverage | {' | '.join(columns)} |\n|{'---|' * (4 + len(columns))}")
    for panel, mine in by_panel.items():
        measured = [measure(end.folds[WHOLE], end.scale) for end in mine]
        value, bias, coverage = (float(np.mean([of[name] for of in measured])) for name in (metric, "bias", "coverage"))
        cells = [_cell(of_panel[panel].relative, standard_error(of_panel[panel])) for of_panel in columns.values()]
        print(f"| {panel} | {value:.4f} | {100 * bias:+.1f} % | {100 * coverage:.1f} % | {' | '.join(cells)} |")
    means = [
        _mean([ratio for ratio in of_panel.values() if np.isfinite(ratio.relative)]) for of_panel in columns.values()
    ]
    print(f"| geometric mean | | | | {' | '.join(_cell(*mean) for mean in means)} |")


def _mean(differences: Sequence[Difference]) -> tuple[float, float]:
    """Return the geometric mean of relative differences of several panels, and its standard error."""
    if not differences:
        return float("nan"), float("nan")
    mean = np.expm1(np.mean([np.log1p(ratio.relative) for ratio in differences]))
    return float(mean), float(np.linalg.norm([standard_error(ratio) for ratio in differences]) / len(differences))


def _cell(relative: float, error: float) -> str:
    return f"{100 * relative:+.1f} ± {100 * error:.1f} %" if np.isfinite(relative) else ""


def standard_error(of: Difference) -> float:
    """Return the standard error of a relative difference, whose bounds are symmetric."""
    return (of.high - of.low) / 2 / NormalDist().inv_cdf(CONFIDENCE)


def _by_panel(ends: Sequence[End]) -> dict[str, list[End]]:
    panels = dict.fromkeys(end.panel for end in ends)
    return {panel: [end for end in ends if end.panel == panel] for panel in panels}


if __name__ == "__main__":
    main()
