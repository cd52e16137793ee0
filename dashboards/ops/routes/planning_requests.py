"""Requests of planners: the fields of their forms and JSON objects, and what-if questions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs

from fastapi import Depends, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from dashboards.ops.access import planner
from dashboards.ops.access.csrf import FIELD
from dashboards.ops.http.render import JSON
from dashboards.ops.reading.editions import Edition
from forecaster.core.language import _
from forecaster.errors import OverrideError
from forecaster.planning.override_groups import OverrideGroup
from forecaster.planning.overrides import shown
from forecaster.planning.scenario import WITHOUT_VALUE, Supposition

LARGEST = 16_384  # bytes of a form
MOST_FIELDS = 2_000  # of a form: lists of depots or of people's days have one field each
CREW = "crew."  # prefix of the fields of a crew set by hand
LISTS = ("others",)  # fields of a form that may be repeated


def _as_written(day: object) -> object:
    # pydantic would read bare digits as seconds since 1970
    if day is not None and not (isinstance(day, str) and re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", day)):
        raise ValueError("wanted a day such as 2025-06-18")
    return day


def _no_truth(value: object) -> object:
    if isinstance(value, bool):  # Python treats it as 1 or 0
        raise ValueError("input should be a number")
    return value


Day = Annotated[date, BeforeValidator(_as_written)]
Whole = Annotated[int, BeforeValidator(_no_truth)]
Share = Annotated[float, BeforeValidator(_no_truth)]


class WishIn(BaseModel):
    """An override to be saved. `until` is the last day whose publication applies it, by default the
    day itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    depot_id: str
    target_date: Day
    orders: Whole
    reason: str
    note: str = ""
    until: Day | None = None
    by: str = ""


class WithdrawalIn(BaseModel):
    """An override to be withdrawn."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    by: str = ""
    note: str = ""


class WithdrawalForm(WithdrawalIn):
    """The same as a form; `together` also withdraws the overrides saved at the same time."""

    together: bool = False


class CrewWithdrawalForm(BaseModel):
    """The form that withdraws the acceptance of a depot-day's crew."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    depot_id: str
    target_date: Day


class CrewForm(CrewWithdrawalForm):
    """The form that accepts a depot-day's crew; `drivers` is the crew that the planner saw."""

    drivers: int
    by: str = ""
    crews: dict[str, int] = {}  # to set by hand, by shift; "": the whole day
    set: bool = False

    @model_validator(mode="before")
    @classmethod
    def _crews(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with those of the crews, such as crew.early, combined."""
        crews = {name.removeprefix(CREW): value for name, value in values.items() if name.startswith(CREW)}
        return {name: value for name, value in values.items() if not name.startswith(CREW)} | {"crews": crews}


class ShiftEditIn(BaseModel):
    """A person's day; `shift` is "" for a free day, null to leave it to the plan."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    person: str
    target_date: Day
    shift: str | None = None


class ShiftEditsIn(BaseModel):
    """Edits of a depot's week, to be saved, all or none, or only tried."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    depot_id: str
    edits: Annotated[tuple[ShiftEditIn, ...], Field(min_length=1)]
    save: bool = False
    by: str = ""


class GroupIn(BaseModel):
    """Overrides of several depots or days: either `depot_ids` or a `city`, and either `orders` per
    day or `percent` of the model's current forecast. `until` is the last day whose publication
    applies them, by default each day itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    depot_ids: tuple[str, ...] = ()
    city: str | None = None
    first: Day
    last: Day | None = None
    orders: Whole | None = None
    percent: Share | None = None
    reason: str
    note: str = ""
    until: Day | None = None
    by: str = ""

    def group(self, by: str) -> OverrideGroup:
        """Return the override group requested by a planner. Raises OverrideError for contradictory
        fields."""
        return OverrideGroup(
            self.depot_ids,
            self.first,
            self.last or self.first,
            self.reason,
            by,
            self.city,
            self.orders,
            self.percent,
            self.note.strip(),
            self.until,
        )


class WishForm(BaseModel):
    """The form of a depot's day: the day or a range, the depot, others or its city, orders or per
    cent."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    depot_id: str
    target_date: Day
    last: Day | None = None
    scope: Literal["depot", "city"] = "depot"
    others: tuple[str, ...] = ()
    amount: Annotated[Share, Field(alias="orders")]
    unit: Literal["orders", "percent"] = "orders"
    reason: str
    note: str = ""
    until: Day | None = None
    by: str = ""

    def group(self, by: str, city_depots: tuple[str, ...]) -> OverrideGroup:
        """Return the override group requested by a planner; `city_depots` are the city's other
        depots that they see.

        Raises OverrideError for contradictory fields.
        """
        further = city_depots if self.scope == "city" else self.others
        orders, percent = (None, self.amount) if self.unit == "percent" else (self._whole_orders(), None)
        return OverrideGroup(
            tuple(dict.fromkeys((self.depot_id, *further))),
            self.target_date,
            self.last or self.target_date,
            self.reason,
            by,
            None,
            orders,
            percent,
            self.note.strip(),
            self.until,
        )

    def _whole_orders(self) -> int:
        if not float(self.amount).is_integer():
            raise OverrideError(_("orders: found {amount}, wanted a whole number", amount=f"{self.amount:g}"))
        return int(self.amount)


async def read_body(request: Request) -> bytes:
    """Return the body of a request up to the size limit of a form, plus the part that exceeds it."""
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > LARGEST:
            break
    return content


Body = Annotated[bytes, Depends(read_body)]


def fields(request: Request, content: bytes) -> Mapping[str, Any]:
    """Return the fields of a form or of a JSON object, without the CSRF token.

    Raises OverrideError for a body that is too large or invalid.
    """
    if len(content) > LARGEST:
        raise OverrideError(_("found more than {largest} bytes, wanted a form", largest=f"{LARGEST:,}"))
    try:
        values = _of_json(content) if request.headers.get("content-type", "").startswith(JSON) else _of_form(content)
    except (ValueError, RecursionError) as error:
        raise OverrideError(_("found something else, wanted the fields of a form, or a JSON object")) from error
    return {name: value for name, value in values.items() if name != FIELD}


def _of_json(content: bytes) -> dict[str, Any]:
    values = json.loads(content or b"{}")
    json.dumps(values, ensure_ascii=False).encode()  # rejects lone surrogates, which cannot be stored
    if not isinstance(values, dict):
        raise ValueError
    return values


def _of_form(content: bytes) -> dict[str, Any]:
    lists = parse_qs(content.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    filled = {name: [text for text in texts if text] for name, texts in lists.items()}
    return {name: texts if name in LISTS else texts[0] for name, texts in filled.items() if texts}


def described(body: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI description of a route that reads its body itself."""
    schema = {"schema": body.model_json_schema()}
    return {"requestBody": {"required": True, "content": {"application/json": schema}}}


def supposition(
    edition: Edition,
    depot: str,
    day: date,
    kind: str,
    value: float | None,
    other_depots: tuple[str, ...],
    last: date | None,
) -> Supposition:
    """Return a reader's question. Raises NoSuchDepot for a depot that they do not see, and
    OverrideError if the kind needs a number and none is given."""
    edition.depot(depot)
    if other_depots:
        planner.see_all(edition, other_depots)
    if value is None and kind not in WITHOUT_VALUE:
        raise OverrideError(_("value: found nothing, wanted a number for {kind}", kind=shown(kind)))
    return Supposition(depot, day, kind, 1.0 if value is None else value, other_depots, last)


def form_number(text: str) -> float | None:
    """Parse a number from a form field; None if it is empty."""
    try:
        return float(text) if text.strip() else None
    except ValueError:
        raise OverrideError(_("value: found {text}, wanted a number", text=shown(text))) from None


def form_day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text.strip() else None
    except ValueError:
        raise OverrideError(_("last: found {text}, wanted a day such as 2025-06-18", text=shown(text))) from None


def mistake(error: OverrideError | ValidationError) -> str:
    """Describe the problem with an invalid request in a sentence."""
    if isinstance(error, OverrideError):
        return str(error)
    first = error.errors()[0]
    message = first["msg"].removeprefix("Value error, ")
    return f"{'.'.join(map(str, first['loc']))[:80]}: found {shown(first['input'])}, {message[:1].lower()}{message[1:]}"
