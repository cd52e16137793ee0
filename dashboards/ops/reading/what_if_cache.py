"""What-if cache: the saved inputs and the bundle of what is published are read once, when the first question comes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dashboards.ops.reading.editions import Edition
from forecaster.config import Spec
from forecaster.errors import DeskError
from forecaster.planning.scenario import ORDERS, Supposition, WhatIfAnswer

if TYPE_CHECKING:
    from forecaster.planning.what_if import Questions


class WhatIfCache:
    """The what-if questions that the newest publication can answer, loaded on first use. Thread-safe."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._lock = threading.Lock()
        self._of: object = None
        self._questions: Questions | None = None

    def answer(
        self, edition: Edition, supposed: Supposition | None
    ) -> tuple[tuple[str, ...], str | None, WhatIfAnswer | None]:
        """What may be supposed, why no model answers (if so), and the answer where something was supposed.

        Raises what `Questions.of` and `Questions.ask` raise; without a question, missing saved inputs are told.
        """
        try:
            questions = self._ready(edition)
        except DeskError as error:
            if supposed is None:
                return (ORDERS,), str(error), None
            raise
        if supposed is None:
            return questions.kinds, questions.missing, None
        # The costs of depots that the reader does not see are in no sum that they get.
        visible = None if edition.cities is None else frozenset(depot.depot_id for depot in edition.outline())
        return questions.kinds, questions.missing, questions.ask(supposed, visible)

    def _ready(self, edition: Edition) -> Questions:
        from forecaster.planning.what_if import (
            Questions,  # with what forecasts, which a page that nobody asks does without
        )

        head = edition.head
        key = (head.publication_id, head.revised_at)
        with self._lock:
            if self._questions is None or self._of != key:
                self._questions = Questions.of(self._spec.paths.folder, edition.ledger.whole(head))
                self._of = key
            return self._questions
