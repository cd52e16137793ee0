"""Commands for the nightly run, its backfill and its schedule: run, plan, apply, deploy, status."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forecaster.cli.options import (
    AsOf,
    File,
    Plain,
    command_here,
    entry_point,
    instant,
    load_spec,
    parsed_time,
    print_lines,
)
from forecaster.config import credentials
from forecaster.errors import DEGRADED, PUBLISHED, LedgerError, NoLedger, SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forecaster.config import Spec


def run(
    file: File,
    as_of: AsOf = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Write a trace of two training epochs, for JAX's profile viewers.")
    ] = False,
    plain: Plain = False,
    due: Annotated[
        bool, typer.Option("--due", help="Run only if tonight's forecasts are missing; missed nights are made up.")
    ] = False,
    past: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="NIGHTS",
            help="Also publish this number of earlier nights with the model just trained, which has not seen them.",
        ),
    ] = 0,
) -> None:
    """Run the night, from the sources to the page.

    Ingest, train, backtest, judge, export, promote, predict, publish.
    """
    spec = load_spec(file)
    if past > spec.backtest.days:
        raise SpecError(
            f"--past: found {past} nights, wanted at most the {spec.backtest.days} of backtest.days: of days before "
            "them the model has seen what came"
        )
    if as_of is None and not (due and _nothing_is_due(spec)):
        _refuse_archive(spec, file, "run")
    code = int(
        entry_point("nightly")(file, spec, instant(as_of, spec), profile=profile, plain=plain, due=due, past=past)
    )
    if code in (PUBLISHED, DEGRADED):
        typer.echo(f"The page: {command_here('forecaster')} serve {file}   then open http://127.0.0.1:8000")
        for line in _places(spec):
            typer.echo(line)
    raise typer.Exit(code)


def _nothing_is_due(spec: Spec) -> bool:
    """Return true if every night has its forecasts. Raises LedgerError if the ledger is unreadable."""
    from forecaster.ledger.store import Ledger
    from forecaster.operations import due_nights

    try:
        with Ledger.open_reader(spec.ledger_url) as ledger:
            return not due_nights.missed_nights(spec, ledger, datetime.now(UTC))
    except NoLedger:
        return False


def _places(spec: Spec) -> Iterator[str]:
    """Lines with the URLs of the last nightly run and its report."""
    from forecaster.ledger.store import Ledger
    from forecaster.registry import addresses

    try:
        with Ledger.open_reader(spec.ledger_url) as ledger:
            runs = ledger.runs(spec.name, limit=1, nights=True)
    except LedgerError as error:  # the forecast is out; a missing URL of its run must not change the exit code
        yield f"The run:  not known: {error}"
        return
    if not runs:
        return
    run_id = runs[0].run_id
    registered, base = addresses.registered_run(spec, run_id), addresses.base_address(spec)
    start = ""
    if base is None:
        base = addresses.UI
        registry = credentials.hide(spec.registry_url)
        start = f"{command_here('mlflow')} ui --backend-store-uri {registry}   then open "
    if registered is None:
        yield "The run:  MLflow was not told of it yet, or it trained nothing"
    else:
        yield f"The runs: {start}{registered.table(base)}"
    if spec.paths.report_of(run_id).is_file():
        yield f"Its report: {spec.paths.report_of(run_id).resolve().as_uri()}"


def predict_only(file: File, as_of: AsOf = None, plain: Plain = False) -> None:
    """Refresh the forecasts with late data; no training.

    Reads the sources, forecasts with the champion, publishes.
    """
    spec = load_spec(file)
    if as_of is None:
        _refuse_archive(spec, file, "predict-only")
    raise typer.Exit(int(entry_point("refresh")(file, spec, instant(as_of, spec), plain=plain)))


def backfill(
    file: File,
    first: Annotated[str, typer.Option("--from", metavar="DATE", help="The first day.")],
    last: Annotated[str, typer.Option("--to", metavar="DATE", help="The last day.")],
    train: Annotated[bool, typer.Option("--train", help="Train a model as of each date; none is promoted.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Also dates that already have forecasts.")] = False,
    plain: Plain = False,
) -> None:
    """Forecast past dates into the archive, oldest first."""
    spec = load_spec(file)
    days = [
        parsed_time(name, text, "a day such as 2026-11-01").date() for name, text in (("--from", first), ("--to", last))
    ]
    raise typer.Exit(int(entry_point("backfill")(file, spec, *days, trains=train, again=again, plain=plain)))


def maintain(file: File, plain: Plain = False) -> None:
    """Compact the lake, and remove what exceeds its retention."""
    raise typer.Exit(int(entry_point("maintain")(file, load_spec(file), plain=plain)))


def plan(file: File) -> None:
    """Show what the next run would do and change; change nothing.

    Compares with the last published night: the pipeline file key by key, depots, calendar, what
    would be reused.
    """
    from forecaster.operations import plan as plans

    print_lines(plans.plan(load_spec(file), file, datetime.now(UTC)))


def apply(file: File) -> None:
    """Deploy what `plan` showed."""
    from forecaster.operations import plan as plans

    spec = load_spec(file)
    plans.require_plan(spec, file)
    print_lines(entry_point("deploy")(file, spec))


def deploy(file: File) -> None:
    """Deploy the flows and their schedule to Prefect."""
    print_lines(entry_point("deploy")(file, load_spec(file)))


def up(
    file: File,
    prefect_port: Annotated[int, typer.Option(min=1, max=65535, help="Of Prefect's server.")] = 4200,
    mlflow_port: Annotated[int, typer.Option(min=1, max=65535, help="Of MLflow.")] = 5000,
    page_port: Annotated[int, typer.Option(min=1, max=65535, help="Of the page.")] = 8000,
    metrics_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Address of the page's metrics for Prometheus; default: none.")
    ] = None,
    install: Annotated[
        bool,
        typer.Option("--install", help="Only print systemd units that keep this running, for ~/.config/systemd/user."),
    ] = False,
    system: Annotated[bool, typer.Option("--system", help="With --install: for /etc/systemd/system.")] = False,
) -> None:
    """Start server, worker, MLflow and page; Ctrl-C stops them.

    A part that exits is restarted, with growing pauses.
    """
    ports = {"prefect": prefect_port, "mlflow": mlflow_port, "page": page_port}
    ports |= {"metrics": metrics_port} if metrics_port is not None else {}
    if system and not install:
        raise SpecError("--system: wanted --install with it")
    if install:
        for unit in entry_point("units")(file, load_spec(file), ports, system=system):
            typer.echo(unit)
        return
    entry_point("up")(file, load_spec(file), ports, typer.echo)


def status(file: File) -> None:
    """Show what is up, what comes next, and how the last run went."""
    print_lines(entry_point("status")(load_spec(file), datetime.now(UTC)))


def _refuse_archive(spec: Spec, file: Path, command: str) -> None:
    from forecaster.operations import long_past

    long_past.refuse_archive(spec, file, command, now=datetime.now(UTC))
