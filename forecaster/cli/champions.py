"""Commands for promotion and rollback: list champions, promote a bundle by hand, return to the
previous champion."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime, time
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated

import typer

from forecaster.cli.options import By, File, Json, Reason, decision, parsed_day, print_line, print_lines
from forecaster.errors import SpecError

if TYPE_CHECKING:
    from forecaster.config import Spec
    from forecaster.ledger.records import Promotion
    from forecaster.registry.champion import Change


def champions(
    file: File,
    on: Annotated[
        str | None, typer.Option("--on", metavar="DATE", help="Only the champion at the end of that day.")
    ] = None,
    as_json: Json = False,
    card: Annotated[
        str | None,
        typer.Option("--card", metavar="BUNDLE", help="Only the model card of this stored bundle, in Markdown."),
    ] = None,
) -> None:
    """Show all champions, newest first."""
    from forecaster.config import load
    from forecaster.ledger.store import Ledger
    from forecaster.publishing import champion_fit

    spec = load(file)
    if card is not None:
        if on is not None or as_json:
            raise SpecError("found --card with --on or --json, wanted --card alone")
        print_lines(_card(spec, card))
        return
    instant = None if on is None else _end_of(on, spec)
    with Ledger.open_reader(spec.ledger_url) as ledger:
        if instant is None:
            promotions, sentences = ledger.promotions(spec.name)[::-1], champion_fit.of_champion(spec, ledger)
        else:
            promotions, sentences = tuple(filter(None, [ledger.champion(spec.name, instant)])), []
    if as_json:
        typer.echo(json.dumps([asdict(promotion) for promotion in promotions], default=str, indent=2))
        return
    none = f"no model has reigned{f' by the end of {on}' if on else ' yet'}: seasonal naive forecasts"
    print_lines([*(_promotion_line(promotion, spec) for promotion in promotions)] or [none])
    print_lines(sentences)


def _card(spec: Spec, digest: str) -> list[str]:
    """Lines of a kept bundle's model card."""
    from forecaster.registry import champion
    from forecaster.serving import bundle

    name = champion.kept_bundle(spec, digest)
    manifest = bundle.load(spec.paths.bundle(name), spec.paths.folder).manifest
    if "card" not in manifest:
        raise SpecError(f"bundle {name} has no model card, wanted one of a later version: the next night trains one")
    return str(manifest["card"]).splitlines()


def promote(
    file: File,
    bundle: Annotated[
        str, typer.Argument(metavar="BUNDLE", help="Its name in `state/bundles`; the first digits suffice.")
    ],
    reason: Reason,
    by: By = None,
) -> None:
    """Make a kept bundle the champion by hand."""
    from forecaster.config import load
    from forecaster.registry import champion

    spec = load(file)
    _print_change(champion.promote(spec, bundle, **decision(by, reason)), spec)


def rollback(file: File, reason: Reason, by: By = None) -> None:
    """Return to the champion before this one.

    It makes the next prediction; the page stays unchanged until then.
    """
    from forecaster.config import load
    from forecaster.registry import champion

    spec = load(file)
    change = champion.rollback(spec, **decision(by, reason))
    _print_change(change, spec)
    _notify(spec, f"{spec.name}: rolled back. {_promotion_line(change.promotion, spec)}")


def _notify(spec: Spec, sentence: str) -> None:
    """Notify `notify.blocks` of a rollback, which holds even if nobody can be notified."""
    if not spec.notify.blocks:
        return
    for line in entry_points(group="forecaster.lines", name="told"):
        try:
            line.load()(spec, "rollback", sentence)
        except Exception as error:  # a service may raise anything
            print_line(f"Nobody was told: {type(error).__name__}: {error}", err=True)


def _print_change(change: Change, spec: Spec) -> None:
    print_line(_promotion_line(change.promotion, spec))
    if change.registry_problem:
        print_line(f"The registry's aliases are as they were: {change.registry_problem}", err=True)
    print_line("It forecasts from the next `forecaster predict` or night on.")


def _promotion_line(promotion: Promotion, spec: Spec) -> str:
    version = f"v{promotion.model_version}" if promotion.model_version else "no version"
    instead = (
        f" in place of {promotion.previous_digest}"
        if promotion.previous_digest not in (None, promotion.bundle_digest)
        else ""
    )
    when = f"{promotion.at.astimezone(spec.zone):%Y-%m-%d %H:%M:%S %Z}"
    return f"{when}  {promotion.bundle_digest} ({version}){instead}, by {promotion.by}: {promotion.reason}"


def _end_of(day: str, spec: Spec) -> datetime:
    return datetime.combine(parsed_day("--on", day), time.max, spec.zone).astimezone(UTC)
