"""Promote a bundle to champion manually, or roll back to the previous champion: both change the
ledger, which decides who forecasts."""

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
    """A change of champion, and the reason why the registry was not updated (None if it was)."""

    promotion: Promotion
    registry_problem: str | None


def promote(spec: Spec, digest: str, *, by: str, reason: str, now: datetime) -> Change:
    """Make a kept bundle the champion; `digest` may be the first digits of its name.

    Raises SpecError if it matches no bundle, or more than one, and BundleError if the bundle has
    changed.
    """
    name = kept_bundle(spec, digest)
    with Ledger.open(spec.ledger_url) as ledger:
        promotions = [promotion for promotion in ledger.promotions(spec.name) if promotion.bundle_digest == name]
        # A bundle without a promotion was made by a night that ended before it.
        run_id = promotions[-1].run_id if promotions else _run_of(ledger, spec, name)
        version = promotions[-1].model_version if promotions else None
        return _promote(spec, ledger, name, run_id, version, by=by, reason=reason, now=now)


def kept_bundle(spec: Spec, digest: str) -> str:
    """Return the name of the kept bundle that begins with these digits. Raises SpecError if there
    is none, or more than one."""
    names = sorted(folder.name for folder in (spec.paths.bundles).glob("*") if folder.is_dir())
    matches = [name for name in names if digest and name.startswith(digest)]
    if len(matches) != 1:
        actual = count(len(matches), "bundle") if matches else "no bundle"
        raise SpecError(
            f"{digest!r} names {actual}, wanted one of {', '.join(names) or 'none: nothing was trained yet'}"
        )
    return matches[0]


def rollback(spec: Spec, *, by: str, reason: str, now: datetime) -> Change:
    """Restore the previous champion, from the next prediction on.

    Raises NoLedger if there is none, NoSuchRow if there was no previous champion, BundleError if
    its bundle has changed.
    """
    with Ledger.open_reader(spec.ledger_url):  # raises NoLedger instead of creating one
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
