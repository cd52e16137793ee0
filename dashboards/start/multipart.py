"""Forms with files (multipart/form-data, RFC 7578), read as they come: no file is held in memory."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from email.message import Message

from starlette.exceptions import HTTPException
from starlette.requests import Request

_LONGEST_HEAD = 8_192  # bytes
_DISPOSITION = re.compile("content-disposition:", re.IGNORECASE)
_PARAMETER = re.compile(r'[; ](name|filename)="([^"]*)"')  # in which browsers write a quote as %22
_BROKEN = "the form broke off, or is none with files"


@dataclass(frozen=True)
class FormPart:
    """A field, or a file where it has a name; its content is to be read before the next part."""

    name: str
    file_name: str | None
    content: AsyncIterator[bytes]


class _Body:
    """The body, of which what comes before a mark is read at a time."""

    def __init__(self, request: Request) -> None:
        self._chunks, self._rest = request.stream(), b"\r\n"

    async def until(self, mark: bytes) -> AsyncIterator[bytes]:
        """The bytes before the mark. Raises HTTPException 400 where it never comes."""
        while (place := self._rest.find(mark)) < 0:
            sure = max(len(self._rest) - len(mark) + 1, 0)
            head, self._rest = self._rest[:sure], self._rest[sure:]
            if head:
                yield head
            chunk = await anext(self._chunks, b"")
            if not chunk:
                raise HTTPException(400, _BROKEN)
            self._rest += chunk
        head, self._rest = self._rest[:place], self._rest[place + len(mark) :]
        yield head

    async def short(self, mark: bytes) -> bytes:
        """The bytes before the mark. Raises HTTPException 400 where they are too many for a head."""
        whole = b""
        async for piece in self.until(mark):
            whole += piece
            if len(whole) > _LONGEST_HEAD:
                raise HTTPException(400, _BROKEN)
        return whole


async def parts(request: Request) -> AsyncIterator[FormPart]:
    """The parts of the request's body, one after the other. Raises HTTPException 400 for another body."""
    kind = Message()
    kind["content-type"] = request.headers.get("content-type", "")
    boundary = kind.get_boundary()
    if kind.get_content_type() != "multipart/form-data" or not boundary:
        raise HTTPException(400, _BROKEN)
    body, delimiter = _Body(request), b"\r\n--" + boundary.encode("latin-1", "replace")
    await body.short(delimiter)
    while not (line := await body.short(b"\r\n")).startswith(b"--"):
        if line.strip():
            raise HTTPException(400, _BROKEN)
        head = (await body.short(b"\r\n\r\n")).decode("utf-8", "replace")
        names = dict(_PARAMETER.findall(next(filter(_DISPOSITION.match, head.split("\r\n")), "")))
        yield FormPart(names.get("name", ""), names.get("filename"), body.until(delimiter))


async def text(part: FormPart) -> str:
    """The text of a field. Raises HTTPException 400 where it is too long for one."""
    whole = b""
    async for piece in part.content:
        whole += piece
        if len(whole) > _LONGEST_HEAD:
            raise HTTPException(400, _BROKEN)
    return whole.decode("utf-8", "replace")
