"""People's shifts as records of 7shifts and Deputy, and forecasts as records of 7shifts, one per
request.

Fields are those of https://developers.7shifts.com/reference/postshift (POST
/v2/company/{company_id}/shifts), https://developers.7shifts.com/reference/forecast-overrides (POST
/v2/company/{company_id}/location/{location_id}/forecast_override) and
https://developer.deputy.com/docs/adding-a-shift (POST /api/v1/supervise/roster).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from forecaster.config import Depots, PeopleTable, Spec
from forecaster.demand import parsing, sources
from forecaster.errors import SpecError
from forecaster.ledger.publication import PublishedDepot
from forecaster.ledger.week_plan import Duty
from forecaster.staffing.people.roster_files import DepotWeek

Ids = Mapping[tuple[str, ...], str] | None  # by depot, or by depot and person; None: names are numbers


def records(system: str, spec: Spec, weeks: Iterable[DepotWeek], published: Collection[Any]) -> list[dict[str, Any]]:
    """Return a record for `7shifts` or `deputy` of each person's shift.

    Shifts whose depot and day are not `published` are drafts. Raises SpecError for a depot or
    person without a known number, SourceError and its subclasses as `sources.read`.
    """
    assert spec.staffing is not None
    depots, table, payload = spec.depots, spec.staffing.people_table, list[dict[str, Any]]()
    places: Ids = _ids(spec, depots, depots.columns.depot_id) if depots else None
    people: Ids = _ids(spec, table, table.columns.depot_id, table.columns.person) if table else None
    roles = {contract.name: contract.role_id for contract in spec.staffing.people}
    write = {"7shifts": _of_7shifts, "deputy": _of_deputy}[system]
    for week in weeks:
        depot = week.plan.depot_id
        for position in (position for position in week.plan.positions if position.duties):
            user = _number(people, (depot, position.name), "staffing.people_table.columns.external_id")
            place = _number(places, (depot,), "depots.columns.external_id")
            payload += [
                write(duty, place, user, roles.get(position.contract), (depot, duty.date) in published)
                for duty in position.duties
            ]
    return payload


def forecasts(
    spec: Spec, depots: Iterable[PublishedDepot], levels: Sequence[float], order_value: float
) -> list[dict[str, Any]]:
    """Return a record of each depot-day: its median times the sales per order, in cents.

    `location_id` belongs in the URL. Raises as `records`.
    """
    places: Ids = _ids(spec, spec.depots, spec.depots.columns.depot_id) if spec.depots else None
    median, payload = levels.index(0.5), list[dict[str, Any]]()
    for depot in depots:
        place = _number(places, (depot.depot_id,), "depots.columns.external_id")
        for day in depot.days:
            cents = round(100 * order_value * day.quantiles[median])
            payload.append({"location_id": place, "date": f"{day.target_date}", "value": cents, "report_type": "sales"})
    return payload


def _ids(spec: Spec, table: Depots | PeopleTable, *key: str) -> Ids:
    """Numbers of the table by the columns `key`; None without a column of numbers. Raises SpecError
    for an ambiguous one."""
    column, ids = table.columns.external_id, dict[tuple[str, ...], str]()
    if column is None:
        return None
    declared = (column,) if "external_id" in table.columns.model_fields_set else ()
    rows = sources.read(table.source, spec, (*key, *declared), (column,))
    if column not in rows:
        return None
    rows = rows[rows[sources.FAULT] == ""]
    for *name, number in zip(*(parsing.words(rows[field]).str.strip() for field in (*key, column)), strict=True):
        if number and ids.setdefault(tuple(name), number) != number:
            raise SpecError(
                f"--export: {name[-1]}: found {ids[tuple(name)]} and {number} as {column}, wanted one number"
            )
    return ids


def _number(ids: Ids, name: tuple[str, ...], key: str) -> int:
    number = name[-1] if ids is None else ids.get(name, "")
    if not (number.isascii() and number.isdecimal()):
        whose = f"{name[-1]} of {name[0]}" if len(name) > 1 else name[0]
        raise SpecError(
            f"--export: {whose}: found {number!r}, wanted its number there, from the column that {key} names"
        )
    return int(number)


def _of_7shifts(duty: Duty, place: int, user: int, role: int | None, published: bool) -> dict[str, Any]:
    start, end = (f"{instant:%Y-%m-%dT%H:%M:%SZ}" for instant in (duty.start, duty.end))
    record = {"location_id": place, "user_id": user, "start": start, "end": end}
    record |= {} if role is None else {"role_id": role}
    return record | {"notes": duty.shift, "draft": not published}


def _of_deputy(duty: Duty, place: int, user: int, role: int | None, published: bool) -> dict[str, Any]:
    return {
        "intStartTimestamp": int(duty.start.timestamp()),
        "intEndTimestamp": int(duty.end.timestamp()),
        "intRosterEmployee": user,
        "intOpunitId": place,
        "blnPublish": published,
        "strComment": duty.shift,
    }
