"""Prefect API probe: check whether the server at `PREFECT_API_URL` is compatible with this client."""

from __future__ import annotations

import http.client
import re
import time
import urllib.error
import urllib.request
from importlib.metadata import version

from forecaster.errors import ForecasterError

URL = "PREFECT_API_URL"
PROBE = 8  # timeout of an answer, in seconds


def probe(address: str) -> str:
    """Check whether an external server is compatible with this client; return a remark if its
    version differs.

    Raises ForecasterError if nothing answers within `PROBE` seconds, the answer is not from
    Prefect, or the major version differs.
    """
    address = address.rstrip("/")
    status, body = _answer(f"{address}/health")
    if status >= 500:
        raise ForecasterError(f"the server at {address} answers its health check with {status}")
    if status == 200 and body != b"true":
        beginning = body[:40].decode("utf-8", "replace")
        raise ForecasterError(
            f"{address} is no Prefect API: it answers {beginning!r}; {URL} names one, as in http://host:4200/api"
        )
    status, body = _answer(f"{address}/admin/version")
    ours, theirs = version("prefect"), body.decode("utf-8", "replace").strip('"')
    if status != 200 or theirs == ours or not re.fullmatch(r"\d+\.\d+[\w.+-]*", theirs):
        return ""  # e.g. a server that requires a key for this
    if theirs.split(".")[0] != ours.split(".")[0]:
        raise ForecasterError(
            f"the server at {address} is Prefect {theirs}, this client {ours}; wanted the same version"
        )
    return f"the server is Prefect {theirs}, this client {ours}"


def _answer(url: str) -> tuple[int, bytes]:
    """Status and beginning of an answer; a server that sends byte by byte has `PROBE` seconds in
    total."""
    end = time.monotonic() + PROBE
    try:
        with urllib.request.urlopen(url, timeout=PROBE) as answer:
            body = b""
            while len(body) < 4096 and (more := answer.read1(4096)):
                body += more
                if time.monotonic() > end:
                    raise TimeoutError(f"no complete answer within {PROBE} s")
            return answer.status, body
    except urllib.error.HTTPError as error:
        with error:
            return error.code, b""
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise ForecasterError(f"nothing that speaks HTTP answers at {url}: {reason}") from None
