"""Override service: save, withdraw and list planners' overrides of published days, and account for
their value.

Both the commands and the page call these functions; each writes the table of overrides, refreshes
the shown publication and has its audit row written (`audit`) in one transaction. Saving is an
upsert by depot, day and author: the same override sent twice is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import sqlalchemy as sa

from forecaster.config import Spec
from forecaster.core.language import _, ngettext
from forecaster.errors import OverrideError
from forecaster.ledger import connect
from forecaster.ledger.publication import PublishedDepot
from forecaster.ledger.records import Head
from forecaster.ledger.store import Ledger
from forecaster.planning import override_table
from forecaster.planning.override_groups import OverrideCells, OverrideGroup
from forecaster.planning.overrides import (
    LARGEST_ID,
    Override,
    ProposedOverride,
    as_of_day,
    check_words,
    find_superseded,
    is_text,
    shown,
)
from forecaster.planning.value_added import Account, account
from forecaster.plugins import plugin

if TYPE_CHECKING:
    from forecaster.planning.refresh import RefreshOutcome


Number = Callable[[float], str]


def _whole(value: float) -> str:
    return f"{value:,.0f}"


@dataclass(frozen=True)
class OverrideChange:
    """An override that was stored or withdrawn, and the outcome for the page."""

    override: Override
    revised: RefreshOutcome
    replaced_by: int | None = None  # the newest override of the same day, if another one

    def sentence(self, *, for_readers: bool = False, number: Number = _whole) -> str:
        """Message on what was saved or withdrawn, and what the page shows; `number` formats
        numbers."""
        override = self.override
        values = {"number": override.id, "depot": override.depot_id, "day": override.target_date}
        if self.replaced_by is not None:
            message = _(
                "override {number} withdrawn: override {newer} had replaced it, {depot} on {day} stays as it is",
                newer=self.replaced_by,
                **values,
            )
        elif override.withdrawn is not None:
            message = _("override {number} withdrawn: {depot} on {day} shows the model's number again", **values)
        else:
            message = ngettext(
                "override {number}: {depot} on {day} is {n} order ({reason}), until {until}",
                "override {number}: {depot} on {day} is {n} orders ({reason}), until {until}",
                override.orders,
                n=number(override.orders),
                reason=override.reason,
                until=override.until,
                **values,
            )
        return message + self.revised.later(for_readers)


@dataclass(frozen=True)
class GroupChange:
    """Overrides of several days stored together, and the outcome for the page."""

    overrides: tuple[Override, ...]
    closed: int  # days of the request that stay closed
    revised: RefreshOutcome

    def of_one_day(self) -> OverrideChange:
        """Return the change of a group of one."""
        (override,) = self.overrides
        return OverrideChange(override, self.revised)

    def sentence(self, *, for_readers: bool = False, number: Number = _whole) -> str:
        """Message on what was saved or withdrawn, and what the page shows; `number` formats
        numbers."""
        if len(self.overrides) == 1:
            return self.of_one_day().sentence(for_readers=for_readers, number=number)
        first, last = self.overrides[0], self.overrides[-1]
        days = sorted({override.target_date for override in self.overrides})
        depots = sorted({override.depot_id for override in self.overrides})
        whose = depots[0]
        if len(depots) > 1:
            whose = ngettext("{n} depot", "{n} depots", len(depots), n=number(len(depots)))
        when = f"{days[0]}" if len(days) == 1 else _("{first} to {last}", first=days[0], last=days[-1])
        if first.withdrawn is not None:
            message = _(
                "overrides {first} to {last} withdrawn: {depots} on {days}",
                first=first.id,
                last=last.id,
                depots=whose,
                days=when,
            )
            return message + self.revised.later(for_readers)
        orders = sum(override.orders for override in self.overrides)
        message = ngettext(
            "overrides {first} to {last}: {depots} on {days}, {n} order together ({reason})",
            "overrides {first} to {last}: {depots} on {days}, {n} orders together ({reason})",
            orders,
            n=number(orders),
            first=first.id,
            last=last.id,
            depots=whose,
            days=when,
            reason=first.reason,
        )
        if self.closed:
            message = ngettext(
                "{message}; {n} closed day stays closed",
                "{message}; {n} closed days stay so",
                self.closed,
                n=number(self.closed),
                message=message,
            )
        return message + self.revised.later(for_readers)


Change = TypeVar("Change")

Audit = Callable[[sa.Connection, Change], None]
"""Writes a row about a change, in its transaction."""


def save(
    spec: Spec,
    proposed: ProposedOverride,
    *,
    now: datetime | None = None,
    audit: Audit[OverrideChange] | None = None,
    head: Head | None = None,
) -> OverrideChange:
    """Store an override and show it.

    Idempotent: the same override by the same planner is not stored twice, nor is its audit row.
    `head` is the publication to change, by default the shown one.

    Raises OverrideError for a day that is unpublished, closed or over, or an undeclared reason;
    LedgerError.
    """

    def audit_day(connection: sa.Connection, change: GroupChange) -> None:
        if audit is not None:
            audit(connection, change.of_one_day())

    group = OverrideGroup.of_one_day(proposed)
    return save_group(spec, group, now=now, audit=audit_day, head=head).of_one_day()


def save_group(
    spec: Spec,
    group: OverrideGroup | OverrideCells,
    *,
    now: datetime | None = None,
    audit: Audit[GroupChange] | None = None,
    head: Head | None = None,
    beside: Callable[[sa.Connection], None] | None = None,
) -> GroupChange:
    """Store all overrides of a group and show them: all or none (idempotent as `save`).

    `beside` writes in the same transaction what else is to be shown with them. Raises OverrideError
    as `save` and `OverrideGroup.expand`; LedgerError.
    """
    with _ledger(spec) as ledger:
        requested_head, head = head, head or ledger.current(spec.name)
        if head is None:
            raise OverrideError(_("nothing has been published yet; wanted a published day to override"))
        proposals, closed = group.expand(_depots(ledger, head, group), head.levels)
        for proposed in proposals:
            proposed.check(spec.overrides.reasons, as_of_day(head))
        with ledger.transaction() as connection:
            # serializes identical saves
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql("select pg_advisory_xact_lock(7261132)")
            at = now or datetime.now(UTC)
            same = override_table.read_same(connection, spec.name, proposals)
            saved_overrides = tuple(
                override or override_table.write(connection, spec.name, proposed, at)
                for override, proposed in zip(same, proposals, strict=True)
            )
            if beside is not None:
                beside(connection)
            change = GroupChange(saved_overrides, closed, _bring_into_line(connection, spec, requested_head))
            if audit is not None and not all(same):
                audit(connection, change)
            return change


def withdraw(
    spec: Spec,
    override_id: int,
    *,
    by: str,
    note: str = "",
    audit: Audit[OverrideChange] | None = None,
) -> OverrideChange:
    """Withdraw an override; the row stays.

    Raises OverrideError if it does not exist or was withdrawn before, and for words as
    `check_words`.
    """
    check_words(by, note)
    if not 0 < override_id <= LARGEST_ID:
        raise OverrideError(_("found {override_id}, wanted the number of an override", override_id=shown(override_id)))
    with _ledger(spec) as ledger, ledger.transaction() as connection:
        override = override_table.withdraw(connection, spec.name, override_id, by=by, note=note, at=datetime.now(UTC))
        newer = find_superseded(override_table.read_overrides(connection, spec.name)).get(override.id)
        return _shown(connection, spec, override, newer, audit)


def withdraw_group(
    spec: Spec,
    override_ids: Collection[int],
    *,
    by: str,
    note: str = "",
    audit: Audit[GroupChange] | None = None,
) -> GroupChange:
    """Withdraw several overrides, all or none; the rows stay. Raises as `withdraw`."""
    check_words(by, note)
    with _ledger(spec) as ledger, ledger.transaction() as connection:
        at = datetime.now(UTC)
        overrides = tuple(
            override_table.withdraw(connection, spec.name, number, by=by, note=note, at=at)
            for number in sorted(override_ids)
        )
        change = GroupChange(overrides, 0, _bring_into_line(connection, spec))
        if audit is not None:
            audit(connection, change)
    return change


def saved_together(overrides: Iterable[Override], override_id: int) -> tuple[Override, ...]:
    """Overrides saved in the same request as this one, including it, without withdrawn ones."""
    valid = [override for override in overrides if override.withdrawn is None]
    first = next((override for override in valid if override.id == override_id), None)
    return tuple(override for override in valid if first and (override.by, override.at) == (first.by, first.at))


def list_overrides(ledger: Ledger, pipeline: str) -> tuple[Override, ...]:
    """All overrides, including withdrawn ones, oldest first."""
    with ledger.transaction() as connection:
        return override_table.read_overrides(connection, pipeline)


def value_added(ledger: Ledger, pipeline: str, min_days: int) -> Account:
    """Forecast value added of the overrides whose days are over."""
    with ledger.transaction() as connection:
        return account(override_table.read_results(connection, pipeline), min_days)


@contextmanager
def _ledger(spec: Spec) -> Iterator[Ledger]:
    """Open the ledger; changes made to a published schedule are posted to the webhook afterwards."""
    with Ledger.open(spec.ledger_url, patience=connect.ATTENDED) as ledger:
        yield ledger
    if spec.notify.schedule is not None:
        plugin("notice.webhook").deliver_soon(spec)


def _depots(ledger: Ledger, head: Head, group: OverrideGroup | OverrideCells) -> tuple[PublishedDepot, ...]:
    """Published depots that include the group's: the named ones, or all for a city."""
    if (isinstance(group, OverrideGroup) and group.city is not None) or len(
        group.depot_ids
    ) > override_table.MOST_NAMED:
        return ledger.depots(head.publication_id)
    # a name that is not text cannot be queried
    return ledger.depots(head.publication_id, [depot_id for depot_id in group.depot_ids if is_text(depot_id)])


def _shown(
    connection: sa.Connection,
    spec: Spec,
    override: Override,
    replaced_by: int | None,
    audit: Audit[OverrideChange] | None,
) -> OverrideChange:
    """Return the change, after refreshing the shown publication and writing the audit row."""
    change = OverrideChange(override, _bring_into_line(connection, spec), replaced_by)
    if audit is not None:
        audit(connection, change)
    return change


def _bring_into_line(connection: sa.Connection, spec: Spec, head: Head | None = None) -> RefreshOutcome:
    # imports NumPy, which read-only use does not need
    from forecaster.planning import refresh

    return refresh.refresh_within(connection, spec.name, spec.paths, head)
