"""Our lines among the published ones: ranks, ratios to Chronos-2, tables, and a picture of the
ranks."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import fmean, geometric_mean

from tests.benchmarks.published.window_scores import METRICS

FILE = Path(__file__).with_name("scores.csv")
RIVAL, NAIVE = "Chronos-2", "Seasonal Naive"
Line = Mapping[str, float]
WIDTH, ROW, MARGIN = 760, 54, 190  # of the picture, in pixels


@dataclass(frozen=True)
class OurLine:
    """Result of one variant of our model on a task: mean scores over its seeds, or scores of the
    mean of their quantiles."""

    task: str
    variant: str
    scores: Line
    seeds: int
    training_seconds: float
    inference_seconds: float
    is_mean: bool = False  # the scores are those of the mean of the seeds' quantiles


def published_scores(file: Path = FILE) -> dict[str, dict[str, Line]]:
    """Return task → model → scores and seconds, without blank ones. Lines that begin with # name
    the sources."""
    tasks: dict[str, dict[str, Line]] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(line for line in lines if not line.startswith("#")):
            task, model = row.pop("dataset_config"), row.pop("model_name")
            tasks.setdefault(task, {})[model] = {name: float(value) for name, value in row.items() if value}
    return tasks


def rank(value: float, others: Iterable[float]) -> int:
    """Return the rank, from 1, of a score among those of others; lower is better, and a tie gets
    the better rank."""
    return 1 + sum(other < value for other in others)


def published_values(metric: str, published: Mapping[str, Line]) -> list[float]:
    """Return the scores of those models of a task that have one."""
    return [row[metric] for row in published.values() if metric in row]


def ranks(line: OurLine, published: Mapping[str, Line]) -> dict[str, int]:
    """Return the rank by each metric that some published model of the task has, among the models
    that have it."""
    values = {metric: published_values(metric, published) for metric in METRICS}
    return {metric: rank(line.scores[metric], others) for metric, others in values.items() if others}


def count_models(lines: Iterable[OurLine], published: Mapping[str, Mapping[str, Line]], ours: int = 0) -> str:
    """Return the number of published models on the tasks of the lines, plus `ours`, as words: "30",
    or "25 or 30"."""
    return " or ".join(str(count) for count in sorted({len(published[line.task]) + ours for line in lines}))


def task_table(lines: Sequence[OurLine], published: Mapping[str, Line]) -> str:
    """Return the table of one task, ours included, ordered by MASE, or by the first metric that
    published models have."""
    rows = dict(published)
    for line in lines:
        seconds = {"training_time_s": line.training_seconds, "inference_time_s": line.inference_seconds}
        rows[f"**ours, {line.variant}**"] = {**line.scores, **seconds}
    by = next((metric for metric in METRICS if published_values(metric, published)), METRICS[0])
    head = f"| model | {' | '.join(METRICS)} | s to train | s to forecast |\n|{'---|' * (len(METRICS) + 3)}"
    order = sorted(rows, key=lambda model: rows[model].get(by, inf))
    return "\n".join([head, *(_row(model, rows[model]) for model in order)])


def summary_table(lines: Sequence[OurLine], published: Mapping[str, Mapping[str, Line]]) -> str:
    """Return a table of our lines only: scores with their rank among published ones, if there are
    some, and seconds."""
    head = (
        f"| task | ours | {' | '.join(METRICS)} | seeds | s to train | s to forecast |\n|{'---|' * (len(METRICS) + 5)}"
    )
    rows = []
    for line in lines:
        ranked = {metric: f" ({number})" for metric, number in ranks(line, published[line.task]).items()}
        scores = " | ".join(f"{line.scores[metric]:.4f}{ranked.get(metric, '')}" for metric in METRICS)
        seconds = f"{line.training_seconds:.0f} | {line.inference_seconds:.0f}"
        rows.append(f"| {line.task} | {line.variant} | {scores} | {line.seeds} | {seconds} |")
    return "\n".join([head, *rows])


def over_all(lines: Sequence[OurLine], published: Mapping[str, Mapping[str, Line]]) -> str:
    """Return, for one line per task, the ratios to Chronos-2 and the average ranks, each with its
    number of tasks."""
    places = [ranks(line, published[line.task]) for line in lines]
    rivals = [(line.scores, published[line.task].get(RIVAL, {})) for line in lines]
    ratios, average = [], []
    for metric in METRICS:
        if to_rival := [scores[metric] / rival[metric] for scores, rival in rivals if metric in rival]:
            ratios.append(f"{metric} {geometric_mean(to_rival):.3f} ({len(to_rival)})")
        if of_metric := [place[metric] for place in places if metric in place]:
            average.append(f"{metric} {fmean(of_metric):.1f} ({len(of_metric)})")
    tasks = ", ".join(f"{line.task} ({line.variant})" for line in lines)
    return (
        f"Over {tasks}; number of tasks in parentheses:\n"
        f"ratio to {RIVAL}, geometric mean: {', '.join(ratios) or 'none'}\n"
        f"average rank, of {count_models(lines, published, ours=1)}: {', '.join(average)}"
    )


def picture(lines: Sequence[OurLine], published: Mapping[str, Mapping[str, Line]], metric: str = "MASE") -> str:
    """Return an SVG with a row for each task with the metric: a stroke per rank, a dot for ours,
    and the names of rival and naive."""
    lines = [line for line in lines if published_values(metric, published[line.task])]
    tasks = list(dict.fromkeys(line.task for line in lines))
    parts = []
    for number, task in enumerate(tasks):
        values = published_values(metric, published[task])
        y, count = ROW * (number + 1), len(values) + 1
        x = {place: MARGIN + (WIDTH - MARGIN - 30) * (place - 1) / (count - 1) for place in range(1, count + 1)}
        parts.append(f'<text x="8" y="{y + 4}">{task}</text>')
        parts += [f'<path class="line" d="M{x[place]:.1f} {y - 6}v12"/>' for place in x]
        for model in (model for model in (RIVAL, NAIVE) if metric in published[task].get(model, {})):
            place = rank(published[task][model][metric], values)
            parts.append(f'<text class="name" x="{x[place]:.1f}" y="{y + 20}">{model}</text>')
        for line in (line for line in lines if line.task == task):
            place = rank(line.scores[metric], values)
            parts.append(f'<circle cx="{x[place]:.1f}" cy="{y}" r="6"><title>{line.variant}</title></circle>')
            parts.append(f'<text class="name" x="{x[place]:.1f}" y="{y - 10}">{place}</text>')
    height = ROW * (len(tasks) + 1)
    style = (
        "text{font:13px sans-serif;fill:currentColor}.name{font-size:11px;text-anchor:middle}"
        "path{stroke:#8aa}circle{fill:#0a7d5a}"
    )
    label = f"Ranks of our model by {metric} among published ones; left is best"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">'
        f"<style>{style}</style>{''.join(parts)}</svg>\n"
    )


def _row(name: str, line: Line) -> str:
    digits = {**dict.fromkeys(METRICS, 4), "training_time_s": 0, "inference_time_s": 0}
    cells = (f"{line[column]:.{places}f}" if column in line else "" for column, places in digits.items())
    return f"| {name} | {' | '.join(cells)} |"
