"""Forecasts by depot match the page, with and without a what-if."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dashboards.inference import nights
from dashboards.ops.reading.what_if_cache import WhatIfCache
from forecaster.config import load
from forecaster.errors import BundleError
from forecaster.ledger.store import Ledger
from forecaster.planning import saved_inputs, service
from forecaster.planning.overrides import ProposedOverride
from forecaster.planning.saved_inputs import CanaryInputs
from forecaster.planning.scenario import Supposition
from forecaster.planning.what_if import Questions
from forecaster.publishing.predict import predict
from forecaster.serving import bundle
from forecaster.serving.predict import Predictor
from tests import fleets
from tests.dashboards.inference.conftest import STAFFING, Served, promote, run, serving, write_bundle

WEDNESDAY = "2024-04-10"
FORECAST = "/v1/forecast"


def test_depots_get_the_published_numbers_with_crew_tier_and_model(file: Path) -> None:
    spec = load(file)
    service.save(spec, ProposedOverride("B", load_days(spec)[1], 90, "weather", "Ana", "storm"))
    promote(spec, write_bundle(spec, 2.0))  # of the next run: the publication was made by the previous one
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        assert head is not None
        publication = ledger.whole(head)

    async def body() -> None:
        async with serving(spec) as served:
            answer = await served.client.post(FORECAST, json={"depots": ["B", "A", "B"]})
            assert answer.status_code == 200, answer.text
            content = answer.json()
            assert content["levels"] == list(publication.levels)
            assert content["cutoff"] == str(publication.cutoff)
            assert [depot["depot_id"] for depot in content["depots"]] == ["B", "A"]
            assert content["depots"][0]["overridden"] == [False, True, False]
            published = {depot.depot_id: depot for depot in publication.depots}
            whole = (await served.client.post(FORECAST, content=b"")).json()
            assert len(whole["depots"]) == 4
            for depot in (*content["depots"], *whole["depots"]):
                days = published[depot["depot_id"]].days
                np.testing.assert_allclose(depot["quantiles"], [day.quantiles for day in days], atol=0.0006)
                assert depot["drivers"] == [day.drivers for day in days]
                assert depot["vans"] == [day.roster.vans if day.roster else None for day in days]
                assert (depot["tier"], depot["model"]) == (publication.tier, publication.bundle_digest)
            text = (await served.client.get("/metrics")).text
            for start, count in (("cold", 1), ("warm", 1)):
                labels = f'code="200",pipeline="small",route="forecast",start="{start}"'
                assert f"forecaster_inference_requests_total{{{labels}}} {count}.0" in text

    run(body)


def load_days(spec: Any) -> list[Any]:
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        assert head is not None
        return [day.target_date for day in ledger.whole(head).depots[0].days]


def test_requested_depots_are_computed_ahead_for_new_publications(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nights, "LOOK_SECONDS", 0.05)
    spec = load(file)

    async def computed(served: Served) -> float:
        text = (await served.client.get("/metrics")).text
        return sum(float(line.split()[-1]) for line in text.splitlines() if "inference_batch_rows_sum{" in line)

    async def rows_from(served: Served, rows: float) -> None:
        while await computed(served) < rows:
            await asyncio.sleep(0.05)

    async def body() -> None:
        async with serving(spec) as served:
            await asyncio.sleep(0.3)
            assert await computed(served) == 0  # no depot has been requested yet
            before = (await served.client.post(FORECAST, json={"depots": ["B", "C"]})).json()
            assert await computed(served) == 2
            for number, rows in ((90, 4), (91, 6)):  # two corrections, with no request between them
                service.save(spec, ProposedOverride("B", load_days(spec)[1], number, "weather", "Ana", "storm"))
                await asyncio.wait_for(rows_from(served, rows), 60)
            answer = (await served.client.post(FORECAST, json={"depots": ["B", "C"]})).json()
            assert await computed(served) == 6
            assert answer["depots"][1] == before["depots"][1]
            assert answer["depots"][0]["quantiles"][0] == before["depots"][0]["quantiles"][0]
            assert answer["depots"][0]["quantiles"][1][answer["levels"].index(0.5)] == 91
            text = (await served.client.get("/metrics")).text
            for start in ("cold", "warm"):  # everything was read ahead
                labels = f'code="200",pipeline="small",route="forecast",start="{start}"'
                assert f"forecaster_inference_requests_total{{{labels}}} 1.0" in text

    run(body)


def test_a_what_if_gives_the_same_answer_as_the_page(published: Path) -> None:
    spec = load(published)
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        assert head is not None
        publication = ledger.whole(head)
    days = load_days(spec)
    expected = Questions.of(spec.paths.folder, publication).ask(
        Supposition("C", days[0], "promo", 1.0, ("D",), days[1])
    )

    async def body() -> None:
        async with serving(spec) as served:
            asked = {
                "depots": ["C", "D"],
                "what_if": {"date": str(days[0]), "last": str(days[1]), "kind": "promo", "value": 1},
            }
            content = (await served.client.post(FORECAST, json=asked)).json()
            middle = content["levels"].index(0.5)
            medians = [day[middle] for day in content["depots"][0]["quantiles"]]
            np.testing.assert_allclose(medians, [after for _, _, after in expected.week], atol=0.0006)
            crews = np.array([depot["drivers"] for depot in content["depots"]]).sum(axis=0)
            assert crews[:2].tolist() == [day.drivers_after for day in expected.days]
            assert content["what_if"]["closed_days"] == 0
            wrong: list[tuple[Any, int, str]] = [
                ({"depots": ["X"]}, 404, "there is no depot 'X' in the current forecasts"),
                ({"depot": ["A"]}, 400, "depot: found ['A'], wanted Extra inputs"),
                ({"depots": [7]}, 400, "depots.0: found 7, wanted a valid string"),
                ({"what_if": {"date": str(days[0]), "kind": "promo"}}, 400, "wanted a number for promo"),
                ({"what_if": {"date": "1999-01-01", "kind": "closed"}}, 400, "wanted a published day"),
                (
                    {"what_if": {"date": str(days[0]), "kind": "rain", "value": 1}},
                    400,
                    "kind: found 'rain', wanted one of promo",
                ),
            ]
            for question, status, sentence in wrong:
                answer = await served.client.post(FORECAST, json=question)
                assert (answer.status_code, sentence in answer.json()["error"]) == (status, True), answer.text

    run(body)


def test_canary_depots_get_its_numbers_and_unknown_depots_keep_the_published_ones(file: Path) -> None:
    spec = load(file)
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        assert head is not None
        publication = ledger.whole(head)
    [bundle_of_night] = spec.paths.bundles.iterdir()
    champion, canary = (
        Predictor(bundle.load(folder, spec.paths.folder)) for folder in (bundle_of_night, write_bundle(spec, 2.0))
    )
    inputs = saved_inputs.read(spec.paths.saved_inputs, publication.desk)
    beside = CanaryInputs(inputs.panel, canary.bundle.name, frozenset("CD"), frozenset("D"))
    questions = Questions(publication, replace(inputs, canary=beside, strangers=frozenset("A")), champion, None, canary)
    forecast = questions.forecast([0, 1, 2, 3])
    published = np.array([[day.quantiles for day in depot.days] for depot in publication.depots])
    np.testing.assert_allclose(forecast.quantiles[[0, 1, 3]], published[[0, 1, 3]], rtol=1e-6)
    np.testing.assert_allclose(forecast.quantiles[2], 2 * published[2], rtol=1e-6)
    supposed = questions.suppose(Supposition("B", load_days(spec)[0], "promo", 0.0, ("C",))).after
    np.testing.assert_allclose(supposed.median[2, 0] / supposed.median[1, 0], 2, rtol=0.1)
    without = Questions(publication, replace(inputs, canary=beside), champion, None, BundleError("it is damaged"))
    with pytest.raises(BundleError, match="it is damaged"):
        without.forecast([2])


def test_a_publication_is_answered_by_its_own_model_after_later_promotions(file: Path) -> None:
    spec = load(file)
    nights_own = next(spec.paths.bundles.iterdir()).name
    supposed = {"depots": ["A"], "what_if": {"date": WEDNESDAY, "kind": "promo", "value": 1}}

    async def body() -> None:
        async with serving(spec) as served:
            models = served.service.models
            before = (await served.client.post(FORECAST, json=supposed)).json()
            for factor in (2.0, 3.0, 4.0, 5.0, 6.0):
                last = [] if models.champion is None else [models.champion.version]
                promote(spec, write_bundle(spec, factor))
                await models.look()
                assert set(last) < set(models.versions())
            assert len(models.versions()) == 4
            assert nights_own not in models.versions()
            answer = await served.client.post(FORECAST, json=supposed)
            assert (answer.status_code, answer.json()) == (200, before)
            assert nights_own in models.versions()

    run(body)


def test_concurrent_requests_during_a_model_load_are_all_answered(file: Path) -> None:
    spec = load(file)
    promote(spec, write_bundle(spec, 2.0))  # so that the publication's own model is loaded on request

    async def body() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        async with serving(spec) as served, asyncio.timeout(60):
            asking = (served.client.post(FORECAST, json={"depots": [depot]}) for depot in "ABCD" * 10)
            answers = await asyncio.gather(*asking)
            assert [answer.status_code for answer in answers] == [200] * 40
            assert [answer.json()["depots"][0]["depot_id"] for answer in answers] == list("ABCD") * 10

    run(body)


def test_without_a_model_depots_get_the_published_fallback(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(fleets.PIPELINE + STAFFING, "utf-8")
    spec = load(file)
    fleets.fill(spec, fleets.counts("ABCD"), fleets.CITIES)
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.start_run("first", pipeline=spec.name, as_of=fleets.AS_OF, spec_digest=spec.digest)
    predict(spec, as_of=fleets.AS_OF, bundle=None, run_id=None, note=None)
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        assert head is not None
        published = ledger.whole(head).depots

    async def body() -> None:
        async with serving(spec) as served:
            answer = await served.client.post(FORECAST, json={})
            assert answer.status_code == 200, answer.text
            for depot, expected in zip(answer.json()["depots"], published, strict=True):
                assert (depot["depot_id"], depot["tier"], depot["model"]) == (expected.depot_id, "fallback", None)
                assert depot["quantiles"] == [[round(q, 3) for q in day.quantiles] for day in expected.days]
            supposed = {"depots": ["A"], "what_if": {"date": WEDNESDAY, "kind": "promo", "value": 1}}
            assert (await served.client.post(FORECAST, json=supposed)).status_code == 503

    run(body)


@pytest.mark.parametrize("threads", [1, 8])
def test_requests_waiting_for_a_read_or_a_thread_end_at_their_deadline(
    published: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboards.inference.nights.THREADS", threads)

    async def body() -> None:
        async with serving(load(published)) as served:
            with served.service.nights._lock:
                first = asyncio.create_task(served.client.post(FORECAST, json={}))
                answer = await served.client.post(FORECAST, json={}, headers={"X-Deadline-Ms": "50"})
                assert not first.done()
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
            assert answer.json()["error"].startswith("the deadline passed before its turn")
            assert (await first).status_code == 200

    run(body)


def test_a_repaired_bundle_is_used_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = load(file)
    model = next(spec.paths.bundles.iterdir()) / "model.onnx"
    promote(spec, write_bundle(spec, 2.0))
    supposed = Supposition("A", load_days(spec)[0], "promo")
    model.rename(aside := file.parent / "aside")
    monkeypatch.setattr("dashboards.inference.nights.RETRY_SECONDS", 0.0)
    monkeypatch.setattr("dashboards.ops.reading.what_if_cache.RETRY_SECONDS", 0.0)

    async def body() -> None:
        async with serving(spec) as served:
            page = WhatIfCache(spec)
            edition = served.service.context.store.edition()
            assert (await served.client.post(FORECAST, json={})).status_code == 503
            with pytest.raises(BundleError, match=r"model\.onnx is missing"):
                page.answer(edition, supposed)
            aside.rename(model)
            assert (await served.client.post(FORECAST, json={})).status_code == 200
            assert page.answer(edition, supposed).missing is None

    run(body)
