"""Rendering of responses with conditional requests (ETag, 304): a body is sent only if it changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from starlette.requests import Request
from starlette.responses import Response

from dashboards.ops.access import person
from dashboards.ops.access.person import is_for_admin, note_reader
from dashboards.ops.formatting import locale
from dashboards.ops.formatting.csv import MEDIA_TYPE, CsvSheet
from dashboards.ops.http.language import of_request
from dashboards.ops.http.responses import OF_EDITION, gzipped, not_modified, with_etag
from dashboards.ops.reading.editions import Edition, Logbook
from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.views.api_schema import to_json

if TYPE_CHECKING:
    from forecaster.config import Spec

HTML, JSON = "text/html; charset=utf-8", "application/json"


class RenderPage(Protocol):
    """Render the template of this name with values; returns the page as UTF-8."""

    def __call__(self, name: str, **values: object) -> bytes: ...


@dataclass(frozen=True)
class Renderer:
    """Renders answers from the store, each for the reader's visible cities."""

    store: PublicationStore
    spec: Spec | None = None  # the pipeline file, if any

    def of_publication(
        self,
        request: Request,
        media_type: str,
        make: Callable[[Edition], bytes],
        of: object = None,
        **past: Any,
    ) -> Response:
        """Return a response about a publication.

        `of` is what the answer depends on besides the publication and the path; `past` may name an
        earlier publication, as `PublicationStore.edition` takes it.
        """
        style, cities = of_request(request), person(request).cities
        note_reader(person(request))
        with locale.active(style):
            edition = self.store.edition(cities, **past)
            body = make(edition)
        request.scope[OF_EDITION] = not edition.past
        if cities is None:
            tag = self.store.tag(edition, request.url.path, media_type, of, style, is_for_admin())
        else:  # an edition's tag also changes with numbers hidden from the reader
            tag = self.store.entity_tag(request.url.path, body)
        return not_modified(request, tag) or gzipped(request, body, media_type, tag)

    def of_nights(self, request: Request, media_type: str, make: Callable[[Logbook], bytes]) -> Response:
        """Return a response about the latest runs, rendered each time: it changes with every stage
        of a run."""
        note_reader(person(request))
        with locale.active(of_request(request)):
            body = make(replace(self.store.logbook(person(request).cities), spec=self.spec))
        tag = self.store.entity_tag(request.url.path, body)
        return not_modified(request, tag) or with_etag(body, media_type, tag)

    def api_answer(
        self,
        request: Request,
        file: str,
        form: str,
        make: Callable[[Any], Any],
        sheet: Callable[[Any], CsvSheet],
        *,
        of_publication: bool = True,
        **past: Any,
    ) -> Response:
        """Return a view of the API in the requested format; a CSV is sent as an attachment."""
        media_type = MEDIA_TYPE if form == "csv" else JSON

        def write(source: Edition | Logbook) -> bytes:
            out = make(source)
            return sheet(out).csv() if form == "csv" else to_json(out)

        if of_publication:
            answer = self.of_publication(request, media_type, write, **past)
        else:
            answer = self.of_nights(request, media_type, write)
        if form == "csv":
            answer.headers["Content-Disposition"] = _as_file(file)
        return answer


def attached(csv: bytes, file: str) -> Response:
    """Return a CSV made for one person: an attachment that no browser caches."""
    return Response(csv, media_type=MEDIA_TYPE, headers={"Content-Disposition": _as_file(file)})


def _as_file(name: str) -> str:
    return f'attachment; filename="{name}.csv"'
