"""Commands for a pipeline file: init, check (dry run), serve, schema, doctor (health checks)."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import click
import typer

from forecaster.cli.options import AsOf, File, entry_point, instant, load_spec, needs_extra, parsed_time, print_line
from forecaster.core.terminal import escaped_lines
from forecaster.errors import NO_DATA, OUR_FAULT, SpecError
from forecaster.onboarding import DATA_FILES
from forecaster.onboarding.description.questions import Question, TableAnswers
from forecaster.plugins import plugin

NEW_FOLDER, DEMO_FOLDER, PIPELINE = Path("my-fleet"), Path("forecaster-demo"), "pipeline.yaml"


def init(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DIR] [FILE]...", help="A new or empty folder; after --from also further files."),
    ] = None,
    data_files: Annotated[
        list[Path] | None,
        typer.Option(
            "--from", metavar="FILE", help="Your own counts, as CSV, Parquet or Excel; the columns are detected."
        ),
    ] = None,
    into: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder, if it cannot be told from a file.")
    ] = None,
    country: Annotated[
        str | None, typer.Option(metavar="XX", help="With --from: the depots' country, as two letters or a name.")
    ] = None,
    end: Annotated[str | None, typer.Option(metavar="DATE", help="The sample's last day; default: yesterday.")] = None,
    rows: Annotated[
        str | None, typer.Option(metavar="KIND", help="With --from: a row is one of readings or events.")
    ] = None,
    site: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="With --from: column of the site, or name of the only site."),
    ] = None,
    day: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="With --from: column of the day, or YEAR,MONTH,DAY columns.")
    ] = None,
    count: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="With --from: column of the count, or rows; several if each is a site."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE", help="With --from: rows that count; COLUMN!=VALUE leaves rows out."),
    ] = None,
) -> None:
    """Make a folder to start from: a sample, or your own data.

    With --from, the pipeline file explains next to each key why it has its value; the files stay
    where they are. Without a folder, a new one is named after the first file. Ambiguities in the
    data become questions on a terminal; without a terminal the exit code is 2, and the options that
    answer them are printed. The exit code is 4 if no forecast can start from the data.
    """
    files, folder = _files_and_folder(paths or [], data_files or [], into)
    answers = TableAnswers.of(rows, site, day, count, where or ())
    if files:
        raise typer.Exit(_start_from(files, folder, country, answers))
    if folder is None or country is not None or answers != TableAnswers():
        raise SpecError(
            "found neither a folder nor --from; wanted `forecaster init DIR` or `forecaster init --from FILE`"
        )
    from forecaster.operations import starter

    last = parsed_time("--end", end, "a day such as 2026-11-01").date() if end is not None else None
    typer.echo(starter.create(folder, end=last))


def _files_and_folder(paths: list[Path], data_files: list[Path], into: Path | None) -> tuple[list[Path], Path | None]:
    """Separate input files and output folder: with --from, arguments that are not folders are
    files, too."""
    folders = [
        path for path in paths if not data_files or (not path.is_file() and path.suffix.lower() not in DATA_FILES)
    ]
    folders += [into] if into else []
    if len(folders) > 1:
        raise SpecError(f"found folders {', '.join(map(str, folders))}; wanted one")
    return [*data_files, *(path for path in paths if path not in folders)], folders[0] if folders else None


def _start_from(files: list[Path], folder: Path | None, country: str | None, answers: TableAnswers) -> int:
    """Write a pipeline file for the user's own files; return the exit code."""
    from forecaster.onboarding import start

    ask, choose = (_country, _choice) if sys.stdin.isatty() and sys.stdout.isatty() else (None, None)
    outcome = start.create(
        files, folder, country=country, ask=ask, now=datetime.now(UTC), answers=answers, choose=choose
    )
    for line in outcome.lines:
        typer.echo(escaped_lines(line))
    return NO_DATA if outcome.fault else 0


def _country() -> str:
    question = (
        "In which country are the depots? Two letters such as DE, for holidays and time zone; Enter to leave it open"
    )
    return str(typer.prompt(question, default="", show_default=False))


def _choice(question: Question) -> str:
    """Ask a user at the terminal a question about the table."""
    typer.echo(escaped_lines(question.text))
    for number, choice in enumerate(question.choices, start=1):
        typer.echo(escaped_lines(f"  {number}  {choice.answer}   {choice.evidence}"))
    valid_range = click.IntRange(1, len(question.choices))
    selection: int = typer.prompt("Number", default=1, type=valid_range)
    return question.choices[selection - 1].answer


def check(
    file: File,
    as_of: AsOf = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="PATH", help="File for the page; default: check.html in `state`."),
    ] = None,
) -> None:
    """Try a pipeline file against its sources; change nothing.

    Reads every source, checks the rows against the contract, and reports what a run would start
    from, on one screen and, with charts, as an HTML page. The exit code is 4 if no forecast can
    start from the data.
    """
    spec = load_spec(file)
    from rich.console import Console

    from forecaster.check import dry_run, html_report, text_report
    from forecaster.onboarding import contradictions

    console, now = Console(highlight=False, emoji=False), datetime.now(UTC)
    if adapt := getattr(sys.stdout, "reconfigure", None):
        adapt(errors="replace")  # a character that the terminal lacks becomes a question mark
    outcome = dry_run.check(spec, now=now, as_of=instant(as_of, spec))
    outcome = replace(outcome, contradictions=tuple(contradictions.of(spec)))
    look = {"tables": console.is_terminal, "ascii_only": console.options.ascii_only}
    for part in text_report.render(outcome, width=console.width if console.is_terminal else text_report.WIDTH, **look):
        console.print(part, markup=False, soft_wrap=isinstance(part, str))
    console.print(html_report.write_page(outcome, html, now=now), markup=False, soft_wrap=True)
    console.print(text_report.verdict(outcome), markup=False, soft_wrap=True)
    raise typer.Exit(NO_DATA if outcome.fault else 0)


def start(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The project's folder.")] = NEW_FOLDER,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
) -> None:
    """Open a guide in the browser: from a file to forecasts.

    Its steps are forms for `init --from`, `check`, `run` and `serve`. Files dropped there are
    copied into DIR.
    """
    entry_point("start")(folder, host=host, port=port)


def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")] = DEMO_FOLDER,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
) -> None:
    """Show forecasts of a simulated fleet, in one line.

    Makes the sample of `init`, runs it, and serves its page. An existing demo is shown unchanged.
    """
    is_new = not (folder / PIPELINE).is_file()
    serve_guide = entry_point("start")
    if is_new:
        from forecaster.operations import starter

        starter.create(folder, from_prior=True)
    serve_guide(folder, host=host, port=port, runs=is_new)


def serve(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The pipeline file; default: pipeline.yaml in this folder.")
    ] = None,
    further_files: Annotated[
        list[Path] | None, typer.Argument(metavar="OTHERS", help="Further pipeline files.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="HOST:PORT", help="Also answer Prometheus, on a separate listener."),
    ] = None,
) -> None:
    """Show the forecasts as a web page.

    With several files each pipeline has its pages under /p/NAME, and the front page shows all of
    them. Without FILE, and without a pipeline.yaml here, the guide of `start` opens.
    """
    if file is None and not Path(PIPELINE).is_file():
        start(NEW_FOLDER, host, port)
        return
    files = [file or Path(PIPELINE), *(further_files or [])]
    entry_point("page")(*map(load_spec, files), host=host, port=port, metrics=metrics)


def infer(
    file: File,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8080,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="HOST:PORT", help="Also answer Prometheus, on a separate listener."),
    ] = None,
    batch_rows: Annotated[int, typer.Option(min=1, max=64, help="Largest number of depots computed together.")] = 64,
    batch_wait: Annotated[
        int,
        typer.Option(
            min=0, max=1000, metavar="MS", help="Longest time that a depot waits for others, in milliseconds."
        ),
    ] = 5,
    queue_rows: Annotated[
        int, typer.Option(min=1, help="Largest number of waiting depots; more are answered with 503.")
    ] = 1024,
) -> None:
    """Serve the champion to other programs, over HTTP.

    Raw inputs in, quantiles out, by the Open Inference Protocol; forecasts by depot at
    /v1/forecast. A new champion takes over without interruption.
    """
    from forecaster.core.parallel import available_cores
    from forecaster.serving.batching import BatchLimits

    spec = load_spec(file)
    with needs_extra("serve"):
        start = plugin("inference").serve
    limits = BatchLimits(batch_rows, batch_wait / 1000, queue_rows, available_cores())
    start(spec, host=host, port=port, metrics=metrics, limits=limits)


def schema() -> None:
    """Print the JSON Schema of the pipeline file, for editors."""
    import json

    from forecaster.config import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


def contract(file: File) -> None:
    """Print the data contract of the feed, for its owner.

    YAML in the Open Data Contract Standard 3.1: columns, rules, and the findings of the last
    nightly run.
    """
    import yaml

    from forecaster.check.data_contract import contract as contract_of
    from forecaster.errors import NoLedger
    from forecaster.ledger.store import Ledger

    spec, last = load_spec(file), None
    with suppress(NoLedger), Ledger.open_reader(spec.ledger_url) as ledger:
        last = next(iter(ledger.runs(spec.name, limit=1, ended=True, nights=True)), None)
    typer.echo(yaml.safe_dump(contract_of(spec, last), sort_keys=False, allow_unicode=True, width=100), nl=False)


def doctor(file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="The pipeline file.")] = None) -> None:
    """Check the installation and the state of a pipeline.

    Versions, devices, memory, disk and port; with a file also its lake, ledger, last run,
    publication and champion. The exit code is 1 if something is broken.
    """
    spec = load_spec(file) if file else None
    from forecaster.operations.doctor import examine

    broken = False
    for sign in examine(spec, now=datetime.now(UTC)):
        print_line(sign)
        broken |= sign.state == "broken"
    raise typer.Exit(OUR_FAULT if broken else 0)
