"""Server of the page: listens on one address for one pipeline, or for several with a front page."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn
from starlette.types import ASGIApp

from dashboards.ops.app import create_app
from dashboards.ops.http.listening import address_of, config, listen_for_prometheus, open_listener, run
from forecaster.monitoring.page_answers import AnswerLog, written_regularly
from forecaster.plugins import plugin

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from dashboards.ops.http.request_metrics import PageMetrics
    from forecaster.config import Spec


def serve(*specs: Spec, host: str = "127.0.0.1", port: int = 8000, metrics: str | None = None) -> None:
    """Serve the page of a pipeline, or of several with a front page, until interrupted; port 0
    takes a free one.

    A single pipeline with `page.together` has the front page, too, since its links lead there.
    `metrics` is HOST:PORT of a separate listener for Prometheus, which the page itself would reject
    as unauthenticated. Raises SpecError if an address is unavailable, if others could reach the
    page but no sign-in is declared, or if the pipelines cannot be served together.
    """
    with open_listener(specs[0].page.access, host, port) as listener:
        logs = _answer_logs(specs, port) if metrics is not None else {}
        collectors = _collectors(metrics, specs) if metrics is not None else None
        app = _app(specs, None if collectors is None else _page_metrics(collectors, logs))
        if collectors is not None and metrics is not None:
            listen_for_prometheus(collectors, metrics)
        if alone := misled(specs):
            print(alone, file=sys.stderr, flush=True)
        names = ", ".join(spec.name for spec in specs)
        with _killed_at_the_end(), written_regularly(logs.values()):
            run(uvicorn.Server(config(app)), listener, f"{names}: {address_of(listener, host)}/")


@contextmanager
def _killed_at_the_end() -> Iterator[None]:
    """End the process on SIGTERM only after everything within has ended: uvicorn raises the signal
    again, before the surrounding code could write anything."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except SystemExit as ending:
        if ending.code != 128 + signal.SIGTERM:
            raise
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def misled(specs: Sequence[Spec]) -> str:
    """Sentence about pipelines whose digests link to nonexistent pages; empty if none does."""
    if len(specs) == 1:
        return ""
    names = [spec.name for spec in specs if spec.notify.digest and spec.page_url == spec.page.access.url]
    if not names:
        return ""
    return (
        f"{', '.join(names)}: links of digests lead to pages that are not there: several pipelines lie under /p/NAME/; "
        "wanted page.together: true in the pipeline file"
    )


def _app(specs: Sequence[Spec], metrics: PageMetrics | None) -> ASGIApp:
    if len(specs) == 1 and not specs[0].page.together:
        spec = specs[0]
        access = spec.page.access
        return create_app(spec.ledger_url, pipeline=spec.name, access=access, spec=spec, metrics=metrics)
    portal: ASGIApp = plugin("portal").create_portal(specs, metrics=metrics)
    return portal


def _answer_logs(specs: Sequence[Spec], port: int) -> Mapping[str, AnswerLog]:
    """Return each pipeline's log of this process's answers: one file per machine and port."""
    name = f"{socket.gethostname()}-{port}.json"
    return {spec.name: AnswerLog(spec.paths.page_answers / name) for spec in specs}


def _collectors(address: str, specs: Sequence[Spec]) -> CollectorRegistry:
    """Return Prometheus collectors of these pipelines. Raises SpecError for an invalid address, and
    MissingExtra."""
    from forecaster.monitoring import exposition, listener

    listener.parse_address(address, "--metrics")
    return exposition.registry(*specs, process=True)


def _page_metrics(collectors: CollectorRegistry, logs: Mapping[str, AnswerLog]) -> PageMetrics:
    from dashboards.ops.http.request_metrics import PageMetrics  # belongs to an extra that others do not need

    return PageMetrics(collectors, logs)
