"""What-if cache: reads the saved inputs and the bundle of the publication once, on the first
question."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING

from dashboards.ops.reading.editions import Edition
from forecaster.config import Spec
from forecaster.errors import DeskError, ForecasterError
from forecaster.planning.scenario import ORDERS, Supposition, WhatIfAnswer

if TYPE_CHECKING:
    from forecaster.planning.what_if import Questions

RETRY_SECONDS = 30.0  # until an unusable bundle is tried again


@dataclass(frozen=True)
class WhatIfState:
    """The questions that can be asked: kinds, binary kinds, the reason if no model answers, and the
    answer to a question."""

    kinds: tuple[str, ...]
    yes_or_no: frozenset[str] = frozenset()
    missing: ForecasterError | None = None
    answer: WhatIfAnswer | None = None


class WhatIfCache:
    """Answers what-if questions about the newest publication, loaded on first use. Thread-safe."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._lock = threading.Lock()
        self._of: object = None
        self._questions: Questions | None = None
        # when unusable bundles may be tried again, on the monotonic clock
        self._again = 0.0

    def answer(self, edition: Edition, supposed: Supposition | None) -> WhatIfState:
        """Return the possible questions, and the answer if one is asked.

        Raises what `Questions.of` and `Questions.ask` raise; without a question, missing saved
        inputs are reported in the state.
        """
        try:
            questions = self._ready(edition)
        except DeskError as error:
            if supposed is None:
                return WhatIfState((ORDERS,), missing=error)
            raise
        if edition.cities is not None:
            questions = questions.among({depot.depot_id for depot in edition.outline()})
        state = WhatIfState(questions.kinds, questions.yes_or_no, questions.missing)
        if supposed is None:
            return state
        return replace(state, answer=questions.ask(supposed))

    def _ready(self, edition: Edition) -> Questions:
        from forecaster.planning.refresh import NOBODY, told_crews
        from forecaster.planning.what_if import (
            Questions,  # pulls in the forecasting code, which a page without what-if questions does not need
        )

        head = edition.head
        binding_crews = NOBODY
        if self._spec.staffing is not None and self._spec.staffing.notice_days is not None:
            with edition.ledger.transaction() as connection:
                binding_crews = told_crews(connection, head.pipeline, self._spec.staffing, head.cutoff)
        key = (head.publication_id, head.revised_at, binding_crews)
        with self._lock:
            questions = self._questions
            if questions is None or self._of != key or (questions.broken and monotonic() >= self._again):
                questions = Questions.of(self._spec.paths.folder, edition.ledger.whole(head), told=binding_crews)
                self._questions, self._of, self._again = questions, key, monotonic() + RETRY_SECONDS
            return questions
