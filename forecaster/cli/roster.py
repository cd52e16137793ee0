"""Command for rosters: write required drivers by shift, or each person's shifts, as a file for
planners' tools."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forecaster.cli.options import By, File, load_spec, login_name, print_line, print_lines
from forecaster.errors import NoSuchRow, SpecError
from forecaster.plugins import plugin

if TYPE_CHECKING:
    from forecaster.config import Spec
    from forecaster.ledger.publication import PublishedDepot
    from forecaster.ledger.records import Head
    from forecaster.ledger.store import Ledger


class FileForm(StrEnum):
    """File format of a roster."""

    csv = "csv"
    xlsx = "xlsx"
    ics = "ics"


def roster(
    file: File,
    depot: Annotated[str | None, typer.Option(help="Only this depot; default: all.")] = None,
    city: Annotated[str | None, typer.Option(help="Only the depots of this city.")] = None,
    week: Annotated[
        bool, typer.Option("--week", help="Show the people's shifts instead of numbers of drivers.")
    ] = False,
    form: Annotated[FileForm, typer.Option("--format", help="Output format; `ics` is a calendar, with --week.")] = (
        FileForm.csv
    ),
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="PATH", help="The file to write; without it, CSV goes to standard output."
        ),
    ] = None,
    person: Annotated[str | None, typer.Option(help="With --week: one person, as in 'full-time 3'.")] = None,
) -> None:
    """Write the published roster as a file for other tools.

    The crews of each depot, day and shift as CSV, or with --week the shifts of each person, if
    `staffing.people` is declared, and the open ones, as CSV, an Excel workbook or a calendar.
    """
    _check_options(week, form, output, person)
    spec = load_spec(file)
    from forecaster.ledger.store import Ledger

    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = shown_publication(ledger, spec)
        depots = chosen_depots(ledger.depots(head.publication_id), depot, city)
        plans = week_file(spec, ledger, head, depots) if week else None
        if plans is not None and person:
            plans = plans.of_person(person)
    content = _crews(depots) if plans is None else plans.write(form.value)
    if output is None:
        sys.stdout.write(content.decode().replace("\r\n", "\n"))
    else:
        _write(output, content)
        print_line(output)


def forget(
    file: File,
    person: Annotated[str, typer.Argument(metavar="PERSON", help="The name, as in the plan of the week.")],
    depot: Annotated[str, typer.Option(help="The depot where the person is planned.")],
    by: By = None,
) -> None:
    """Remove a person's name from the ledger.

    It is removed from plans, shifts set by hand, answers, links and the audit log. Prints what was
    removed, and which copies remain.
    """
    forget = plugin("people.forget")

    counts = forget.forget(load_spec(file), depot, person, by=login_name(by))
    removed = ", ".join(f"{name} ({count})" for name, count in counts.items())
    print_line(f"removed {person!r} from {removed}; what remains:")
    print_lines(f"- {copy}" for copy in forget.REMAINING)


def _check_options(week: bool, form: FileForm, output: Path | None, person: str | None) -> None:
    if output is None and form is not FileForm.csv:
        raise SpecError(f"--format {form}: found no --output, wanted a file, as in -o roster.{form}")
    if not week and (form is not FileForm.csv or person):
        raise SpecError(f"found {f'--format {form}' if not person else '--person'} without --week, which it is for")


def shown_publication(ledger: Ledger, spec: Spec) -> Head:
    """The shown publication. Raises NoSuchRow if there is none."""
    head = ledger.current(spec.name)
    if head is None:
        raise NoSuchRow("nothing has been published yet; run `forecaster run` first")
    return head


def chosen_depots(
    depots: tuple[PublishedDepot, ...], depot: str | None, city: str | None
) -> tuple[PublishedDepot, ...]:
    """The selected depots. Raises NoSuchRow if there are none."""
    selection = tuple(
        published
        for published in depots
        if depot in (None, published.depot_id) and city in (None, published.attributes.get("city"))
    )
    if not selection:
        from forecaster.core.language.near_words import did_you_mean, nearest_word

        candidates = (
            [published.depot_id for published in depots] if depot else [_city(published) for published in depots]
        )
        where = f"--depot: found {depot!r}" if depot else f"--city: found {city!r}"
        near = did_you_mean(nearest_word(depot or city or "", candidates))
        raise NoSuchRow(f"{where}, wanted one of those that are published{near}")
    return selection


def _crews(depots: tuple[PublishedDepot, ...]) -> bytes:
    """CSV with a row for each depot, day and shift; the shift is empty for days without shifts."""
    from forecaster.staffing.csv_sheet import CsvSheet

    rows = [
        [published.depot_id, _city(published), day.target_date, shift, drivers]
        for published in depots
        for day in published.days
        if day.open and day.drivers is not None
        for shift, drivers in (day.roster.shifts if day.roster and day.roster.shifts else (("", day.drivers),))
    ]
    if not rows:
        raise SpecError("found no drivers in the publication, wanted the section staffing in the pipeline file")
    return CsvSheet(("depot", "city", "date", "shift", "drivers"), rows).csv()


def week_file(spec: Spec, ledger: Ledger, head: Head, depots: tuple[PublishedDepot, ...]) -> Any:
    """Plans of the week of depots. Raises SpecError if no people are declared, or no plan was made."""
    if spec.staffing is None or not spec.staffing.people:
        raise SpecError("found no staffing.people in the pipeline file, wanted the contracts of the people")
    files = plugin("people.files")
    places = {published.depot_id: published for published in depots}
    weeks = tuple(
        files.DepotWeek(plan, _city(places[plan.depot_id]), places[plan.depot_id].timezone or head.timezone)
        for plan in ledger.plans(head.publication_id, next(iter(places)) if len(places) == 1 else None)
        if plan.depot_id in places
    )
    if not weeks:
        raise SpecError("the publication has no plan of the week; the next night makes one")
    return files.WeekFile(spec.name, head.revised_at or head.published_at, weeks)


def _city(published: PublishedDepot) -> str:
    return published.attributes.get("city", "")


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise SpecError(f"--output: {path} cannot be written: {error.strerror}; wanted a file in a folder") from error
