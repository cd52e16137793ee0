"""Commands for on-call staff: metrics for Prometheus, and the state of each promise."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from forecaster.cli.options import File, Json, entry_point, load_spec, print_line, print_lines
from forecaster.errors import DEGRADED, NoLedger, SpecError


def notify(
    file: File,
    block: Annotated[
        str | None, typer.Option(metavar="TYPE/NAME", help="Test only this block; default: all declared blocks.")
    ] = None,
) -> None:
    """Send a test sentence to the notification blocks.

    These are `notify.blocks`, and the receivers of morning digests.
    """
    spec = load_spec(file)
    declared = tuple(dict.fromkeys((*spec.notify.blocks, *(receiver.to for receiver in spec.notify.digest))))
    if not declared or (block and block not in declared):
        block_names = ", ".join(declared) or "none: notify.blocks is empty"
        raise SpecError(f"--block: found {block or 'nothing'}, wanted a block of the pipeline file: {block_names}")
    blocks = (block,) if block else declared
    trial = spec.model_copy(update={"notify": spec.notify.model_copy(update={"blocks": blocks, "of": ("test",)})})
    entry_point("told")(trial, "test", f"{spec.name}: this is a test of its notifications; nothing is wrong.")
    print_line(f"sent to {', '.join(blocks)}")


def metrics(
    file: File,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port to answer Prometheus on until interrupted; 0: a free one."),
    ] = None,
    host: Annotated[str, typer.Option(help="With --port: the address to listen on.")] = "127.0.0.1",
    textfile: Annotated[
        Path | None,
        typer.Option("--textfile", metavar="PATH", help="Write a .prom file for node exporter's textfile collector."),
    ] = None,
) -> None:
    """Expose the ledger's metrics to Prometheus, or print them.

    Works while nothing else runs: stage seconds, compilations, memory, publications, missing
    nights, accuracy.
    """
    if port is not None and textfile is not None:
        raise SpecError("found --port and --textfile, wanted only one of them")
    spec = load_spec(file)
    from forecaster.ledger.store import Ledger
    from forecaster.monitoring import exposition

    if textfile is not None:
        exposition.write_textfile(spec, textfile)
    elif port is None:
        typer.echo(exposition.text(spec), nl=False)
    else:
        from forecaster.monitoring import listener

        # the first run creates it; one of another version is reported now, not at each scrape
        with suppress(NoLedger):
            Ledger.open_reader(spec.ledger_url).close()
        url = listener.listen(exposition.registry(spec, process=True), f"[{host}]:{port}", "--port")
        typer.echo(f"metrics: {url}")
        threading.Event().wait()


def slo(file: File, as_json: Json = False) -> None:
    """Show the state of each promise in the section `slo`.

    State, rest of its error budget over the whole window, and burn rate: at 1 the last week would
    spend exactly all of it. The exit code is 3 if a promise is broken.
    """
    spec = load_spec(file)
    from forecaster.ledger.store import Ledger
    from forecaster.monitoring import slo as promises

    now = datetime.now(UTC)
    with Ledger.open_reader(spec.ledger_url) as ledger:
        standings, freeze = promises.standings(spec, ledger, now), promises.freeze(spec, ledger, now)
    if as_json:
        rows = [{"label": row.label, "state": row.state, **asdict(row)} for row in standings]
        typer.echo(json.dumps({"promises": rows, "frozen": freeze.sentence if freeze else None}, indent=2))
    else:
        print_lines(map(promises.line, standings))
        if spec.slo is None:
            print_line("The pipeline file has no section slo: these are its defaults, and nothing follows from them.")
        if freeze:
            print_line(f"{freeze.sentence}. `forecaster promote {file} BUNDLE --reason …` thaws them for four weeks.")
    broken = spec.slo is not None and any(status.state == "broken" for status in standings)
    raise typer.Exit(DEGRADED if broken else 0)
