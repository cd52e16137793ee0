"""The part of the performance gate that takes seconds: ratios within one process, interleaved, best
of many.

    make bench-gate                                    exits with 1 if a ratio is below two thirds of the baseline
    python -m tests.benchmarks.ratios --reason "…"     writes the current ratios into `baseline.json`, with the reason

Other work on the machine slows down both sides of a ratio, and the best of many tries was rarely
delayed. Still it is no test: a machine that is busy enough delays all tries.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.dashboards.visitor import Get

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "1")  # both sides of a ratio on one device
os.environ.setdefault("OMP_NUM_THREADS", "1")

LEAST = 2 / 3  # share of the baseline's ratio
SIZE = (64, 168)  # depots and days of a step
DEPOTS = 64  # per call of the graph
Side = Callable[[], object]


def ratios(tries: int) -> Iterator[tuple[str, float]]:
    """Yield, by name, how many times as long the alternative takes; higher is better for ours."""
    for name, (ours, theirs, share) in _pairs().items():
        yield name, _best_ratio(ours, theirs, max(round(tries * share), 3))


def _best_ratio(ours: Side, theirs: Side, tries: int) -> float:
    """Return the best time of theirs divided by the best of ours, run in turn; the first two
    rounds, which compile, do not count."""
    best = [float("inf")] * 2
    for number in range(2 + tries):
        for side, call in enumerate((ours, theirs)):
            begun = time.perf_counter()
            call()
            if number >= 2:
                best[side] = min(best[side], time.perf_counter() - begun)
    return best[1] / best[0]


def _pairs() -> dict[str, tuple[Side, Side, float]]:
    """Return ours, the alternative, and the share of the tries, because some take longer."""
    return {
        "step: plain scan over ours": (*_steps(), 0.5),
        "forecast: NumPy over ONNX": (*_forecasts(), 0.25),
        "page: first answer over kept": (*_answers(), 0.25),
    }


def _steps() -> tuple[Side, Side]:
    """Return training steps with our compiled recurrence, and with flax's cells in `lax.scan`."""
    from forecaster.model.network import gru_cpu
    from tests.benchmarks.speed_steps import Size, as_trained, in_jax, with_flax_cells

    if not gru_cpu.ready():
        raise SystemExit("the recurrence is not compiled here (no C++ compiler), so there is nothing to compare")
    return as_trained(Size(*SIZE)), in_jax(with_flax_cells, Size(*SIZE))


def _forecasts() -> tuple[Side, Side]:
    """Return the exported graph of a model of the sample's size, and the same model in NumPy."""
    from forecaster.model.export import to_onnx
    from forecaster.serving import bundle, predict
    from forecaster.serving.numpy_model import ReferenceModel
    from tests.benchmarks.counts import untrained
    from tests.panels import panel

    candidate = untrained()
    about = to_onnx.about(candidate)
    session = predict.session(to_onnx.to_graph(candidate))
    reference = ReferenceModel(bundle.npz(to_onnx.weights(candidate)), about)
    inputs = panel(depots=DEPOTS, history=500).window(about["lookback"])
    return lambda: predict.run(session, inputs), lambda: reference(inputs)


def _answers() -> tuple[Side, Side]:
    """Return the cached front page, and the front page of a new page that reads the ledger."""
    from dashboards.ops.reading import store
    from tests.dashboards.seed import earlier, fill, publication, remember, with_plans
    from tests.dashboards.visitor import visitor

    store.REREAD_SECONDS = 600.0  # on a busy machine, a second may pass between two requests
    folder = tempfile.TemporaryDirectory()  # lives as long as the two functions
    url = f"sqlite:///{folder.name}/ledger.db"
    fill(url, earlier(), with_plans(publication()))
    remember(url)
    cached = visitor(url)

    def ask(get: Get) -> None:
        assert get("/").status_code == 200, folder

    return lambda: ask(cached), lambda: ask(visitor(url))


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.ratios")
    parser.add_argument(
        "--tries", type=int, default=40, help="number of tries; more reduce the influence of other work"
    )
    parser.add_argument("--reason", help="reason for the current ratios; writes them into the baseline")
    options = parser.parse_args(words)
    if options.reason is not None and not options.reason.strip():
        parser.error("--reason: found nothing, wanted a sentence that explains the current ratios")
    from tests.benchmarks import baseline

    content, now = baseline.load(), dict(ratios(options.tries))
    before = content.get("ratios", {})
    failed = [name for name, ratio in now.items() if name in before and ratio < LEAST * before[name]]
    for name, ratio in now.items():
        least = f"baseline {before[name]:.2f}, at least {LEAST * before[name]:.2f}" if name in before else "no baseline"
        print(f"{name}: {ratio:.2f} times ({least}){': BELOW' if name in failed else ''}")
    if options.reason is not None:
        baseline.FILE.write_text(baseline.text(_with_ratios(content, now, options.reason)), "utf-8")
        return 0
    return 1 if failed or now.keys() - before.keys() else 0


def _with_ratios(content: dict[str, Any], now: dict[str, float], reason: str) -> dict[str, Any]:
    before = content.get("ratios", {})
    changes = [f"{name}: {before.get(name, 'none')} before, now {ratio:.2f}" for name, ratio in now.items()]
    entry = {"on": str(datetime.now(UTC).date()), "reason": reason.strip(), "changes": changes}
    history = [*content.pop("history"), entry]
    return {**content, "ratios": {name: round(ratio, 2) for name, ratio in now.items()}, "history": history}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
