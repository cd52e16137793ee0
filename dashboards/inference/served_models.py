"""The served models: a new champion is loaded while the previous one serves, warmed, and then
replaces it.

Only verified (and, if encrypted, decrypted) bundles are loaded: `forecaster.serving.bundle` ensures
it. If a champion cannot be loaded, the previous one keeps serving, and the load is retried later.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboards.inference.background import background
from dashboards.inference.metrics import BUNDLE_REFUSED, LOADED, InferenceMetrics
from dashboards.ops.access.rare_warnings import RareWarnings
from forecaster.core.arrays import Floats, Ints
from forecaster.errors import BundleError, InputError
from forecaster.serving import bundle as bundles
from forecaster.serving import input_checks
from forecaster.serving.batching import Arrays, BatchLimits, MicroBatcher
from forecaster.serving.input_checks import InputSpec
from forecaster.serving.predict import Predictor

if TYPE_CHECKING:
    from forecaster.serving.bundle import Bundle

WARM_ROWS = (1, 8, 64)  # batch sizes that are computed before a model serves
LONGEST_WAIT = 180.0  # seconds that a thread waits for the event loop, which may have ended meanwhile
LOOK_SECONDS = 2.0  # between checks for a new champion
RETRY_SECONDS = 30.0  # until a failed load is retried
MOST_MODELS = 4  # in memory: the champion, the previous one, and those of publications
DATATYPES: Mapping[str, str] = {
    "demand": "FP32",
    "open": "FP32",
    "covariates": "FP32",
    "calendar": "FP32",
    "statics": "INT32",
}


class ServedModel:
    """A loaded bundle with its queue."""

    def __init__(self, predictor: Predictor, limits: BatchLimits, metrics: InferenceMetrics) -> None:
        self.predictor, self.version = predictor, predictor.bundle.name
        self.batcher = MicroBatcher(predictor.of_checked, limits, metrics)

    @property
    def bundle(self) -> Bundle:
        return self.predictor.bundle

    def shapes(self, rows: int = 1) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the inputs, without those that have no columns."""
        return {name: shape for name, shape in self.predictor.input_spec.shapes(rows).items() if 0 not in shape[1:]}

    def output_shape(self) -> tuple[int, int]:
        """Return days and levels of an answer."""
        return int(self.bundle.manifest["horizon"]), len(self.bundle.levels)

    def checked(self, arrays: Arrays, rows: int) -> Arrays:
        """Return the arrays of a request, which fit the model. Raises InputError for the first one
        that does not."""
        spec = self.predictor.input_spec
        for name, shape in spec.shapes(rows).items():
            if 0 in shape[1:] and name not in arrays:  # pipelines without statics; their clients send none
                arrays = {**arrays, name: np.zeros(shape, np.int32 if DATATYPES[name] == "INT32" else np.float32)}
        input_checks.check_rows(arrays, spec, rows)
        return arrays

    async def quantiles(self, arrays: Arrays, rows: int, *, deadline: float) -> Floats:
        """Return quantiles (rows, days, levels) of checked arrays.

        Raises what `MicroBatcher.submit` raises, and InputError if the model returns no number for
        a row; a model that does so for plain inputs is not loaded (`load`).
        """
        answer = await self.batcher.submit(arrays, rows, deadline=deadline)
        if not np.isfinite(answer).all():
            row = int(np.argwhere(~np.isfinite(answer))[0][0])
            raise InputError(f"the forecast of row {row} is not a number; wanted inputs closer to those of a night")
        return answer


def load(folder: Path, state: Path) -> Predictor:
    """Return a verified bundle, run once in each batch size. Raises BundleError."""
    predictor = Predictor(bundles.load(folder, state), threads=1)
    try:
        answers = [predictor.of_checked(_any_rows(predictor, rows)) for rows in WARM_ROWS]
    except Exception as error:  # onnxruntime has its own exception class for every fault
        raise BundleError(f"bundle {predictor.bundle.name}: onnxruntime cannot run the model: {error}") from error
    if not all(np.isfinite(answer).all() for answer in answers):
        raise BundleError(
            f"bundle {predictor.bundle.name}: the model returns values that are not numbers for plain inputs"
        )
    return predictor


def _any_rows(predictor: Predictor, rows: int) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    for name, shape in predictor.input_spec.shapes(rows).items():
        arrays[name] = np.zeros(shape, np.int32) if DATATYPES[name] == "INT32" else np.ones(shape, np.float32)
    return arrays


class ModelStore:
    """The champion and the models in memory. Must be used from one event loop only."""

    def __init__(
        self,
        champion: Callable[[], str | None],
        folder_of: Callable[[str], Path],
        state: Path,
        limits: BatchLimits,
        metrics: InferenceMetrics,
        log: RareWarnings,
    ) -> None:
        """Keep the parameters: `champion` reads the name of the champion's bundle, `folder_of`
        returns a bundle's folder. Both may raise ForecasterError, and run in threads."""
        self._read_champion, self._folder_of, self._state = champion, folder_of, state
        self._limits, self._metrics, self._log = limits, metrics, log
        self._models: dict[str, ServedModel] = {}  # least recently used first
        self._loading: dict[str, asyncio.Task[ServedModel]] = {}
        self._failed: dict[str, float] = {}  # when a load may be retried
        self._endings: set[asyncio.Task[None]] = set()
        self.champion: ServedModel | None = None
        self.draining = False
        self.current = True  # as far as known: nothing is served yet
        self.queue_limit = limits.queue_rows

    @property
    def ready(self) -> bool:
        """True if the server accepts requests."""
        return self.champion is not None and not self.draining

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Load the champion, check periodically for another one, and finish pending requests at the
        end."""
        await self.look()
        try:
            async with background(self._look_again()):
                yield
        finally:
            await asyncio.gather(*(model.batcher.close(1.0) for model in self._models.values()), *self._endings)

    async def look(self) -> None:
        """Serve the current champion; if it cannot be loaded, continue as before."""
        try:
            name = await asyncio.to_thread(self._read_champion)
            self.current = name == (None if self.champion is None else self.champion.version)
            if name is None or self.current:
                return
            if time.monotonic() < self._failed.get(name, 0):
                return
            model = await self.model(name)
        except Exception as error:  # any error: the next check may succeed
            self.current = False
            self._log.warn_of(error)
            return
        self._metrics.promoted(model.version, None if self.champion is None else self.champion.version, time.time())
        self.champion, self.current = model, True

    async def model(self, name: str) -> ServedModel:
        """Return the model of a bundle, loading it if necessary; concurrent callers share one load.

        Raises BundleError.
        """
        if (model := self.in_memory(name)) is not None:
            return model
        if name not in self._loading:
            self._loading[name] = asyncio.create_task(self._load(name))
        return await asyncio.shield(self._loading[name])

    def in_memory(self, name: str) -> ServedModel | None:
        """Return the model of this name, if it is in memory."""
        if (model := self._models.pop(name, None)) is not None:
            self._models[name] = model  # now the most recently used
        return model

    def versions(self) -> Sequence[str]:
        """Return the names of the models in memory, the champion first."""
        first = [] if self.champion is None else [self.champion.version]
        return [*first, *(name for name in self._models if name not in first)]

    async def _load(self, name: str) -> ServedModel:
        begun = time.perf_counter()
        try:
            predictor = await asyncio.to_thread(lambda: load(self._folder_of(name), self._state))
        except BundleError:
            self._failed[name] = time.monotonic() + RETRY_SECONDS
            self._metrics.loaded(BUNDLE_REFUSED, time.perf_counter() - begun)
            raise
        finally:
            del self._loading[name]
        self._metrics.loaded(LOADED, time.perf_counter() - begun)
        model = self._models[name] = ServedModel(predictor, self._limits, self._metrics)
        self._forget()
        return model

    def _forget(self) -> None:
        """Unload the least recently used model, after its pending requests are answered."""
        reigning = None if self.champion is None else self.champion.version
        surplus = max(len(self._models) - MOST_MODELS, 0)
        for name in [name for name in self._models if name != reigning][:surplus]:
            ending = asyncio.create_task(self._models.pop(name).batcher.close(60.0))
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    def queued_rows(self) -> int:
        """Return the number of queued rows, of all models."""
        return sum(model.batcher.queued_rows for model in self._models.values())


class QueuedModel:
    """A bundle's model for code in threads of the server: each question goes through the queue like
    all others, to the model in memory at that time."""

    def __init__(
        self, models: ModelStore, bundle: Bundle, loop: asyncio.AbstractEventLoop, deadline: Callable[[], float]
    ) -> None:
        """Keep the parameters; `deadline` is called in the asking thread, and returns an instant of
        `time.monotonic`."""
        self._models, self._bundle, self._loop, self._deadline = models, bundle, loop, deadline
        self._input_spec = InputSpec.of(bundle)

    @property
    def bundle(self) -> Bundle:
        return self._bundle

    def quantiles(self, window: Mapping[str, Floats | Ints], depot_ids: Sequence[str], cutoff: date) -> Floats:
        """Return quantiles (depots, days, levels). Raises InputError, and what
        `ServedModel.quantiles` raises."""
        input_checks.check(window, self._input_spec, depot_ids, cutoff)
        asking = self._ask(window, len(depot_ids), self._deadline())
        return asyncio.run_coroutine_threadsafe(asking, self._loop).result(LONGEST_WAIT)

    async def _ask(self, window: Arrays, rows: int, deadline: float) -> Floats:
        model = await self._models.model(self._bundle.name)  # it may have been unloaded meanwhile
        try:
            return await model.quantiles(window, rows, deadline=deadline)
        except InputError as error:  # from the run's saved inputs, or a question made of them
            raise BundleError(f"bundle {model.version}: {error}") from error
