"""Errors of Delta, Arrow and an object store as sentences."""

from __future__ import annotations

import re

import pyarrow as pa
from deltalake.exceptions import DeltaError

FAULTS = (DeltaError, OSError, pa.ArrowException, ValueError, TypeError, KeyError)
# separates an error of delta-rs from its cause
_LINK = re.compile(r"(\x1b\[[\d;]*m|\s)*↳(\x1b\[[\d;]*m|\s)*")
# rejections by a store, whatever the request
_REFUSAL = re.compile(r"non-2xx status code: (5\d\d|429)|error sending request")
# errors about the content of files, and about a missing file that the log names
_DAMAGE = re.compile(
    r"is damaged|corrupt|magic bytes|json error|no table metadata|deserializ|end of stream|decompress|no such file",
    re.IGNORECASE,
)


def sentence(error: BaseException) -> str:
    """First line of the error, joined with the causes that delta-rs writes below it; the rest may
    be a backtrace."""
    text = _LINK.sub(": ", str(error)).strip()
    return (text.splitlines() or [type(error).__name__])[0].rstrip()


def remedy(error: BaseException) -> str:
    """Next step for a table that cannot be read. Suggests a restore only if a file was read and is
    damaged."""
    text = sentence(error)
    if "URL scheme is not allowed" in text:
        return "wanted an https:// endpoint, or AWS_ALLOW_HTTP=true in the environment for one without TLS"
    if _REFUSAL.search(text):
        return "wanted a store that answers; the table is not damaged, and the next run reads it again"
    if isinstance(error, pa.ArrowInvalid) or _DAMAGE.search(text):
        return "restore the folder from a backup, or move it aside and ingest again"
    return "no file was found damaged; wanted credentials, a region and rights by which it can be read"


def is_timeout(error: BaseException, elapsed: float, limit: float) -> bool:
    """True if an object store did not answer in time, judged by its client's error after `elapsed`
    seconds; a request may take `limit`. For writes the client only reports that the request could
    not be sent."""
    text = str(error)
    return "timed out" in text or ("error sending request" in text and elapsed >= 0.9 * limit)
