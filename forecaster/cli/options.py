"""Shared options and arguments of the commands, and their parsing."""

from __future__ import annotations

import getpass
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forecaster.core.terminal import escaped
from forecaster.errors import MissingExtra, SpecError

if TYPE_CHECKING:
    from forecaster.config import Spec

YEARS = range(1970, 2200)

File = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file.")]
AsOf = Annotated[
    str | None,
    typer.Option(metavar="DATE", help="Use only readings recorded by then: a day (its scheduled hour) or an instant."),
]
By = Annotated[str | None, typer.Option(help="Name of the person who decides; default: the logged-in user.")]
Reason = Annotated[str, typer.Option(help="Reason, stored with the decision.")]
Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
Plain = Annotated[bool, typer.Option("--plain", help="Run without Prefect: the same steps, one after the other.")]


def print_line(line: object, *, err: bool = False) -> None:
    """Print a line for people; escape control characters, since parts may come from outside."""
    typer.echo(escaped(str(line)), err=err)


def print_lines(lines: Any) -> None:
    for line in lines:
        print_line(line)


def command_here(command: str) -> str:
    """Command line of a command installed next to ours."""
    sibling = Path(sys.argv[0]).with_name(command)
    return str(sibling) if shutil.which(command) is None and sibling.is_file() else command


def load_spec(file: Path) -> Spec:
    from forecaster.config import load

    return load(file)


def entry_point(name: str) -> Any:
    """Load an object of another package by its entry point in the group `forecaster.lines`."""
    extras = {
        "nightly": "train,flows",
        "start": "train,dashboard",
        "page": "dashboard",
        "digest": "dashboard",
        "link": "dashboard",
    }
    entry = next(iter(entry_points(group="forecaster.lines", name=name)), None)
    with needs_extra(extras.get(name, "flows")):
        if entry is None:
            raise ModuleNotFoundError("this command's part of the project is not installed")
        return entry.load()


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Name the extra that provides a package missing in an import. Raises MissingExtra."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{error}; this command needs: pip install 'harbor-forecaster[{extra}]'") from error


def instant(text: str | None, spec: Spec) -> datetime | None:
    """Parse an `--as-of`: a bare date means the hour of that day's nightly run; without an offset
    it is local time."""
    if text is None:
        return None
    expected = "a day such as 2026-11-01 or an instant such as 2026-11-01T03:15"
    moment = parsed_time("--as-of", text, expected)
    if len(text) <= len("2026-11-01"):
        moment = datetime.combine(moment, time(*spec.schedule.hour_minute))
    return moment if moment.tzinfo else moment.replace(tzinfo=spec.zone)


def parsed_time(option: str, text: str, expected: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.year not in YEARS:
        raise SpecError(f"{option}: found {text!r}, wanted {expected}")
    return moment


def parsed_day(option: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise SpecError(f"{option}: found {text!r}, wanted a day such as 2026-11-01") from None


def decision(by: str | None, reason: str) -> dict[str, Any]:
    """Keyword arguments of a decision: who, why and when. Raises SpecError without a reason."""
    if not reason.strip():
        raise SpecError("--reason: found nothing, wanted a sentence that explains the decision")
    return {"by": login_name(by), "reason": reason.strip(), "now": datetime.now(UTC)}


def login_name(by: str | None) -> str:
    """Name given by `--by`, or the login name. Raises SpecError if there is neither."""
    try:
        return by or getpass.getuser()
    except (OSError, KeyError):
        raise SpecError("--by: found nobody who is logged in, wanted a name") from None
