"""Separate HTTP listener for Prometheus: it serves metrics, and nothing else, to anyone who can
reach it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, start_http_server

from forecaster.errors import SpecError


def listen(collectors: CollectorRegistry, address: str, option: str) -> str:
    """Serve metrics at HOST:PORT in a thread of this process and return the URL; port 0 selects a
    free one.

    Raises SpecError, which names the option, for invalid text, or if the address is not available.
    """
    host, port = parse_address(address, option)
    try:
        server, _ = start_http_server(port, host, collectors)
    except OSError as error:
        raise SpecError(
            f"{option}: cannot listen on {host} port {port}: {error.strerror or error}; wanted a free port of ours"
        ) from error
    url_host = f"[{host}]" if ":" in host else host
    return f"http://{url_host}:{server.server_port}/metrics"


def parse_address(text: str, option: str) -> tuple[str, int]:
    """Parse HOST:PORT. Raises SpecError for anything else."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise SpecError(f"{option}: found {text!r}, wanted HOST:PORT, as in 127.0.0.1:9464")
    return host, int(port)
