"""Promote a bundle to champion by hand, or roll back to the champion before: who forecasts, by the
ledger."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from forecaster.config import Spec
from forecaster.core.terminal import count
from forecaster.errors import BundleError, NoSuchRow, SpecError
from forecaster.ledger.records import Promotion, previous_champion
from forecaster.ledger.store import Ledger
from forecaster.registry import outbox
from forecaster.serving import bundle as bundles


@dataclass(frozen=True)
class Change:
    """A change of champion, and why the registry could not be told of it (None when it was)."""

    promotion: Promotion
    registry_problem: str | None


def promote(spec: Spec, digest: str, *, by: str, reason: str, now: datetime) -> Change:
    """Make a kept bundle the champion; `digest` may be the first digits of its name.

    Raises SpecError where no bundle, or more than one, is meant, and BundleError where it is not
    what it was.
    """
    name = kept_bundle(spec, digest)
    with Ledger.open(spec.ledger_url) as ledger:
        promotions = [promotion for promotion in ledger.promotions(spec.name) if promotion.bundle_digest == name]
        # A bundle that no promotion names was made by a night that did not get so far.
        run_id = promotions[-1].run_id if promotions else _run_of(ledger, spec, name)
        version = promotions[-1].model_version if promotions else None
        return _promote(spec, ledger, name, run_id, version, by=by, reason=reason, now=now)


def kept_bundle(spec: Spec, digest: str) -> str:
    """Name of the kept bundle that begins with these digits. Raises SpecError where no bundle, or more than one, is
    meant."""
    names = sorted(folder.name for folder in (spec.paths.bundles).glob("*") if folder.is_dir())
    matches = [name for name in names if digest and name.startswith(digest)]
    if len(matches) != 1:
        found = count(len(matches), "bundle") if matches else "no bundle"
        raise SpecError(
            f"{digest!r} names {found}, wanted one of {', '.join(names) or 'none: nothing was trained yet'}"
        )
    return matches[0]


def rollback(spec: Spec, *, by: str, reason: str, now: datetime) -> Change:
    """Let the champion before the reigning one forecast again, from the next prediction on.

    Raises NoLedger where there is none, NoSuchRow where nobody reigned before, BundleError where
    that one's bundle is not what it was.
    """
    with Ledger.open_reader(spec.ledger_url):  # where there is none, none is made
        pass
    with Ledger.open(spec.ledger_url) as ledger:
        target = previous_champion(ledger.promotions(spec.name))
        if target is None:
            raise NoSuchRow(f"nothing to roll back to: {spec.name} has had no earlier champion")
        digest, version = target.bundle_digest, target.model_version
        return _promote(spec, ledger, digest, target.run_id, version, by=by, reason=reason, now=now)


def _run_of(ledger: Ledger, spec: Spec, digest: str) -> str:
    runs = [run for run in ledger.runs(spec.name, limit=1000) if run.bundle_digest == digest]
    if not runs:
        raise SpecError(f"bundle {digest} belongs to no run of {spec.name} in the ledger; wanted one that a night made")
    return runs[0].run_id


def _promote(
    spec: Spec, ledger: Ledger, digest: str, run_id: str, version: str | None, *, by: str, reason: str, now: datetime
) -> Change:
    try:
        bundles.load(spec.paths.bundle(digest), spec.paths.folder)
    except BundleError as error:
        raise BundleError(f"not promoted: {error}") from error
    promotion = ledger.promote(
        spec.name, run_id=run_id, bundle_digest=digest, by=by, reason=reason, model_version=version, at=now
    )
    return Change(promotion, outbox.align(spec, ledger))
