"""OpenAPI document of forecasts by depot."""

from __future__ import annotations

from typing import Any

from dashboards.inference.questions import ForecastIn
from forecaster import __version__

NUMBERS = {"type": "array", "items": {"type": "number"}}
WHOLE_OR_NULL = {"type": "array", "items": {"type": ["integer", "null"]}}
FLAGS = {"type": "array", "items": {"type": "boolean"}}
DEPOT: dict[str, Any] = {
    "depot_id": {"type": "string"},
    "tier": {"type": "string", "description": "fresh, champion, prior or fallback"},
    "model": {"type": ["string", "null"], "description": "the bundle that forecast it"},
    "open": FLAGS,
    "quantiles": {"type": "array", "items": NUMBERS, "description": "orders, a row a day, a number a level"},
    "drivers": WHOLE_OR_NULL,
    "vans": WHOLE_OR_NULL,
    "overridden": FLAGS,
}
DAYS = {"type": "array", "items": {"type": "string", "format": "date"}}
ANSWER: dict[str, Any] = {
    "publication": {"type": "integer"},
    "published_at": {"type": "string", "format": "date-time"},
    "cutoff": {"type": "string", "format": "date", "description": "the last day that is known"},
    "dates": DAYS,
    "levels": NUMBERS,
    "depots": {"type": "array", "items": {"$ref": "#/components/schemas/Depot"}},
    "what_if": {"type": "object", "description": "what was supposed, and how many closed days stay so"},
}
REFUSED = {
    "400": "The request cannot be read",
    "401": "Nobody has signed in",
    "404": "A depot is not in the current forecasts",
    "413": "The body is too large",
    "429": "Rate limit exceeded",
    "503": "No forecast is published, or not within the deadline",
}


def document() -> dict[str, Any]:
    """Return the document, in version 3.1 of the standard."""
    question = ForecastIn.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas = {
        **question.pop("$defs", {}),
        "Question": question,
        "Depot": {"type": "object", "properties": DEPOT, "required": list(DEPOT)},
        "Answer": {
            "type": "object",
            "properties": ANSWER,
            "required": [name for name in ANSWER if name != "what_if"],
        },
        "Error": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]},
    }
    deadline = {"name": "X-Deadline-Ms", "in": "header", "schema": {"type": "integer", "minimum": 1, "maximum": 60000}}
    operation = {
        "operationId": "forecast",
        "summary": "Quantiles, crews and tiers of depots by their ids",
        "parameters": [deadline],
        "requestBody": {"content": _json("Question")},
        "responses": {
            "200": {"description": "The forecasts", "content": _json("Answer")},
            **{status: {"description": text, "content": _json("Error")} for status, text in REFUSED.items()},
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Forecasts by depot", "version": __version__},
        "paths": {"/v1/forecast": {"post": operation}},
        "components": {"schemas": schemas},
    }


def _json(schema: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
