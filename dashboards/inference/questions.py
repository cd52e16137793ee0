"""Questions by depot: parses the body of a request for forecasts, with its what-if."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, FailFast, Field
from pydantic_core import from_json

from dashboards.inference.tensors import Malformed
from forecaster.errors import OverrideError
from forecaster.planning.scenario import WITHOUT_VALUE, Supposition

Day = date
MOST_DEPOTS = 20_000  # per request


class WhatIfIn(BaseModel):
    """One thing that is changed at the requested depots, on a day or up to a last one."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    date: Day
    kind: Annotated[str, Field(max_length=200)]  # orders, percent, closed, open, or a covariate such as promo
    value: float | None = None
    last: Day | None = None


class ForecastIn(BaseModel):
    """Requested depots, by default all visible ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    depots: Annotated[
        tuple[Annotated[str, Field(max_length=500)], ...] | None, FailFast(), Field(max_length=MOST_DEPOTS)
    ] = None
    what_if: WhatIfIn | None = None


def read_question(body: bytes) -> ForecastIn:
    """Parse the question in a body. Raises Malformed for invalid JSON, and ValidationError for the
    first invalid value."""
    try:
        content = from_json(body or b"{}")
    except ValueError as error:
        raise Malformed(f"the body is no JSON: {str(error)[:80]}") from None
    if isinstance(content, dict):
        content = _with_one_odd(content, ForecastIn)
        if isinstance(supposed := content.get("what_if"), dict):
            content["what_if"] = _with_one_odd(supposed, WhatIfIn)
    return ForecastIn.model_validate(content)


def _with_one_odd(content: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Keep the known keys and at most one unknown key: pydantic would make an error message for
    each, which takes memory."""
    odd = next((key for key in content if key not in model.model_fields), None)
    return {key: value for key, value in content.items() if key in model.model_fields or key == odd}


def supposition(what_if: WhatIfIn, depot_ids: Sequence[str]) -> Supposition:
    """Return the supposition for these depots. Raises OverrideError without depots, or without a
    required number."""
    if not depot_ids:
        raise OverrideError("depots: found none, wanted one or more")
    if what_if.value is None and what_if.kind not in WITHOUT_VALUE:
        raise OverrideError(f"what_if.value: found nothing, wanted a number for {what_if.kind[:80]}")
    value = 1.0 if what_if.value is None else what_if.value
    return Supposition(depot_ids[0], what_if.date, what_if.kind, value, tuple(depot_ids[1:]), what_if.last)
