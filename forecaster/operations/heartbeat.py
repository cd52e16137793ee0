"""Heartbeat (dead man's switch): each nightly run notifies a URL of its start and end, in the
protocol of Healthchecks.io.

The receiver alerts if nothing arrives by the deadline: it runs elsewhere, and so detects a machine
that is down. `URL/start` is called at the start, `URL` when the forecasts are out, `URL/fail` if
they are not, with a sentence in the body. A heartbeat never fails the run, and delays it by a few
seconds at most.
"""

from __future__ import annotations

import argparse
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from forecaster.config import Spec, load
from forecaster.core.time_limits import call_within
from forecaster.errors import DEGRADED, PUBLISHED

Signal = Literal["start", "success", "fail"]
TRIES = 3
SILENCE = 3.0  # timeout per try, in seconds
LIMIT = 8.0  # timeout of all tries, in seconds
LONGEST_BODY = 2000  # characters
_SUFFIXES: dict[Signal, str] = {"start": "/start", "success": "", "fail": "/fail"}


def address(url: str, signal: Signal) -> str:
    """URL of a signal: its suffix comes before the query."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + _SUFFIXES[signal]))


def signal_of(exit_code: int) -> Signal:
    """Signal for the outcome of a run."""
    return "success" if exit_code in (PUBLISHED, DEGRADED) else "fail"


def send(spec: Spec, signal: Signal, sentence: str = "") -> str | None:
    """Notify `notify.heartbeat`, if declared; return the error, without the URL, which is a secret."""
    url = spec.notify.heartbeat
    if url is None:
        return None
    request = urllib.request.Request(address(url, signal), sentence[:LONGEST_BODY].encode(), method="POST")
    request.add_header("Content-Type", "text/plain; charset=utf-8")
    try:
        call_within(LIMIT, lambda: _post(request), "notify.heartbeat")
    except Exception as error:  # a server, a proxy or a resolver may raise anything
        return f"the heartbeat ({signal}) was not taken: {str(error).replace(url, '…') or type(error).__name__}"
    return None


def begin(spec: Spec) -> Callable[[], None]:
    """Send the start signal in the background; return a function that waits for its end."""
    if spec.notify.heartbeat is None:
        return lambda: None
    thread = threading.Thread(target=send, args=(spec, "start"), name="heartbeat", daemon=True)
    thread.start()
    return lambda: thread.join(LIMIT)


def _post(request: urllib.request.Request) -> None:
    for remaining in reversed(range(TRIES)):
        try:
            with urllib.request.urlopen(request, timeout=SILENCE):
                return
        except OSError as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            if not remaining:
                raise


def main(arguments: list[str] | None = None) -> None:
    """Send the failure of `forecaster up`, on behalf of its systemd unit (`forecaster up
    --install`)."""
    parser = argparse.ArgumentParser(prog="forecaster.operations.heartbeat")
    parser.add_argument("file", type=Path)
    spec = load(parser.parse_args(arguments).file)
    sentence = f"{spec.name}: `forecaster up` has failed and is not restarted"
    fault = send(spec, "fail", sentence)
    print(f"{sentence}; {fault}" if fault else sentence)


if __name__ == "__main__":
    main()
