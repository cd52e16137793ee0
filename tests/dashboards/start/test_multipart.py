from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from dashboards.start import multipart

FORM = (
    b'--line\r\nContent-Disposition: form-data; name="csrf"\r\n\r\ntoken\r\n'
    b'--line\r\nContent-Disposition: form-data; name="file"; filename="K\xc3\xb6ln.csv"\r\n'
    b"Content-Type: text/csv\r\n\r\na;b\r\n--lin\r\n1;2\r\n\r\n--line--\r\n"
)


def request(chunks: list[bytes], kind: str = "multipart/form-data; boundary=line") -> Request:
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> dict[str, object]:
        return messages.pop(0)

    return Request({"type": "http", "headers": [(b"content-type", kind.encode())]}, receive)


def read(chunks: list[bytes], kind: str = "multipart/form-data; boundary=line") -> list[tuple[str, str | None, bytes]]:
    async def whole() -> list[tuple[str, str | None, bytes]]:
        return [
            (part.name, part.file_name, await joined(part.content))
            async for part in multipart.parts(request(chunks, kind))
        ]

    async def joined(content: AsyncIterator[bytes]) -> bytes:
        return b"".join([piece async for piece in content])

    return asyncio.run(whole())


@pytest.mark.parametrize("size", [1, 2, 7, 64, len(FORM)])
def test_parts_are_the_same_however_the_body_comes(size: int) -> None:
    chunks = [FORM[place : place + size] for place in range(0, len(FORM), size)]
    assert read(chunks) == [("csrf", None, b"token"), ("file", "Köln.csv", b"a;b\r\n--lin\r\n1;2\r\n")]


@pytest.mark.parametrize("body", [b"", FORM[:-12], b"--other--\r\n", b"--line", b"--line\r\n" + b"x" * 20_000])
def test_a_form_that_breaks_off_is_refused(body: bytes) -> None:
    with pytest.raises(HTTPException, match="broke off"):
        read([body])


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data", "application/x-www-form-urlencoded"])
def test_another_body_is_refused(kind: str) -> None:
    with pytest.raises(HTTPException):
        read([FORM], kind)
