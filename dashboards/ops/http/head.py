"""HEAD requests (RFC 9110, 9.3.2): the headers of the answer to GET, of every page and of the API,
without its body."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# prefixes of paths where GET changes something, so that HEAD is not allowed
CHANGING = ("/sign-in", "/link/")


class HeadRequests:
    """ASGI middleware that turns HEAD into GET and sends only the headers of the answer."""

    def __init__(self, app: ASGIApp, but: tuple[str, ...] = ()) -> None:
        """Keep the app. Paths that begin with one of `but` are passed on unchanged, since GET
        changes something there."""
        self.app, self._but = app, but

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD" or scope["path"].startswith(self._but):
            await self.app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                if message.get("more_body"):
                    return
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await self.app({**scope, "method": "GET"}, receive, without_body)
