"""Bytes that are no text of a file's encoding: kept in the text, shown as escapes, and which
encoding would read them.

A decoder that meets such a byte puts a lone surrogate in its place (U+DC00 and the byte, as
`surrogateescape` does), so that lines and fields are found all the same; whoever reads the fields
refuses the row.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from functools import lru_cache

from forecaster.core.language import N_

NO_TEXT = "a byte that is not "  # with which the fault of a row begins
FAULT_OF_ROW = N_(
    "a byte that is not {encoding} text, as in '{example}'; wanted the `encoding`, as in {other}, of its source"
)
ERRORS = "forecaster.kept"  # the name under which decoders know `_kept`
_LONE = re.compile("[\ud800-\udfff]")
_RUN = re.compile("[\udc80-\udcff]{3}")
_SHOWN = 60  # characters of a text that cannot be read
_ESCAPED = re.compile(r"\\x([89a-f][0-9a-f])")
_OF_LETTERS = ("cp1252", "cp1250", "cp850")  # a letter here and there is beyond ASCII
_OF_WORDS = ("cp1251", "cp932", "gb18030", "euc_kr", "big5")  # whole words are


def _kept(error: UnicodeError) -> tuple[str, int]:
    """A lone surrogate for the first byte that cannot be read. Raises the error where letters take
    several bytes, as in UTF-16."""
    if not isinstance(error, UnicodeDecodeError) or error.object[error.start] < 0x80 or "16" in error.encoding:
        raise error
    return chr(0xDC00 + error.object[error.start]), error.start + 1


codecs.register_error(ERRORS, _kept)


def is_whole(text: str) -> bool:
    """Whether each byte of the text could be read."""
    return text.isascii() or _LONE.search(text) is None


def escaped(text: str) -> str:
    """The text with the bytes that could not be read as \\xfc."""
    return _LONE.sub(lambda lone: f"\\x{ord(lone[0]) & 0xFF:02x}", text)


def unescaped(text: str) -> str:
    """Original bytes of an `escaped` text."""
    return _ESCAPED.sub(lambda byte: chr(0xDC00 + int(byte[1], 16)), text)


@lru_cache(10_000)
def fault(encoding: str, odd: tuple[str, ...] = ()) -> str:
    """Sentence about a file or row that has texts with such bytes, and what to set."""
    example = f", as in '{' '.join(escaped(odd[0]).split())[:_SHOWN]}'" if odd else ""
    other = f", as in {guess(odd) or 'cp1252'}," if odd else ""
    return f"{NO_TEXT}{encoding} text{example}; wanted the `encoding`{other}"


def guess(texts: Iterable[str]) -> str:
    """The first encoding that reads the bytes of all texts as letters, empty where none does."""
    odd = [text for text in texts if not is_whole(text)]
    runs = sum(_RUN.search(text) is not None for text in odd)
    for name in _OF_WORDS if 2 * runs > len(odd) else _OF_LETTERS:
        if odd and all(_reads(name, text) for text in odd):
            return name
    return ""


def _reads(encoding: str, text: str) -> bool:
    try:
        read = text.encode("utf-8", "surrogateescape").decode(encoding)
    except UnicodeError:
        return False
    beyond = [letter for letter in read if not letter.isascii()]
    if encoding == "cp1251":  # of whose letters nearly all bytes are
        return all("\u0400" <= letter <= "\u04ff" for letter in beyond)
    # those beyond are narrow Japanese ones
    return all(letter.isalpha() and letter < "\uff00" for letter in beyond)
