"""Weekly plans of people: their part of a depot's page, and the files of /roster for planners'
tools."""

from __future__ import annotations

import re
from typing import get_args
from urllib.parse import quote

from fastapi import HTTPException, Request
from fastapi.responses import Response

from dashboards.ops.formatting.retelling import told
from dashboards.ops.http.render import Renderer
from dashboards.ops.reading.editions import Edition
from dashboards.ops.views.shifts.week import NoPlans, depot_week, files_of_all, week_file
from forecaster.errors import MissingExtra, NoSuchRow
from forecaster.staffing.people.roster_files import MEDIA_TYPES, Form

__all__ = ["depot_week", "files_of_all", "roster_file"]


def roster_file(renderer: Renderer, request: Request) -> Response:
    """Return the plans as a file: /roster?depot=…, ?city=…, or all, with ?format= and optionally
    ?person=."""
    query = {name: request.query_params.get(name, "") for name in ("depot", "city", "person", "format")}
    form = next((form for form in get_args(Form) if form == query["format"]), None)
    if form is None:
        raise HTTPException(422, f"format: found {query['format'][:40]!r}, wanted {', '.join(get_args(Form))}")

    def make(edition: Edition) -> bytes:
        file = week_file(edition, query["depot"], query["city"])
        return (file.of_person(query["person"]) if query["person"] else file).write(form)

    try:
        answer = renderer.of_publication(request, MEDIA_TYPES[form], make, tuple(query.items()))
    except NoPlans as error:
        raise HTTPException(404, str(error)) from error
    except NoSuchRow as error:
        raise HTTPException(404, told(error.args[0])) from error
    except MissingExtra as error:
        raise HTTPException(501, str(error)) from error
    name = "-".join(["roster", *filter(None, (query["depot"], query["city"], query["person"]))])
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name)
    answer.headers["Content-Disposition"] = (
        f"attachment; filename=\"{plain}.{form}\"; filename*=UTF-8''{quote(name, safe='')}.{form}"
    )
    return answer
