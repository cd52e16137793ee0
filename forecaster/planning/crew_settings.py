"""Crews set by hand: a planner decides how many drivers work on a depot's day, and every later plan
keeps that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import sqlalchemy as sa

from forecaster.config import Spec, Staffing
from forecaster.core.language import _
from forecaster.errors import OverrideError
from forecaster.ledger import connect, records
from forecaster.ledger.store import Ledger
from forecaster.planning import accepted_crews, refresh
from forecaster.planning.overrides import Cell, as_of_day, check_words
from forecaster.staffing.changes import crew_names


def set_crew(
    spec: Spec,
    cell: Cell,
    crews: Mapping[str, int],
    *,
    by: str,
    audit: Callable[[sa.Connection], None] | None = None,
) -> None:
    """Set the crew of a published open day, in drivers by shift ("" without shifts), and show it
    (idempotent).

    Raises OverrideError for a day that is unpublished, closed or over, for other shifts, or a crew
    outside `staffing.crew`; DeskError, with nothing written, if the run's inputs are not available;
    LedgerError.
    """
    set_crews(spec, {cell: crews}, by=by, audit=audit)


def set_crews(
    spec: Spec,
    crews: Mapping[Cell, Mapping[str, int]],
    *,
    by: str,
    audit: Callable[[sa.Connection], None] | None = None,
) -> None:
    """Set several crews, all or none, and show them, as `set_crew`; raises the same errors."""
    with Ledger.open(spec.ledger_url, patience=connect.ATTENDED) as ledger, ledger.transaction() as connection:
        is_new = write_crews(connection, spec, crews, by, datetime.now(UTC))
        _show(connection, spec)
        if is_new and audit is not None:
            audit(connection)


def write_crews(
    connection: sa.Connection, spec: Spec, crews: Mapping[Cell, Mapping[str, int]], by: str, at: datetime
) -> bool:
    """Write crews without showing them; False if all are set already. Raises OverrideError as
    `set_crew`."""
    check_words(by, "")
    for cell, of_day in crews.items():
        _check(connection, spec, cell, of_day)
    new = [
        accepted_crews.set_crew(connection, spec.name, cell, crews=of_day, by=by, at=at)
        for cell, of_day in crews.items()
    ]
    return any(new)


def leave_crew(spec: Spec, cell: Cell, *, audit: Callable[[sa.Connection], None] | None = None) -> None:
    """Withdraw a planner's decision on a depot's day, and show the plan's crew. Raises
    OverrideError if there is none, DeskError, LedgerError."""
    with Ledger.open(spec.ledger_url, patience=connect.ATTENDED) as ledger, ledger.transaction() as connection:
        by_hand = cell in accepted_crews.read_set(connection, spec.name, cell[1])
        accepted_crews.withdraw(connection, spec.name, cell, datetime.now(UTC))
        if by_hand:
            _show(connection, spec)
        if audit is not None:
            audit(connection)


def _show(connection: sa.Connection, spec: Spec) -> None:
    outcome = refresh.refresh_within(connection, spec.name, spec.paths)
    if outcome.trouble is not None:
        raise outcome.trouble


def _check(connection: sa.Connection, spec: Spec, cell: Cell, crews: Mapping[str, int]) -> None:
    head = records.head(connection, spec.name)
    depots = records.depots(connection, head.publication_id, [cell[0]]) if head else ()
    day = next((day for depot in depots for day in depot.days if day.target_date == cell[1] and day.open), None)
    if head is None or day is None or day.drivers is None or spec.staffing is None or cell[1] < as_of_day(head):
        raise OverrideError(
            _("{depot} on {day}: wanted an open day ahead that is published with a crew", depot=cell[0], day=cell[1])
        )
    _check_limits(crews, spec.staffing)


def _check_limits(crews: Mapping[str, int], staffing: Staffing) -> None:
    names, limits, total = crew_names(staffing), staffing.crew, sum(crews.values())
    if sorted(crews) != sorted(names):
        expected = ", ".join(name or _("whole day") for name in names)
        actual = ", ".join(name or _("whole day") for name in crews)
        raise OverrideError(_("shift: found {shift}, wanted one of {names}", shift=actual, names=expected))
    most = 10_000 if limits.max is None else limits.max
    if min(crews.values()) < 0 or not limits.min <= total <= most:
        raise OverrideError(
            _(
                "drivers: found {drivers}, wanted from {least} to {most} as staffing.crew allows",
                drivers=total,
                least=limits.min,
                most=most,
            )
        )
