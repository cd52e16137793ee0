"""The Open Inference Protocol over HTTP: equal numbers in JSON and raw tensors, and clear errors."""

from __future__ import annotations

import asyncio
import gzip
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic_core import to_json

from forecaster.config import load
from forecaster.serving import bundle
from forecaster.serving.batching import BatchLimits
from forecaster.serving.encryption import VARIABLE, Cipher, is_encrypted
from forecaster.serving.predict import Predictor
from tests.dashboards.inference.conftest import (
    INFER,
    as_binary,
    as_json,
    promote,
    read_binary,
    run,
    serving,
    window,
    write_bundle,
)


def test_json_and_raw_tensors_get_the_numbers_of_the_bundle(published: Path) -> None:
    spec = load(published)
    arrays = window(spec, 0, 1, 2)
    folder = next(spec.paths.bundles.iterdir())
    expected = Predictor(bundle.load(folder, spec.paths.folder)).of_checked(arrays)

    async def body() -> None:
        async with serving(spec) as served:
            client = served.client
            assert (await client.get("/v2")).json()["extensions"] == ["binary_tensor_data"]
            assert (await client.get("/v2/health/ready")).json() == {"ready": True}
            about = (await client.get("/v2/models/small")).json()
            assert about["versions"] == [folder.name]
            assert {tensor["name"] for tensor in about["inputs"]} == set(arrays)
            assert about["outputs"] == [{"name": "quantiles", "datatype": "FP32", "shape": [-1, 3, 3]}]
            answer = await client.post(INFER, json=as_json(arrays, id="seven"))
            assert answer.status_code == 200, answer.text
            content = answer.json()
            assert (content["id"], content["model_version"]) == ("seven", folder.name)
            [output] = content["outputs"]
            assert output["shape"] == list(expected.shape)
            np.testing.assert_array_equal(np.array(output["data"], np.float32), expected.ravel())
            raw, headers = as_binary(arrays, outputs=[{"name": "quantiles"}])
            by_version = f"/v2/models/small/versions/{folder.name}/infer"
            np.testing.assert_array_equal(
                read_binary(await client.post(by_version, content=raw, headers=headers)), expected
            )
            for content, headers in (as_tritonclient(arrays, []), as_tritonclient(arrays, [True])):
                answer = await client.post(INFER, content=content, headers=headers)
                np.testing.assert_array_equal(read_binary(answer), expected)
                assert (answer.status_code, b'"id":"7"' in answer.content) == (200, True)
            packed = {**headers, "Content-Encoding": "gzip"}
            answer = await client.post(INFER, content=gzip.compress(content), headers=packed)
            assert answer.json() == {"error": "Content-Encoding: found 'gzip', wanted a body that is not compressed"}
            assert answer.status_code == 415

    run(body)


def as_tritonclient(arrays: dict[str, Any], outputs: list[bool]) -> tuple[bytes, dict[str, str]]:
    """Return body and headers, byte by byte, of `InferenceServerClient.infer` of tritonclient 2.73,
    with these outputs."""
    kinds = {"f": "FP32", "i": "INT32"}
    tensors = [
        f'{{"name":"{name}","shape":{to_json(x.shape).decode()},"datatype":"{kinds[x.dtype.kind]}",'
        f'"parameters":{{"binary_data_size":{x.nbytes}}}}}'
        for name, x in arrays.items()
    ]
    head = f'{{"id":"7","inputs":[{",".join(tensors)}'
    named = ",".join(f'{{"name":"quantiles","parameters":{{"binary_data":{str(raw).lower()}}}}}' for raw in outputs)
    head += f'],"outputs":[{named}]}}' if outputs else '],"parameters":{"binary_data_output":true}}'
    content = head.encode() + b"".join(x.tobytes() for x in arrays.values())
    return content, {"Inference-Header-Content-Length": str(len(head)), "Accept-Encoding": "gzip"}


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no input": ({"inputs": []}, "inputs: wanted a list of 1 to 16 tensors"),
    "other output": ({"outputs": [{"name": "mean"}]}, "found the output 'mean', wanted 'quantiles'"),
    "classes": (
        {"outputs": [{"name": "quantiles", "parameters": {"classification": 2}}]},
        "found the parameter classification, which is of an extension that is not here",
    ),
    "shared memory": (
        {"outputs": [{"name": "quantiles", "parameters": {"shared_memory_region": "mine"}}]},
        "found the parameter shared_memory_region",
    ),
    "odd parameters": ({"parameters": {"binary_data_output": "yes"}}, "wanted true or false"),
    "odd id": ({"id": 7}, "id: found something else, wanted a string"),
}


def test_rejects_invalid_requests_with_a_clear_error_before_batching(published: Path) -> None:
    spec = load(published)
    good = as_json(window(spec, 0))

    def with_input(place: str, **changes: Any) -> dict[str, Any]:
        inputs = [{**tensor, **(changes if tensor["name"] == place else {})} for tensor in good["inputs"]]
        return {"inputs": inputs}

    nan = [None, *next(tensor for tensor in good["inputs"] if tensor["name"] == "covariates")["data"][1:]]
    good_open = next(tensor for tensor in good["inputs"] if tensor["name"] == "open")
    wrong = [
        *(({**good, **changes}, sentence) for changes, sentence in WRONG.values()),
        (with_input("open", data=["1"] * 24), "input 'open': found something else than numbers"),
        (with_input("open", data=[[1, 2], [3]]), "do not fill the shape [1, 24]"),
        (with_input("open", shape=[1, 23], data=[1] * 23), "has the shape (1, 23), wanted (1, 24)"),
        (with_input("open", shape=[2, 12]), "wanted the same number of rows in each"),
        (with_input("open", data=[True, *[1] * 23]), "input 'open': found something else than numbers"),
        (with_input("open", data=[10**400, *[1] * 23]), "input 'open': found a number of more than 1,000 bits"),
        (with_input("open", data=[[[1, 1]] * 12]), "the data are nested as [1, 12, 2], wanted [1, 24], or flat"),
        (with_input("open", shape=[1, 24, *[1] * 70]), "wanted a smaller one"),
        (with_input("open", shape=[0, *[(1 << 31) - 1] * 4], data=[]), "wanted a smaller one"),
        (with_input("open", data=[7] * 24), "input 'open' of row 0 on day 0, counted from 0 is 7.0, wanted 0 or 1"),
        (with_input("open", datatype="FP64"), "has the datatype 'FP64', wanted FP32"),
        (with_input("open", name="opened"), "found the input 'opened', wanted demand, open"),
        (with_input("open", name="demand", shape=[1, 24]), "comes twice"),
        (with_input("statics", data=[99]), "has the code 99, wanted 0 (not seen in training) to"),
        (with_input("statics", data=[0.5]), "found something else than whole numbers"),
        (with_input("statics", data=[1 << 40]), "a number of more than 32 bits"),
        (with_input("covariates", data=nan), "is nan, wanted a number"),
        (with_input("demand", shape=["1"]), "found no shape"),
        (with_input("demand", parameters={"binary_data_size": 8}), "says 8 bytes, wanted 84"),
        ({"inputs": good["inputs"][1:]}, "input 'demand' is missing"),
    ]
    raw, headers = as_binary(window(spec, 0))

    async def body() -> None:
        async with serving(spec) as served:
            client = served.client
            for content, sentence in wrong:
                answer = await client.post(INFER, json=content)
                assert (answer.status_code, sentence in answer.json()["error"]) == (400, True), (sentence, answer.text)
            for content, more in (
                (raw[:-1], headers),
                (raw + b"!", headers),
                (raw, {"Inference-Header-Content-Length": "9" * 30}),
                (raw, {"Inference-Header-Content-Length": "0" * 5000}),
                (raw, {"Inference-Header-Content-Length": "0" * 30 + "9" * 9}),
                (b"{", {}),
                (b"[" * 10_000, {}),
                (b"[]", {}),
            ):
                answer = await client.post(INFER, content=content, headers=more)
                assert answer.status_code == 400, (content[:20], answer.text)
            for deadline in ("soon", "0", "60001", "0" * 11 + "1" + "0" * 400, "1" * 5000):
                answer = await client.post(INFER, json=good, headers={"X-Deadline-Ms": deadline})
                assert f"X-Deadline-Ms: found '{deadline[:40]}', wanted milliseconds" in answer.json()["error"]
            for path, status in ((INFER, 405), ("/v2/models/other", 404), ("/v2/models/small/versions/0", 404)):
                assert (await client.get(path)).status_code == status
            assert 'forecaster_inference_batch_rows_count{pipeline="small"} 0.0' in (await client.get("/metrics")).text
            plain = (await client.post(INFER, json=good)).json()["outputs"]
            # an additional dimension of 1 makes no difference
            column = with_input("open", data=[[value] for value in good_open["data"]])
            assert (await client.post(INFER, json=column)).json()["outputs"] == plain

    run(body)


def test_non_finite_forecasts_are_input_errors_and_a_model_with_only_those_is_not_loaded(
    file: Path,
) -> None:
    spec = load(file)
    arrays = window(spec, 0)
    absurd = as_json({**arrays, "demand": np.full_like(arrays["demand"], 3e38)})

    async def body() -> None:
        async with serving(spec) as served:
            answer = await served.client.post(INFER, json=absurd)
            assert (answer.status_code, answer.json()["error"]) == (
                400,
                "the forecast of row 0 is not a number; wanted inputs closer to those of a night",
            )
            before = served.service.models.champion
            promote(spec, write_bundle(spec, float("nan")))
            await served.service.models.look()
            assert served.service.models.champion is before
            assert (await served.client.post(INFER, json=as_json(arrays))).status_code == 200

    run(body)


def test_batches_concurrent_requests_and_isolates_invalid_ones(published: Path) -> None:
    spec = load(published)
    several = [as_binary(window(spec, row)) for row in range(4)]
    bad = window(spec, 0)
    bad["open"][0, 0] = 3

    async def body() -> None:
        async with serving(spec, BatchLimits(64, 0.05, 64, 1)) as served:
            alone = [read_binary(await served.client.post(INFER, content=c, headers=h)) for c, h in several]
            asked = [served.client.post(INFER, content=c, headers=h) for c, h in [*several * 3, as_binary(bad)]]
            *answers, refused = await asyncio.gather(*asked)
            for number, answer in enumerate(answers):
                np.testing.assert_allclose(read_binary(answer), alone[number % 4], rtol=1e-6)
            assert refused.status_code == 400
            text = (await served.client.get("/metrics")).text
            values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
            assert float(values['forecaster_inference_batch_rows_sum{pipeline="small"}']) == 16
            assert float(values['forecaster_inference_batch_rows_count{pipeline="small"}']) < 16
            assert values['forecaster_inference_refused_total{pipeline="small",reason="shape"}'] == "1.0"
            counted = 'forecaster_inference_requests_total{code="200",pipeline="small",route="infer",start="warm"}'
            assert values[counted] == "16.0"
            assert values['forecaster_inference_ready{pipeline="small"}'] == "1.0"
            assert values['forecaster_inference_queue_limit_rows{pipeline="small"}'] == "64.0"

    run(body)


def test_a_new_champion_takes_over_while_the_old_one_serves_unless_damaged(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("dashboards.inference.served_models.LOOK_SECONDS", 0.05)
    spec = load(file)
    content, headers = as_binary(window(spec, 0))
    [first] = spec.paths.bundles.iterdir()

    async def body() -> None:
        async with serving(spec) as served:

            async def infer(path: str = INFER) -> Any:
                answer = await served.client.post(path, content=content, headers=headers)
                assert answer.status_code == 200, answer.text
                return read_binary(answer)

            before = await infer()
            damaged = write_bundle(spec, 3.0)
            (damaged / "model.onnx").write_bytes((damaged / "model.onnx").read_bytes()[:-1] + b"!")
            promote(spec, damaged)
            for _ in range(10):
                await asyncio.sleep(0.05)
                np.testing.assert_array_equal(await infer(), before)
            assert "model.onnx has sha256" in caplog.text
            behind = 'forecaster_inference_model_current{pipeline="small"} '
            assert f"{behind}0.0" in (await served.client.get("/metrics")).text
            promote(spec, write_bundle(spec, 2.0))
            for _ in range(200):
                await asyncio.sleep(0.02)
                if not np.array_equal(after := await infer(), before):
                    break
            np.testing.assert_allclose(after, 2 * before, rtol=1e-6)
            np.testing.assert_array_equal(await infer(f"/v2/models/small/versions/{first.name}/infer"), before)
            text = (await served.client.get("/metrics")).text
            assert 'start="cold"} 0' not in text.split("requests_total", 1)[1].split("# HELP")[0]
            assert 'forecaster_inference_load_duration_seconds_count{outcome="refused",pipeline="small"} 1.0' in text
            assert text.count("forecaster_inference_model_timestamp_seconds{") == 1
            assert f"{behind}1.0" in text

    run(body)


def test_serves_an_encrypted_bundle_with_its_key_and_hides_keys_and_paths_in_errors(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spec = load(file)
    content, headers = as_binary(window(spec, 0))
    [plain] = spec.paths.bundles.iterdir()
    expected = Predictor(bundle.load(plain, spec.paths.folder)).of_checked(window(spec, 0))
    key, other = bytes(32), bytes([1]) * 32
    assert write_bundle(spec, 1.0, Cipher(key)) == plain  # the same name, but its model and weights are now encrypted
    assert is_encrypted((plain / "model.onnx").read_bytes())

    async def served() -> None:
        async with serving(spec) as with_key:
            answer = await with_key.client.post(INFER, content=content, headers=headers)
            np.testing.assert_array_equal(read_binary(answer), expected)
            assert (await with_key.client.post("/v1/forecast", json={})).status_code == 200

    async def refused() -> None:
        async with serving(spec) as without:
            answers = [
                await without.client.get("/v2/health/ready"),
                await without.client.post(INFER, content=content, headers=headers),
                await without.client.post("/v1/forecast", json={}),
            ]
            assert {answer.status_code for answer in answers} == {503}
            for answer in answers:
                assert "/" not in answer.text, answer.text
                assert not any(word in answer.text for word in ("key", plain.name, Cipher(other).name.hex()))

    for declared, sentence in ((None, "no key to decrypt with"), (other, "encrypted with the key")):
        if declared is None:
            monkeypatch.delenv(VARIABLE, raising=False)
        else:
            monkeypatch.setenv(VARIABLE, b64encode(declared).decode())
        caplog.clear()
        run(refused)
        assert f"bundle {plain}: model.onnx: {sentence}" in caplog.text
    monkeypatch.setenv(VARIABLE, b64encode(key).decode())
    run(served)


def test_is_live_but_not_ready_without_a_champion(file: Path) -> None:
    spec = load(file)
    spec.paths.ledger.unlink()

    async def body() -> None:
        async with serving(spec) as served:
            assert (await served.client.get("/v2/health/live")).json() == {"live": True}
            assert (await served.client.get("/v2/health/ready")).status_code == 503
            answer = await served.client.post(INFER, json={})
            assert (answer.status_code, answer.json()) == (503, {"error": "no model is served yet"})
            answer = await served.client.post("/v1/forecast", json={})
            assert answer.status_code == 503
            assert str(file.parent) not in answer.text

    run(body)


def test_answers_503_with_retry_after_when_the_queue_is_full(published: Path) -> None:
    spec = load(published)
    content, headers = as_binary(window(spec, 0, 1))

    async def body() -> None:
        async with serving(spec, BatchLimits(1, 0, 2, 1)) as served:
            asked = [served.client.post(INFER, content=content, headers=headers) for _ in range(12)]
            answers = await asyncio.gather(*asked)
            refused = [answer for answer in answers if answer.status_code == 503]
            assert refused
            assert {answer.status_code for answer in answers} == {200, 503}
            assert {answer.headers["Retry-After"] for answer in refused} == {"1"}
            assert "rows wait already" in refused[0].json()["error"]
            served.service.models.draining = True
            assert (await served.client.get("/v2/health/ready")).json() == {"ready": False}
            assert (await served.client.post(INFER, content=content, headers=headers)).status_code == 200

    run(body)


def test_the_openapi_document_describes_the_question_and_the_answer(published: Path) -> None:
    async def body() -> None:
        async with serving(load(published)) as served:
            document = (await served.client.get("/v1/openapi.json")).json()
            answer = (await served.client.post("/v1/forecast", json={})).json()
            refused = await served.client.get("/v1/forecast")
        schemas = document["components"]["schemas"]
        assert set(schemas["Question"]["properties"]) == {"depots", "what_if"}
        assert set(answer) == set(schemas["Answer"]["required"])
        assert set(answer["depots"][0]) == set(schemas["Depot"]["required"])
        assert document["paths"]["/v1/forecast"]["post"]["responses"]["200"]
        assert (refused.status_code, refused.json()["error"]) == (405, "this address takes POST")

    run(body)
