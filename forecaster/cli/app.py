"""The commands. Each is one call deep, and imports what it needs only when it is called."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import sys
import traceback
from datetime import UTC, datetime, time
from enum import StrEnum
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from forecaster import __version__
from forecaster.cli import access, backup, champions, overrides, quarantine
from forecaster.errors import DEGRADED, NO_DATA, OUR_FAULT, PUBLISHED, ForecasterError, MissingExtra, SpecError

if TYPE_CHECKING:
    from forecaster.config import Spec

DEBUG = "FORECASTER_DEBUG"
INTERRUPTED = 130
YEARS = range(1970, 2200)
SELDOM = 500_000  # objects, after which a prediction looks for garbage: it imports half as many, and all of them stay

app = typer.Typer(
    help="Forecast daily demand for every depot, from one pipeline file.",
    epilog=f"""\b
Exit codes:
  0  done; with `run` and `predict`: published
  1  our fault; {DEBUG}=1 shows where
  2  the pipeline file or the command line is wrong, or a part is not installed
  3  published in degraded mode: something failed, or no model forecasts yet
  4  no usable data
  5  another run is at work on the pipeline""",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class Output(StrEnum):
    """How `predict --out` writes."""

    csv, parquet, json = "csv", "parquet", "json"


File = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file.")]
AsOf = Annotated[
    str | None,
    typer.Option(metavar="DATE", help="Use only what was recorded by then: a day (its scheduled hour) or an instant."),
]
Plain = Annotated[bool, typer.Option("--plain", help="Without Prefect: the same stages, called one after the other.")]


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"forecaster {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What may stand before every command."""


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    end: Annotated[
        str | None, typer.Option(metavar="DATE", help="The sample's last day; yesterday by default.")
    ] = None,
) -> None:
    """Make a folder to start from: pipeline file and sample data."""
    from forecaster.operations import starter

    last = _parsed("--end", end, "a day such as 2026-11-01").date() if end is not None else None
    typer.echo(starter.create(folder, end=last))


@app.command()
def check(
    file: File,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="PATH", help="Where the page goes; check.html in `state` by default."),
    ] = None,
) -> None:
    """Try a pipeline file against its sources; change nothing.

    Reads every source, holds the rows against the contract, and says what a night would start from, on one screen and,
    with pictures, as an HTML page. Exits with 4 when no forecast can start from the data.
    """
    spec = _load(file)
    from rich.console import Console

    from forecaster.check import dry_run as trials
    from forecaster.check import html_report, text_report

    console, now = Console(highlight=False, emoji=False), datetime.now(UTC)
    if adapt := getattr(sys.stdout, "reconfigure", None):
        adapt(errors="replace")  # a letter that the screen does not have becomes a question mark
    trial = trials.check(spec, now=now)
    look = {"tables": console.is_terminal, "ascii_only": console.options.ascii_only}
    for part in text_report.told(trial, width=console.width if console.is_terminal else text_report.WIDTH, **look):
        console.print(part, markup=False, soft_wrap=isinstance(part, str))
    console.print(html_report.written(trial, html, now=now), markup=False, soft_wrap=True)
    console.print(text_report.verdict(trial), markup=False, soft_wrap=True)
    raise typer.Exit(NO_DATA if trial.fault else 0)


@app.command()
def run(
    file: File,
    as_of: AsOf = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Leave a trace of two epochs of training, for JAX's profile viewers.")
    ] = False,
    plain: Plain = False,
    due: Annotated[
        bool, typer.Option("--due", help="Only where tonight's forecasts are missing; missed nights are made up for.")
    ] = False,
) -> None:
    """Run the night, from the sources to the page.

    Ingest, train, backtest, judge, export, promote, predict, publish.
    """
    spec = _load(file)
    code = int(_line("nightly")(file, spec, _instant(as_of, spec), profile=profile, plain=plain, due=due))
    if code in (PUBLISHED, DEGRADED):
        typer.echo(
            f"The page: {_called('forecaster')} serve {file}   then open http://127.0.0.1:8000\n"
            f"The run:  {_called('mlflow')} ui --backend-store-uri {spec.registry_url}"
        )
    raise typer.Exit(code)


@app.command("predict-only")
def predict_only(file: File, as_of: AsOf = None, plain: Plain = False) -> None:
    """Refresh the forecasts with late data; no training.

    Reads the sources, forecasts with the champion, publishes.
    """
    spec = _load(file)
    raise typer.Exit(int(_line("refresh")(file, spec, _instant(as_of, spec), plain=plain)))


@app.command()
def backfill(
    file: File,
    first: Annotated[str, typer.Option("--from", metavar="DATE", help="The first day.")],
    last: Annotated[str, typer.Option("--to", metavar="DATE", help="The last day.")],
    train: Annotated[bool, typer.Option("--train", help="Train a model as of each date; none is promoted.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Also dates that have forecasts.")] = False,
    plain: Plain = False,
) -> None:
    """Forecast past dates into the archive, the oldest first."""
    spec = _load(file)
    days = [
        _parsed(name, text, "a day such as 2026-11-01").date() for name, text in (("--from", first), ("--to", last))
    ]
    raise typer.Exit(int(_line("backfill")(file, spec, *days, trains=train, again=again, plain=plain)))


@app.command()
def maintain(file: File, plain: Plain = False) -> None:
    """Tidy the lake, and remove what was kept long enough."""
    raise typer.Exit(int(_line("maintain")(file, _load(file), plain=plain)))


@app.command()
def backtest(
    file: File,
    as_of: AsOf = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with every metric.")] = False,
    staffing: Annotated[
        bool, typer.Option("--staffing", help="Also what rosters would have cost; the last 56 days by default.")
    ] = False,
    days: Annotated[int | None, typer.Option(min=1, help="So many last days, in the place of `backtest.days`.")] = None,
) -> None:
    """Compare our model and its rivals on the same past days.

    Trains on what the lake held before the last `backtest.days` days, forecasts these, and says who wins and whether
    that is more than chance. Nothing is published.
    """
    import json

    from forecaster.core.progress import Night

    spec = _load(file)
    try:
        from forecaster.operations.leaderboard import board
        from forecaster.staffing import cost_backtest
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{error}; this command needs: pip install 'forecaster[train]'") from error
    if staffing or days:
        spec = cost_backtest.of_days(spec, days, staffing=staffing)
    progress = Night(stages=("panel", "train", "backtest"))
    with progress.shown():
        found = board(spec, as_of=_instant(as_of, spec) or datetime.now(UTC), progress=progress, staffing=staffing)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
        return
    for line in (f"{spec.name}, {found.days}", *found.lines(), found.verdict):
        typer.echo(line)
    if found.rosters:
        for line in ("", f"What rosters would have cost, {found.days}", *found.rosters.lines()):
            typer.echo(line)


@app.command()
def assist(
    file: File,
    number: Annotated[int, typer.Option("--number", min=1, help="Which host this is, from 1.")],
) -> None:
    """Train beside a night that runs on another machine.

    Waits at most five minutes for the night to come to its training; `training.hosts` says where that is.
    """
    try:
        from forecaster.training.fit_candidate import assist
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{error}; this command needs: pip install 'forecaster[train]'") from error

    def tell(epoch: Any) -> None:
        typer.echo(f"epoch {epoch.number} of {epoch.of}: loss {epoch.loss:.5f}", err=True)

    assist(_load(file), number, on_epoch=tell)


@app.command()
def predict(
    file: File,
    as_of: AsOf = None,
    bundle: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A bundle's folder or .tar.zst; the champion by default.")
    ] = None,
    out: Annotated[
        Output | None, typer.Option("--out", help="Write the forecast to standard output, a row a depot and day.")
    ] = None,
    run: Annotated[str | None, typer.Option(help="The run this belongs to; a new one by default.")] = None,
    note: Annotated[str | None, typer.Option(help="A sentence for the page.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Say what was published as JSON.")] = False,
) -> None:
    """Forecast with the champion and publish; no training, no JAX.

    Without a bundle that can be used, the seasonal naive goes out, and the command exits with 3.
    """
    gc.set_threshold(SELDOM)
    from forecaster.publishing.predict import predict_alone

    if out is not None and json:
        raise SpecError("found --out and --json, wanted one of them: both write to standard output")
    spec = _load(file)
    published = predict_alone(spec, as_of=_instant(as_of, spec), bundle=bundle, run_id=run, note=note)
    if out is not None:
        from forecaster.publishing.file_formats import written

        sys.stdout.buffer.write(written(published, out.value))
        sys.stdout.flush()
    typer.echo(published.to_json() if json else published.sentence(), err=out is not None)
    if published.tier == "fallback":
        typer.echo(f"forecaster: degraded: {published.note}", err=True)
    raise typer.Exit(DEGRADED if published.tier == "fallback" or published.trouble else PUBLISHED)


@app.command()
def replay(
    file: File,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run that published, as the ledger names it.")],
    verify: Annotated[bool, typer.Option("--verify", help="Exit with 1 when a value differs.")] = False,
) -> None:
    """Make a published forecast again and compare the values.

    Reads the run's bundle and what the lake knew at its instant; publishes nothing.
    """
    from forecaster.publishing.replay import replay

    found = replay(_load(file), run)
    for line in found.lines():
        typer.echo(line)
    raise typer.Exit(OUR_FAULT if verify and found.differences else 0)


@app.command()
def serve(
    file: File,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
) -> None:
    """Show the forecasts as a web page."""
    _line("page")(_load(file), host=host, port=port)


@app.command()
def plan(file: File) -> None:
    """Show what tonight would do and what differs; change nothing.

    Compares with the last published night: the pipeline file key by key, depots, calendar, what would be reused.
    """
    from forecaster.operations import plan as plans

    for line in plans.plan(_load(file), file, datetime.now(UTC)):
        typer.echo(line)


@app.command()
def apply(file: File) -> None:
    """Deploy what `plan` has shown."""
    from forecaster.operations import plan as plans

    spec = _load(file)
    plans.planned(spec, file)
    _tell(_line("deploy")(file, spec))


@app.command()
def deploy(file: File) -> None:
    """Declare the flows and their schedule to Prefect."""
    _tell(_line("deploy")(file, _load(file)))


@app.command()
def up(
    file: File,
    prefect_port: Annotated[int, typer.Option(min=1, max=65535, help="Of Prefect's server.")] = 4200,
    mlflow_port: Annotated[int, typer.Option(min=1, max=65535, help="Of MLflow.")] = 5000,
    page_port: Annotated[int, typer.Option(min=1, max=65535, help="Of the page.")] = 8000,
) -> None:
    """Start server, worker, MLflow and page; Ctrl-C stops them."""
    ports = {"prefect": prefect_port, "mlflow": mlflow_port, "page": page_port}
    _line("up")(file, _load(file), ports, typer.echo)


@app.command()
def status(file: File) -> None:
    """Say what is up, what comes next, and how the last run went."""
    _tell(_line("status")(_load(file), datetime.now(UTC)))


app.add_typer(quarantine.quarantine, name="quarantine")
app.command()(quarantine.history)
for command in (champions.champions, champions.promote, champions.rollback, access.link, access.links, access.audit):
    app.command()(command)
for each in overrides.COMMANDS:
    app.command()(each)
app.command()(backup.backup)
app.command()(backup.restore)


@app.command()
def schema() -> None:
    """Print the JSON Schema of the pipeline file, for editors."""
    import json

    from forecaster.config import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


@app.command()
def doctor(file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="The pipeline file.")] = None) -> None:
    """Say what is installed and what state a pipeline is in.

    Versions, devices, memory, disk and port; with a file also its lake, ledger, last run, publication and champion.
    Exits with 1 when something is broken.
    """
    spec = _load(file) if file else None
    from forecaster.operations.doctor import examine

    broken = False
    for sign in examine(spec, now=datetime.now(UTC)):
        typer.echo(str(sign))
        broken |= sign.state == "broken"
    raise typer.Exit(OUR_FAULT if broken else 0)


def main() -> None:
    """Run a command; what a user can cause is told in sentences, and a traceback is shown only to those who ask."""
    atexit.register(gc.freeze)  # else Python looks through all that is there, several times, before it ends
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except ForecasterError as error:
        _fail(str(error), error.exit_code)
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        _fail(f"our fault, not yours: {told}\n{DEBUG}=1 shows the traceback", OUR_FAULT)


def _fail(sentence: str, code: int) -> NoReturn:
    if os.environ.get(DEBUG):
        traceback.print_exc()
    typer.echo(f"forecaster: {sentence}", err=True)
    sys.exit(code)


def _tell(lines: Any) -> None:
    for line in lines:
        typer.echo(str(line))


def _called(command: str) -> str:
    """How this shell calls a command that is installed beside ours."""
    beside = Path(sys.argv[0]).with_name(command)
    return str(beside) if shutil.which(command) is None and beside.is_file() else command


def _load(file: Path) -> Spec:
    from forecaster.config import load

    return load(file)


def _line(name: str) -> Any:
    """What another part of the project offers under the entry-point group `forecaster.lines`."""
    extra = {"nightly": "train,flows", "page": "dashboard"}.get(name, "flows")
    found = next(iter(entry_points(group="forecaster.lines", name=name)), None)
    try:
        if found is None:
            raise ModuleNotFoundError("this command's part of the project is not installed")
        return found.load()
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{error}; this command needs: pip install 'forecaster[{extra}]'") from error


def _instant(text: str | None, spec: Spec) -> datetime | None:
    """An `--as-of`: a bare day means the hour of that day's night; without an offset it is local time."""
    if text is None:
        return None
    wanted = "a day such as 2026-11-01 or an instant such as 2026-11-01T03:15"
    found = _parsed("--as-of", text, wanted)
    if len(text) <= len("2026-11-01"):
        found = datetime.combine(found, time(*spec.schedule.hour_minute))
    return found if found.tzinfo else found.replace(tzinfo=spec.zone)


def _parsed(option: str, text: str, wanted: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.year not in YEARS:
        raise SpecError(f"{option}: found {text!r}, wanted {wanted}")
    return found
