"""Compare our model with published ones on forecasting tasks that are rebuilt from local data.

    python -m tests.benchmarks.published [--tasks a,b] [--preset quick] [--seeds 1] [--mean-of-seeds]
        [--retrain] [--again] [--prove]

First the windows are verified: in them the seasonal naive must reproduce its published MASE and
WAPE, or the published one of the two, to three digits; otherwise only both numbers are printed and
the task is skipped. Then our model is trained once before the first cutoff (`--retrain`: before
each), directly for the task's horizon, and forecasts all windows. Nothing is tuned on these
windows. A score without published values has no rank, and without a score of Chronos-2 no ratio.

Each result is appended at once to var/bench/published.jsonl, and its quantiles are a file in
var/bench/published/quantiles, so that an interrupted run can be resumed; `--again` measures again.
`--mean-of-seeds` adds a line for one more forecast, the mean of the seeds' quantiles.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from forecaster.core import artifact
from forecaster.core.arrays import Doubles
from tests.benchmarks.published import ranking
from tests.benchmarks.published.our_model import Setting, checkpoint_folder, forecast_windows
from tests.benchmarks.published.ranking import OurLine
from tests.benchmarks.published.tasks import TASKS, PublishedTask
from tests.benchmarks.published.window_scores import METRICS, mean_scores
from tests.benchmarks.published.windows import WindowsDiffer, aligned, count_forecasts, proved_windows, scores_in
from tests.benchmarks.report import FOLDER, machine

RESULTS, PICTURE = FOLDER / "published.jsonl", FOLDER / "published.svg"
Result = Mapping[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(task.name for task in TASKS))
    parser.add_argument("--preset", default="quick", choices=("quick", "nightly", "best"))
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds, from 0 on")
    parser.add_argument("--mean-of-seeds", action="store_true", help="also score the mean of all seeds' quantiles")
    parser.add_argument("--retrain", action="store_true", help="train before each window, not only before the first")
    parser.add_argument("--again", action="store_true", help="measure again instead of reading earlier results")
    parser.add_argument("--prove", action="store_true", help="only verify the windows")
    options = parser.parse_args()
    names = options.tasks.split(",")
    if unknown := set(names) - {task.name for task in TASKS}:
        parser.error(f"unknown tasks {sorted(unknown)}; choose from {', '.join(task.name for task in TASKS)}")
    if options.mean_of_seeds and options.seeds < 2:
        parser.error("--mean-of-seeds requires --seeds 2 or more")
    published, lines = ranking.published_scores(), []
    for task in (task for task in TASKS if task.name in names):
        try:
            lines += our_lines(task, published.get(task.name, {}), options)
        except (FileNotFoundError, WindowsDiffer) as error:
            print(f"{task.name} is skipped: {error}", flush=True)
    if lines:
        _show(lines, published)


def our_lines(task: PublishedTask, published: Mapping[str, ranking.Line], options: argparse.Namespace) -> list[OurLine]:
    """Return our lines on a task whose windows are verified; earlier results are read."""
    frame = task.read()
    table = aligned(frame)
    naive = published.get(ranking.NAIVE, {})
    windows, rebuilt = proved_windows(task, table, naive)
    proof = ", ".join(f"{metric} {value:.6f} ({naive[metric]:.6f})" for metric, value in rebuilt.items())
    print(f"{task.name}: {count_forecasts(windows):,} forecasts; seasonal naive (published): {proof}", flush=True)
    lines = []
    for holidays in () if options.prove else task.holidays:
        results, files = [], []
        for seed in range(options.seeds):
            setting = Setting(task.name, holidays, options.preset, seed, options.retrain)
            files.append(quantiles_file(setting))
            if options.again:
                shutil.rmtree(checkpoint_folder(setting), ignore_errors=True)
            result = None if options.again else earlier_result(setting)
            if result is None or (options.mean_of_seeds and not files[-1].exists()):
                forecasts = forecast_windows(task, frame, table, windows, setting)
                with artifact.writing(files[-1]) as new, new.open("wb") as file:
                    np.savez_compressed(file, *forecasts.quantiles)
                scores = scores_in(task, table, windows, forecasts.quantiles)
                result = write_result(setting, scores, forecasts.training_seconds, forecasts.inference_seconds)
            results.append(result)
            print(f"  {_variant(setting)}, seed {seed}: {_words(result['scores'])}", flush=True)
        lines.append(_line(setting, results))
        if options.mean_of_seeds:
            scores = scores_in(task, table, windows, mean_quantiles(files))
            lines.append(_line_of_mean(setting, results, mean_scores(scores)))
    return lines


def quantiles_file(setting: Setting) -> Path:
    """Return the file of a result's quantiles: one array (series, horizon, levels) per window."""
    return RESULTS.with_suffix("") / "quantiles" / f"{checkpoint_folder(setting).name}.npz"


def mean_quantiles(files: Sequence[Path]) -> list[Doubles]:
    """Return the mean over files of each window's quantiles; it is sorted, as the quantiles of each
    file are."""
    seeds = []
    for path in files:
        with np.load(path, allow_pickle=False) as windows:
            seeds.append(list(windows.values()))
    return [np.mean(same, axis=0) for same in zip(*seeds, strict=True)]


def _variant(setting: Setting) -> str:
    calendar = "with public holidays" if setting.holidays else "without public holidays"
    return f"{setting.preset}, {calendar}{', retrained' if setting.retrain else ''}"


def _line(setting: Setting, results: Sequence[Result]) -> OurLine:
    return OurLine(
        setting.task,
        _variant(setting),
        {metric: fmean(result["scores"][metric] for result in results) for metric in METRICS},
        len(results),
        fmean(result["training_seconds"] for result in results),
        fmean(result["inference_seconds"] for result in results),
    )


def _line_of_mean(setting: Setting, results: Sequence[Result], scores: ranking.Line) -> OurLine:
    """Return the line of the seeds' mean; its seconds are the sum over all seeds."""
    variant = f"{_variant(setting)}, mean of {len(results)} seeds"
    seconds = (sum(result[f"{work}_seconds"] for result in results) for work in ("training", "inference"))
    return OurLine(setting.task, variant, scores, len(results), *seconds, is_mean=True)


def write_result(setting: Setting, windows: list[dict[str, float]], training: float, inference: float) -> Result:
    """Append the result to its file as a line, after any partial line of a killed run."""
    result = {
        "setting": asdict(setting),
        "scores": mean_scores(windows),
        "windows": windows,
        "training_seconds": training,
        "inference_seconds": inference,
        "machine": machine(),
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("a+b") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - 1, 0))
        file.write((b"\n" if file.read() not in (b"", b"\n") else b"") + json.dumps(result).encode() + b"\n")
    return result


def earlier_result(setting: Setting) -> Result | None:
    """Return the last earlier result of the same setting, if any; partial lines are ignored."""
    same = None
    for line in RESULTS.read_text("utf-8").splitlines() if RESULTS.exists() else ():
        with suppress(json.JSONDecodeError):
            result = json.loads(line)
            same = result if result["setting"] == asdict(setting) else same
    return same


def _show(lines: Sequence[OurLine], published: Mapping[str, Mapping[str, ranking.Line]]) -> None:
    for task in dict.fromkeys(line.task for line in lines):
        of_task = [line for line in lines if line.task == task]
        print(f"\n### {task}\n\n{ranking.task_table(of_task, published[task])}")
    print(
        f"\n### our model, with its rank among {ranking.count_models(lines, published)} published models and itself\n"
    )
    print(ranking.summary_table(lines, published))
    for is_mean in sorted({line.is_mean for line in lines}):
        alike = [line for line in reversed(lines) if line.is_mean is is_mean]
        first = {line.task: line for line in alike}  # of each task the variant that knew no more than the other models
        print(f"\n{ranking.over_all(list(first.values())[::-1], published)}")
    print(f"\n{machine()}")
    PICTURE.write_text(ranking.picture(lines, published), "utf-8")
    print(f"\nWritten to {RESULTS.relative_to(FOLDER.parents[1])} and {PICTURE.relative_to(FOLDER.parents[1])}")


def _words(scores: Mapping[str, float]) -> str:
    return " ".join(f"{metric} {scores[metric]:.4f}" for metric in METRICS)


if __name__ == "__main__":
    main()
