"""Prediction by groups of depots (fan-out), with a fallback to a single whole prediction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from flows.night import Night
from forecaster.core.language.sentences import of_error
from forecaster.core.parallel import Fan
from forecaster.errors import LostLease, NoUsableData, WorkersKilled

if TYPE_CHECKING:
    from forecaster.publishing.outcome import PublishedForecast

Result = TypeVar("Result")


def predict(night: Night, fan: Fan) -> Mapping[str, Any] | None:
    """Return the publication by groups of depots; None if it must be done whole, which is noted in
    the outcome.

    Raises NoUsableData if there is no basis for a forecast, LostLease if another run has taken
    over.
    """
    depots = night.spec.execution.depots_at_a_time
    assert depots is not None
    from forecaster.publishing.groups.publish_groups import publish_groups

    def publish(at_a_time: int) -> PublishedForecast | str:
        return publish_groups(
            night.spec,
            as_of=night.as_of,
            run_id=night.run_id,
            note=night.note_for_readers,
            fan=fan,
            depots=at_a_time,
            on_step=lambda step: night.progress.advance(0, step),
        )

    try:
        published = by_smaller_groups(publish, depots, night.remark)
    except (NoUsableData, LostLease):
        raise
    except Exception as error:  # of any kind that a worker or its cluster may raise
        published = of_error(error)
    if isinstance(published, str):
        night.remark(f"depots were forecast all at once, not by groups: {published}")
        return None
    return published.report()


def by_smaller_groups(publish: Callable[[int], Result], depots: int, on_smaller: Callable[[str], None]) -> Result:
    """Return the result for groups of `depots` depots, halved whenever workers are killed.

    Raises WorkersKilled if the groups cannot be smaller.
    """
    from forecaster.serving import totals

    while True:
        try:
            return publish(depots)
        except WorkersKilled as error:
            if depots < 2 * totals.CHUNK:
                raise
            depots //= 2
            on_smaller(f"groups were made smaller, of {depots} depots: {error}")
