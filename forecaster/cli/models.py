"""Commands for models: backtest, assist (distributed training), compare-hlo, warm, predict (inference), replay."""

from __future__ import annotations

import gc
import os
import sys
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from forecaster.cli.options import AsOf, File, instant, load_spec, needs_extra, print_line, print_lines
from forecaster.core.language.sentences import from_argument
from forecaster.core.terminal import escaped_lines
from forecaster.errors import DEGRADED, OUR_FAULT, PUBLISHED, SpecError

# objects allocated before a garbage collection: imports create half as many, and all of them stay
SELDOM = 500_000


class Output(StrEnum):
    """Output format of `predict --out`."""

    csv, parquet, json = "csv", "parquet", "json"


def backtest(
    file: File,
    as_of: AsOf = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every metric.")] = False,
    staffing: Annotated[
        bool, typer.Option("--staffing", help="Also the cost of rosters; default: over the last 56 days.")
    ] = False,
    days: Annotated[int | None, typer.Option(min=1, help="Number of last days, instead of `backtest.days`.")] = None,
) -> None:
    """Compare our model and its rivals on the same past days.

    Trains on the data before the last `backtest.days` days, forecasts these, and reports the winner
    and whether the difference is significant. Nothing is published.
    """
    import json

    from forecaster.core.progress import NightProgress

    spec = load_spec(file)
    with needs_extra("train"):
        from forecaster.operations.leaderboard import board
        from forecaster.staffing import cost_backtest
    if staffing or days:
        spec = cost_backtest.holdout_spec(spec, days, staffing=staffing)
    progress = NightProgress(stages=("panel", "train", "backtest"))
    with progress.live_bar():
        leaderboard = board(spec, as_of=instant(as_of, spec) or datetime.now(UTC), progress=progress, staffing=staffing)
    if as_json:
        typer.echo(json.dumps(leaderboard.to_json(), indent=2))
        return
    for line in (f"{spec.name}, {leaderboard.days}", *leaderboard.lines(), leaderboard.verdict):
        print_line(line)
    if leaderboard.rosters:
        for line in ("", f"What rosters would have cost, {leaderboard.days}", *leaderboard.rosters.lines()):
            print_line(line)


def assist(
    file: File,
    number: Annotated[int, typer.Option("--number", min=1, help="Number of this host, from 1.")],
) -> None:
    """Join the training of a run on another machine.

    Waits at most five minutes for the run to begin training; `training.hosts` declares its address.
    """
    with needs_extra("train"):
        from forecaster.training.fit_candidate import assist

    def tell(epoch: Any) -> None:
        typer.echo(f"epoch {epoch.number} of {epoch.of}: loss {epoch.loss:.5f}", err=True)

    spec = load_spec(file)
    if (hosts := spec.training.hosts) is not None and number < hosts.count:
        typer.echo(f"host {number} {hosts.wait_of(number)}", err=True)
    assist(spec, number, on_epoch=tell)


def compare_hlo(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="A folder with an XLA dump.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="Another one, of a later version.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with every program and its instructions.")
    ] = False,
) -> None:
    """Compare what XLA compiled in two versions.

    Lists new, removed and changed programs, with their instructions, fusions, FLOPs and bytes.
    """
    import json

    with needs_extra("train"):
        from forecaster.model.fitting import hlo_dumps
    comparison = hlo_dumps.compare(hlo_dumps.read_dump(before), hlo_dumps.read_dump(after))
    if as_json:
        typer.echo(json.dumps(comparison.to_json(), indent=2))
        return
    for line in comparison.lines():
        print_line(line)


def warm(
    file: File,
    as_of: AsOf = None,
    nights: Annotated[
        int, typer.Option(min=1, max=56, help="Number of coming nights: training steps grow with the days.")
    ] = 2,
) -> None:
    """Compile into the cache what the next nightly run needs.

    Run it with a new version, or on a new machine, before the nightly run, which then compiles
    nothing. Trains one epoch and keeps no model.
    """
    from forecaster.core.progress import NightProgress

    spec = load_spec(file)
    with needs_extra("train"):
        from forecaster.training import warm
    progress = NightProgress(stages=warm.STAGES)
    with progress.live_bar():
        warming = warm.warm(
            spec, file, as_of=instant(as_of, spec) or datetime.now(UTC), nights=nights, progress=progress
        )
    print_lines(warming.lines())


def predict(
    file: File,
    as_of: AsOf = None,
    bundle: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A bundle's folder or .tar.zst; default: the champion.")
    ] = None,
    out: Annotated[
        Output | None, typer.Option("--out", help="Write the forecast to standard output, one row per depot and day.")
    ] = None,
    run: Annotated[str | None, typer.Option(help="The run that this belongs to; default: a new one.")] = None,
    note: Annotated[str | None, typer.Option(help="A sentence for the page.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Publish even if the page has a forecast as of a later time.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print what was published as JSON.")] = False,
) -> None:
    """Forecast with the champion and publish; no training, no JAX.

    The page keeps a forecast as of a later time, unless --replace is given.

    If the champion is unusable, the seasonal naive is published, and the exit code is 3. If a named
    bundle is unusable, nothing is published, and the exit code is 2.
    """
    gc.set_threshold(SELDOM)
    # Read when pyarrow is first imported. Its own allocator holds 70 MB, which a short-lived
    # process does not need.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    from forecaster.ledger.publication import WITHOUT_OWN_MODEL
    from forecaster.publishing.predict import predict

    if out is not None and json:
        raise SpecError("found --out and --json, wanted one of them: both write to standard output")
    spec = load_spec(file)
    published = predict(
        spec,
        as_of=instant(as_of, spec),
        bundle=bundle,
        run_id=run,
        note=note and from_argument(note),
        replace_newer=replace,
    )
    # standard output is reserved for the forecast; messages go to standard error
    if out is not None:
        from forecaster.publishing.outcome import serialize

        sys.stdout.buffer.write(serialize(published, out.value))
        sys.stdout.flush()
    is_degraded = published.tier in WITHOUT_OWN_MODEL
    # The note of a degraded forecast goes to standard error only.
    text = published.to_json() if json else escaped_lines(published.sentence(with_note=not is_degraded))
    typer.echo(text, err=out is not None)
    if is_degraded:
        print_line(f"forecaster: degraded: {published.note}", err=True)
    raise typer.Exit(DEGRADED if is_degraded or published.trouble else PUBLISHED)


def replay(
    file: File,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Id of the run that published, as in the ledger.")],
    verify: Annotated[bool, typer.Option("--verify", help="Exit with 1 when a value differs.")] = False,
) -> None:
    """Recompute a published forecast and compare the values.

    Reads the run's bundle and what the lake knew at its instant; publishes nothing.
    """
    from forecaster.publishing.replay import replay

    report = replay(load_spec(file), run)
    for line in report.lines():
        print_line(line)
    raise typer.Exit(OUR_FAULT if verify and report.differences else 0)
