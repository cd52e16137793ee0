"""What Delta, Arrow and an object store raise, as a sentence."""

from __future__ import annotations

import re

import pyarrow as pa
from deltalake.exceptions import DeltaError

FAULTS = (DeltaError, OSError, pa.ArrowException, ValueError, TypeError, KeyError)
_LINK = re.compile(r"(\x1b\[[\d;]*m|\s)*↳(\x1b\[[\d;]*m|\s)*")  # between an error of delta-rs and its cause
_REFUSAL = re.compile(r"non-2xx status code: (5\d\d|429)|error sending request")  # of a store, whoever asks for what


def sentence(error: BaseException) -> str:
    """The first line, with the causes that delta-rs writes below it: its errors may carry a backtrace."""
    text = _LINK.sub(": ", str(error)).strip()
    return (text.splitlines() or [type(error).__name__])[0].rstrip()


def remedy(error: BaseException) -> str:
    """What to do about a table that cannot be read: nothing is wrong with it where its object store refuses."""
    if _REFUSAL.search(str(error)):
        return "wanted a store that answers; the table is not damaged, and the next run reads it again"
    return "restore the folder from a backup, or move it aside and ingest again"


def is_timeout(error: BaseException, elapsed: float, limit: float) -> bool:
    """Whether an object store did not answer in time, of what its client raises after `elapsed` seconds; a request may
    take `limit`. Of what was to be written the client says no more than that the request could not be sent.
    """
    text = str(error)
    return "timed out" in text or ("error sending request" in text and elapsed >= 0.9 * limit)
