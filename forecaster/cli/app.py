"""Command-line interface (typer): the commands, which are thin and import what they need only when
called."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from forecaster import __version__
from forecaster.cli import (
    access,
    backup,
    canary,
    champions,
    digest,
    models,
    monitoring,
    nightly,
    overrides,
    project,
    quarantine,
    roster,
    schedule,
    value,
)
from forecaster.core.processes import garbage, parent_watch
from forecaster.core.terminal import escaped_lines
from forecaster.errors import INTERRUPTED, OUR_FAULT, ForecasterError, SpecError

DEBUG = "FORECASTER_DEBUG"


class GroupedHelp(TyperGroup):
    """Lists the commands in `--help` by group."""

    # Typer's own copies of Click's classes
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                limit = formatter.width - 6 - width
                rows = [(name.ljust(width), self.commands[name].get_short_help_str(limit)) for name in commands]
                formatter.write_dl(rows)


app = typer.Typer(
    cls=GroupedHelp,
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


def _say_version(requested: bool) -> None:
    if requested:
        typer.echo(f"forecaster {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options accepted before every command."""


# In the order of --help.
GROUPS: Mapping[str, Mapping[str, Callable[..., None] | typer.Typer]] = {
    "Begin": {
        "demo": project.demo,
        "start": project.start,
        "init": project.init,
        "check": project.check,
        "schema": project.schema,
        "contract": project.contract,
        "doctor": project.doctor,
    },
    "Run": {
        "run": nightly.run,
        "predict-only": nightly.predict_only,
        "predict": models.predict,
        "backfill": nightly.backfill,
        "replay": models.replay,
        "warm": models.warm,
        "assist": models.assist,
    },
    "Schedule": {
        "plan": nightly.plan,
        "apply": nightly.apply,
        "deploy": nightly.deploy,
        "up": nightly.up,
        "status": nightly.status,
    },
    "Serve": {
        "serve": project.serve,
        "infer": project.infer,
        "link": access.link,
        "links": access.links,
        "audit": access.audit,
        "digest": digest.digest,
    },
    "Models": {
        "backtest": models.backtest,
        "champions": champions.champions,
        "promote": champions.promote,
        "rollback": champions.rollback,
        "canary": canary.canary,
        "compare-hlo": models.compare_hlo,
    },
    "Data": {
        "quarantine": quarantine.quarantine,
        "history": quarantine.history,
    },
    "Planning": {
        "roster": roster.roster,
        "forget": roster.forget,
        "schedule": schedule.schedule,
        "override": overrides.override,
        "overrides": overrides.overrides,
        "withdraw": overrides.withdraw,
        "value": value.value,
    },
    "Operations": {
        "metrics": monitoring.metrics,
        "slo": monitoring.slo,
        "notify": monitoring.notify,
        "maintain": nightly.maintain,
        "backup": backup.backup,
        "restore": backup.restore,
    },
}
for commands in GROUPS.values():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)


def main() -> None:
    """Run a command; print user errors as sentences, and a traceback only on request."""
    parent_watch.end_with_parent()
    garbage.look_seldom()
    # otherwise the garbage collector scans all objects several times at exit
    atexit.register(gc.freeze)
    try:
        _refuse_bytes(sys.argv[1:])
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except ForecasterError as error:
        _fail(str(error), error.exit_code)
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"
        _fail(f"our fault, not yours: {fault}\n{DEBUG}=1 shows the traceback", OUR_FAULT)


def _refuse_bytes(arguments: Sequence[str]) -> None:
    """Raises SpecError for an argument that is not valid text, unless a file has that name."""
    for argument in arguments:
        text = os.fsencode(argument).decode("utf-8", "backslashreplace")
        if text != argument and not os.path.exists(argument):
            raise SpecError(f"found '{text[:80]}', wanted text in UTF-8")


def _fail(sentence: str, code: int) -> NoReturn:
    if os.environ.get(DEBUG):
        traceback.print_exc()
    typer.echo(escaped_lines(f"forecaster: {sentence}"), err=True)
    sys.exit(code)
