"""The models that are served: the champion, loaded beside the one before it, warmed, and then put in its place.

Only bundles that are verified (and decrypted where they are encrypted) come in: `forecaster.serving.bundle` sees to it.
A champion that cannot be loaded leaves the one that is served where it is, and is tried again later.
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

WARM_ROWS = (1, 8, 64)  # sizes of batches that are computed before a model is asked
LONGEST_WAIT = 180.0  # seconds that a thread waits for the loop, which may have ended meanwhile
LOOK_SECONDS = 2.0  # between looks at who is champion
RETRY_SECONDS = 30.0  # after which one that could not be loaded is tried again
MOST_MODELS = 4  # in memory: the champion, the one before, and what publications were made with
DATATYPES: Mapping[str, str] = {
    "demand": "FP32",
    "open": "FP32",
    "covariates": "FP32",
    "calendar": "FP32",
    "statics": "INT32",
}


class ServedModel:
    """A bundle that is ready to be asked, and the queue before it."""

    def __init__(self, predictor: Predictor, limits: BatchLimits, metrics: InferenceMetrics) -> None:
        self.predictor, self.version = predictor, predictor.bundle.name
        self.batcher = MicroBatcher(predictor.of_checked, limits, metrics)

    @property
    def bundle(self) -> Bundle:
        return self.predictor.bundle

    def shapes(self, rows: int = 1) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs, those of no column left out."""
        return {name: shape for name, shape in self.predictor.input_spec.shapes(rows).items() if 0 not in shape[1:]}

    def output_shape(self) -> tuple[int, int]:
        """Days and levels of an answer."""
        return int(self.bundle.manifest["horizon"]), len(self.bundle.levels)

    def checked(self, arrays: Arrays, rows: int) -> Arrays:
        """The arrays of a request, which fit the model. Raises InputError for the first thing that does not."""
        spec = self.predictor.input_spec
        for name, shape in spec.shapes(rows).items():
            if 0 in shape[1:] and name not in arrays:  # a pipeline without statics, whose clients send none
                arrays = {**arrays, name: np.zeros(shape, np.int32 if DATATYPES[name] == "INT32" else np.float32)}
        input_checks.check_rows(arrays, spec, rows)
        return arrays

    async def quantiles(self, arrays: Arrays, rows: int, *, deadline: float) -> Floats:
        """Quantiles (rows, days, levels) of arrays that were checked. Raises what `MicroBatcher.submit` does, and
        InputError where the model has no number for a row: one that has none for any does not come in (`load`)."""
        answer = await self.batcher.submit(arrays, rows, deadline=deadline)
        if not np.isfinite(answer).all():
            row = int(np.argwhere(~np.isfinite(answer))[0][0])
            raise InputError(f"the forecast of row {row} is not a number; wanted inputs closer to those of a night")
        return answer


def load(folder: Path, state: Path) -> Predictor:
    """A verified bundle that was asked once in each of the sizes that batches have. Raises BundleError."""
    predictor = Predictor(bundles.load(folder, state), threads=1)
    try:
        answers = [predictor.of_checked(_any_rows(predictor, rows)) for rows in WARM_ROWS]
    except Exception as error:  # onnxruntime raises a class of its own for every fault
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
    """The champion and the models in memory. All of it belongs to one event loop."""

    def __init__(
        self,
        champion: Callable[[], str | None],
        folder_of: Callable[[str], Path],
        state: Path,
        limits: BatchLimits,
        metrics: InferenceMetrics,
        log: RareWarnings,
    ) -> None:
        """`champion` reads the name of the reigning bundle, `folder_of` says where one lies; both may raise
        ForecasterError, and are asked in threads."""
        self._read_champion, self._folder_of, self._state = champion, folder_of, state
        self._limits, self._metrics, self._log = limits, metrics, log
        self._models: dict[str, ServedModel] = {}  # the one that was asked last stands last
        self._loading: dict[str, asyncio.Task[ServedModel]] = {}
        self._failed: dict[str, float] = {}  # when one may be tried again
        self._endings: set[asyncio.Task[None]] = set()
        self.champion: ServedModel | None = None
        self.draining = False
        self.current = True  # as far as anybody knows: nothing is served yet
        self.queue_limit = limits.queue_rows

    @property
    def ready(self) -> bool:
        """Whether requests are to be sent here."""
        return self.champion is not None and not self.draining

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Load the champion, look for another one from time to time, and let what was asked come to its end."""
        await self.look()
        try:
            async with background(self._look_again()):
                yield
        finally:
            await asyncio.gather(*(model.batcher.close(1.0) for model in self._models.values()), *self._endings)

    async def look(self) -> None:
        """Serve who is champion now; where that one cannot be loaded, go on as before."""
        try:
            name = await asyncio.to_thread(self._read_champion)
            self.current = name == (None if self.champion is None else self.champion.version)
            if name is None or self.current:
                return
            if time.monotonic() < self._failed.get(name, 0):
                return
            model = await self.model(name)
        except Exception as error:  # whatever it is, the next look may be luckier
            self.current = False
            self._log.warn_of(error)
            return
        self._metrics.promoted(model.version, None if self.champion is None else self.champion.version, time.time())
        self.champion, self.current = model, True

    async def model(self, name: str) -> ServedModel:
        """The model of a bundle, which is loaded where it is not in memory; several who ask wait for one.

        Raises BundleError.
        """
        if (model := self.in_memory(name)) is not None:
            return model
        if name not in self._loading:
            self._loading[name] = asyncio.create_task(self._load(name))
        return await asyncio.shield(self._loading[name])

    def in_memory(self, name: str) -> ServedModel | None:
        """The model of this name, where it is served."""
        if (model := self._models.pop(name, None)) is not None:
            self._models[name] = model  # the last that was asked
        return model

    def versions(self) -> Sequence[str]:
        """The names of the models in memory, the champion first."""
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
        """Let go of the model that was not asked for longest, when what waits for it is answered."""
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
        """Rows that wait, of all models."""
        return sum(model.batcher.queued_rows for model in self._models.values())


class QueuedModel:
    """A bundle's model for code that runs in threads of the server: each question goes through the queue like all
    others, of the model that is in memory then."""

    def __init__(
        self, models: ModelStore, bundle: Bundle, loop: asyncio.AbstractEventLoop, deadline: Callable[[], float]
    ) -> None:
        """`deadline` is asked in the thread that asks: an instant of `time.monotonic`."""
        self._models, self._bundle, self._loop, self._deadline = models, bundle, loop, deadline
        self._input_spec = InputSpec.of(bundle)

    @property
    def bundle(self) -> Bundle:
        return self._bundle

    def quantiles(self, window: Mapping[str, Floats | Ints], depot_ids: Sequence[str], cutoff: date) -> Floats:
        """Quantiles (depots, days, levels). Raises InputError, and what `ServedModel.quantiles` does."""
        input_checks.check(window, self._input_spec, depot_ids, cutoff)
        asking = self._ask(window, len(depot_ids), self._deadline())
        return asyncio.run_coroutine_threadsafe(asking, self._loop).result(LONGEST_WAIT)

    async def _ask(self, window: Arrays, rows: int, deadline: float) -> Floats:
        model = await self._models.model(self._bundle.name)  # which may have been let go since
        try:
            return await model.quantiles(window, rows, deadline=deadline)
        except InputError as error:  # of what the night saved, or a question made of it
            raise BundleError(f"bundle {model.version}: {error}") from error
