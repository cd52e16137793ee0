"""The language of an answer: the reader's choice (a cookie), else what the browser accepts, else
the pipeline's.

`?language=de` after the address of any page stores the choice in the browser and redirects to the
page.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboards.ops.formatting import locale
from dashboards.ops.formatting.locale import ReaderLocale
from forecaster.core.language import LANGUAGES

NAME = "language"  # of the cookie and of the query parameter
A_YEAR = 365 * 24 * 3600


class LanguageMiddleware:
    """ASGI middleware that finds the reader's locale and activates it for the answer.

    `secure` is true if cookies travel over https only. `prefix` precedes the addresses of a
    pipeline that is one of several; the choice holds for all of them.
    """

    def __init__(self, app: ASGIApp, default: str, secure: bool, prefix: str = "") -> None:
        self.app, self._default, self._secure, self._prefix = app, default, secure, prefix
        self._cookie = f"__Host-{NAME}" if secure else NAME

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        if (choice := _choice(request)) is not None:
            await self._remembering(request, choice)(scope, receive, send)
            return
        choice = request.cookies.get(self._cookie, "")
        style = locale.reader_locale(request.headers.get("accept-language", ""), choice, self._default)
        request.state.locale = style
        with locale.active(style):
            await self.app(scope, receive, send)

    def _remembering(self, request: Request, choice: str) -> RedirectResponse:
        rest = [(name, value) for name, value in parse_qsl(request.url.query, True) if name != NAME]
        path = self._prefix + "/" + quote(request.scope["path"]).lstrip("/")  # never another host's
        answer = RedirectResponse(path + (f"?{urlencode(rest)}" if rest else ""), 303)
        options = {"secure": self._secure, "httponly": True, "samesite": "lax"}
        answer.set_cookie(self._cookie, choice, max_age=A_YEAR, **options)  # type: ignore[arg-type]
        return answer


def of_request(request: Request) -> ReaderLocale:
    """Return the reader's locale."""
    style = getattr(request.state, "locale", locale.DEFAULT)
    assert isinstance(style, ReaderLocale)
    return style


def _choice(request: Request) -> str | None:
    """Return the supported language that a page's address asks to remember, or None."""
    if request.method != "GET" or request.url.path.startswith(("/api/", "/static/")):
        return None
    choice = request.query_params.get(NAME) if request.url.query else None
    return choice if choice in LANGUAGES else None
