"""Security headers (CSP and others) of every answer, and conditional responses by ETag (RFC 9110)."""

from __future__ import annotations

import gzip

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = "Content-Security-Policy"  # an answer may override it
HEADERS = {
    POLICY: (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
REVALIDATED = {"Cache-Control": "no-cache", "Vary": "Accept-Language, Cookie, Accept-Encoding"}
TRY_AGAIN = {"Retry-After": "60"}  # for data that is temporarily unavailable
ORIGIN = "forecaster.origin"
"""Key in the scope for the origin of an answer: "kept", "earlier" while a newer one is made,
"made", or "copy" from memory."""
OF_EDITION = "forecaster.of_edition"
"""Key in the scope; True for an answer that depends only on the current edition."""
FOREVER = "public, max-age=31536000, immutable"


class SecurityHeaders:
    """ASGI middleware that adds the headers to every answer; a static file named by its digest is
    cached forever."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update({**HEADERS, POLICY: headers.get(POLICY, HEADERS[POLICY])})
                if scope["path"].startswith("/static/") and scope["query_string"].startswith(b"v="):
                    headers["Cache-Control"] = FOREVER
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        return await self.app(scope, receive, with_headers)


def with_etag(body: bytes, media_type: str, tag: str) -> Response:
    """Return an answer that a browser keeps and revalidates each time."""
    return Response(body, media_type=media_type, headers={"ETag": tag, **REVALIDATED})


def gzipped(request: Request, body: bytes, media_type: str, tag: str) -> Response:
    """Return the same, compressed once for all readers of the cache, if the browser accepts gzip."""
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return with_etag(body, media_type, tag)
    return Response(
        gzip.compress(body, 6, mtime=0),
        media_type=media_type,
        headers={"ETag": tag, "Content-Encoding": "gzip", **REVALIDATED},
    )


def not_modified(request: Request, tag: str) -> Response | None:
    """Return 304 if the browser already has this answer."""
    if etag_matches(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers={"ETag": tag, **REVALIDATED})
    return None


def etag_matches(if_none_match: str, tag: str) -> bool:
    """True if the header names the tag."""
    tags = [part.strip().removeprefix("W/") for part in if_none_match.split(",")]
    return tag.removeprefix("W/") in tags or "*" in tags
