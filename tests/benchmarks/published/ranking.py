"""Our lines among the published ones: ranks, ratios to Chronos-2, tables, and a picture of where we stand."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, geometric_mean

from tests.benchmarks.published.window_scores import METRICS

FILE = Path(__file__).with_name("scores.csv")
RIVAL, NAIVE = "Chronos-2", "Seasonal Naive"
Line = Mapping[str, float]
WIDTH, ROW, MARGIN = 760, 54, 190  # of the picture, in pixels


@dataclass(frozen=True)
class OurLine:
    """What our model, in one variant, got on a task: means over its seeds."""

    task: str
    variant: str
    scores: Line
    seeds: int
    training_seconds: float
    inference_seconds: float


def published_scores(file: Path = FILE) -> dict[str, dict[str, Line]]:
    """Task → model → its scores and seconds. Lines that begin with # say whence they are."""
    tasks: dict[str, dict[str, Line]] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(line for line in lines if not line.startswith("#")):
            task, model = row.pop("dataset_config"), row.pop("model_name")
            tasks.setdefault(task, {})[model] = {name: float(value) for name, value in row.items()}
    return tasks


def rank(value: float, others: Iterable[float]) -> int:
    """The place, from 1, of a score among those of others; below is better, and a tie takes the better place."""
    return 1 + sum(other < value for other in others)


def ranks(line: OurLine, published: Mapping[str, Line]) -> dict[str, int]:
    return {metric: rank(line.scores[metric], (row[metric] for row in published.values())) for metric in METRICS}


def ratio_to(rival: str, lines: Sequence[OurLine], published: Mapping[str, Mapping[str, Line]], metric: str) -> float:
    """The geometric mean over tasks of our score by the rival's."""
    return geometric_mean(line.scores[metric] / published[line.task][rival][metric] for line in lines)


def task_table(lines: Sequence[OurLine], published: Mapping[str, Line]) -> str:
    """One task: the published models by their MASE, ours among them."""
    rows = [
        (row["MASE"], _row(model, row, row["training_time_s"], row["inference_time_s"]))
        for model, row in published.items()
    ]
    for line in lines:
        name = f"**ours, {line.variant}**"
        rows.append((line.scores["MASE"], _row(name, line.scores, line.training_seconds, line.inference_seconds)))
    head = f"| model | {' | '.join(METRICS)} | s to train | s to forecast |\n|{'---|' * (len(METRICS) + 3)}"
    return "\n".join([head, *(text for _, text in sorted(rows))])


def summary_table(lines: Sequence[OurLine], published: Mapping[str, Mapping[str, Line]]) -> str:
    """Our lines alone: scores, each with its rank among the published ones, and seconds."""
    head = (
        f"| task | ours | {' | '.join(METRICS)} | seeds | s to train | s to forecast |\n|{'---|' * (len(METRICS) + 5)}"
    )
    rows = []
    for line in lines:
        place = ranks(line, published[line.task])
        scores = " | ".join(f"{line.scores[metric]:.4f} ({place[metric]})" for metric in METRICS)
        seconds = f"{line.training_seconds:.0f} | {line.inference_seconds:.0f}"
        rows.append(f"| {line.task} | {line.variant} | {scores} | {line.seeds} | {seconds} |")
    return "\n".join([head, *rows])


def over_all(lines: Sequence[OurLine], published: Mapping[str, Mapping[str, Line]]) -> str:
    """Of one line a task: the ratios to Chronos-2 and the average ranks."""
    count = len(next(iter(published.values()))) + 1
    ratios = ", ".join(f"{metric} {ratio_to(RIVAL, lines, published, metric):.3f}" for metric in METRICS)
    places = [ranks(line, published[line.task]) for line in lines]
    average = ", ".join(f"{metric} {fmean(place[metric] for place in places):.1f}" for metric in METRICS)
    tasks = ", ".join(f"{line.task} ({line.variant})" for line in lines)
    return f"Over {tasks}:\nratio to {RIVAL}, geometric mean: {ratios}\naverage rank, of {count}: {average}"


def picture(lines: Sequence[OurLine], published: Mapping[str, Mapping[str, Line]], metric: str = "MASE") -> str:
    """An SVG: one row a task, each model a stroke at its rank, ours a labelled dot, the rival and the naive by name."""
    tasks = list(dict.fromkeys(line.task for line in lines))
    parts = []
    for number, task in enumerate(tasks):
        y, count = ROW * (number + 1), len(published[task]) + 1
        x = {place: MARGIN + (WIDTH - MARGIN - 30) * (place - 1) / (count - 1) for place in range(1, count + 1)}
        parts.append(f'<text x="8" y="{y + 4}">{task}</text>')
        parts += [f'<path class="line" d="M{x[place]:.1f} {y - 6}v12"/>' for place in x]
        for model in (RIVAL, NAIVE):
            place = rank(published[task][model][metric], (row[metric] for row in published[task].values()))
            parts.append(f'<text class="name" x="{x[place]:.1f}" y="{y + 20}">{model}</text>')
        for line in (line for line in lines if line.task == task):
            place = rank(line.scores[metric], (row[metric] for row in published[task].values()))
            parts.append(f'<circle cx="{x[place]:.1f}" cy="{y}" r="6"><title>{line.variant}</title></circle>')
            parts.append(f'<text class="name" x="{x[place]:.1f}" y="{y - 10}">{place}</text>')
    height = ROW * (len(tasks) + 1)
    style = (
        "text{font:13px sans-serif;fill:currentColor}.name{font-size:11px;text-anchor:middle}"
        "path{stroke:#8aa}circle{fill:#0a7d5a}"
    )
    label = f"Ranks of our model by {metric} among {len(next(iter(published.values())))} published ones; left is best"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">'
        f"<style>{style}</style>{''.join(parts)}</svg>\n"
    )


def _row(name: str, scores: Line, training: float, inference: float) -> str:
    numbers = " | ".join(f"{scores[metric]:.4f}" for metric in METRICS)
    return f"| {name} | {numbers} | {training:.0f} | {inference:.0f} |"
