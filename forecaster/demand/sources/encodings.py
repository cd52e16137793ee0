"""Bytes that are invalid in a file's encoding: kept in the text, shown as escapes, and used to
guess the right encoding.

The decoder replaces such a byte by a lone surrogate (U+DC00 plus the byte, as `surrogateescape`
does), so that lines and fields can still be found; the reader of the fields rejects the row.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from functools import lru_cache

from forecaster.core.language import N_

NO_TEXT = "a byte that is not "  # prefix of such a row's fault
FAULT_OF_ROW = N_(
    "a byte that is not {encoding} text, as in '{example}'; wanted the `encoding`, as in {other}, of its source"
)
ERRORS = "forecaster.kept"  # name under which decoders know `_kept`
_LONE = re.compile("[\ud800-\udfff]")
_RUN = re.compile("[\udc80-\udcff]{3}")
_SHOWN = 60  # characters shown of an undecodable text
_ESCAPED = re.compile(r"\\x([89a-f][0-9a-f])")
_OF_LETTERS = ("cp1252", "cp1250", "cp850")  # encodings of languages with some letters beyond ASCII
_OF_WORDS = ("cp1251", "cp932", "gb18030", "euc_kr", "big5")  # encodings of languages with whole words beyond ASCII


def _kept(error: UnicodeError) -> tuple[str, int]:
    """Lone surrogate for the first invalid byte. Raises the error if letters take several bytes, as
    in UTF-16."""
    if not isinstance(error, UnicodeDecodeError) or error.object[error.start] < 0x80 or "16" in error.encoding:
        raise error
    return chr(0xDC00 + error.object[error.start]), error.start + 1


codecs.register_error(ERRORS, _kept)


def is_whole(text: str) -> bool:
    """True if each byte of the text could be decoded."""
    return text.isascii() or _LONE.search(text) is None


def escaped(text: str) -> str:
    """Text with undecodable bytes as escapes, such as \\xfc."""
    return _LONE.sub(lambda lone: f"\\x{ord(lone[0]) & 0xFF:02x}", text)


def unescaped(text: str) -> str:
    """Original bytes of an `escaped` text, as lone surrogates."""
    return _ESCAPED.sub(lambda byte: chr(0xDC00 + int(byte[1], 16)), text)


@lru_cache(10_000)
def fault(encoding: str, odd: tuple[str, ...] = ()) -> str:
    """Sentence about a file or row with undecodable texts, and the setting to change."""
    example = f", as in '{' '.join(escaped(odd[0]).split())[:_SHOWN]}'" if odd else ""
    other = f", as in {guess(odd) or 'cp1252'}," if odd else ""
    return f"{NO_TEXT}{encoding} text{example}; wanted the `encoding`{other}"


def guess(texts: Iterable[str]) -> str:
    """First encoding that reads the bytes of all texts as letters; empty if none does."""
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
    if encoding == "cp1251":  # nearly all of its bytes are letters
        return all("\u0400" <= letter <= "\u04ff" for letter in beyond)
    # letters from there on are half-width Japanese ones
    return all(letter.isalpha() and letter < "\uff00" for letter in beyond)
