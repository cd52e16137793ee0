"""Access to the service: from this machine, through a declared proxy or with a token; rate limits."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from dashboards.inference.app import _outcome
from dashboards.inference.questions import read_question
from dashboards.inference.tensors import HEADER_LENGTH, Malformed
from dashboards.ops.access import links
from forecaster.config import Access, Spec, load
from forecaster.ledger import access as ledger_access
from forecaster.ledger.store import Ledger
from tests.dashboards.guests import PROXY, SECRET, declared
from tests.dashboards.inference.conftest import INFER, as_binary, as_json, run, serving, window

FORECAST = "/v1/forecast"
ABOUT = "/v2/models/small"


def guarded(file: Path, **changes: Any) -> Spec:
    spec = load(file)
    access: Access = declared(cities={"*": [], "ulla": ["Ulm"], "vic": ["*"]}, **changes)
    return spec.model_copy(update={"page": spec.page.model_copy(update={"access": access})})


@pytest.mark.parametrize(
    ("address", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("10.1.2.3", {}, 403),
        ("127.0.0.1", {"Host": "depots.example"}, 403),
        ("127.0.0.1", {"X-Forwarded-For": "10.1.2.3"}, 403),
        ("127.0.0.1", {"Origin": "https://elsewhere.example"}, 403),
    ],
)
def test_without_sign_in_only_this_machine_has_access(
    published: Path, address: str, headers: dict[str, str], status: int
) -> None:
    async def body() -> None:
        async with serving(load(published), address=address) as served:
            assert (await served.client.get(ABOUT, headers=headers)).status_code == status
            assert (await served.client.get("/v2/health/ready", headers=headers)).status_code == 200

    run(body)


def test_proxies_and_tokens_give_access_to_the_depots_of_their_cities(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    monkeypatch.setattr("dashboards.inference.access.TOKEN_SECONDS", 0.0)
    spec, now = guarded(file), datetime.now(UTC)
    make = {"days": 30, "by": "ops", "now": now}
    machine, [token] = links.make_link(spec, "infer", "Bonn", **make)  # type: ignore[arg-type]
    _, [screen] = links.make_link(spec, "network", None, **make)  # type: ignore[arg-type]
    _, [calendar, _] = links.make_link(spec, "feed", None, depot="A", **make)  # type: ignore[arg-type]
    content, headers = as_binary(window(spec, 0))

    async def body() -> None:
        async with serving(spec, address=PROXY) as served:

            async def depots(**sent: str) -> Any:
                answer = await served.client.post(FORECAST, json={}, headers=sent)
                known = answer.json()
                assert str(file.parent) not in answer.text
                return (
                    [depot["depot_id"] for depot in known["depots"]]
                    if answer.status_code == 200
                    else answer.status_code
                )

            assert await depots() == 401
            assert await depots(**{"X-Forwarded-User": "vic"}) == list("ABCD")
            assert await depots(**{"X-Forwarded-User": "ulla"}) == ["A", "C"]
            assert await depots(**{"X-Forwarded-User": "bob"}) == 403
            assert await depots(Authorization=f"Bearer {token}") == ["B", "D"]
            assert await depots(Authorization=f"Bearer {screen.rsplit('/', 1)[-1]}") == 401
            assert await depots(Authorization="Bearer made-up") == 401
            for other in (screen.rsplit("/", 1)[-1], calendar.split("/")[-2], token):
                assert await depots(Cookie=f"__Host-link={other}; link={other}") == 401
            mine = {"Authorization": f"Bearer {token}"}
            answer = await served.client.post(FORECAST, json={"depots": ["A"]}, headers=mine)
            assert (answer.status_code, answer.json()["error"]) == (
                404,
                "there is no depot 'A' in the current forecasts",
            )
            assert (await served.client.post(INFER, content=content, headers=headers | mine)).status_code == 200
            with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
                ledger_access.revoke(connection, spec.name, machine.link_id, by="ops", at=now)
            assert await depots(**mine) == 401
            text = (await served.client.get("/v2/health/live")).text
            assert text == '{"live":true}'

    run(body)


def test_a_rate_limited_client_learns_when_to_retry(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    spec = guarded(published, limits={"inference": "2/hour", "strangers": "1/hour"})

    async def body() -> None:
        async with serving(spec, address=PROXY) as served:
            vic = {"X-Forwarded-User": "vic"}
            statuses = [(await served.client.get(ABOUT, headers=sent)).status_code for sent in (vic, vic, vic, {}, {})]
            assert statuses == [200, 200, 429, 401, 429]
            answer = await served.client.get(ABOUT, headers=vic)
            assert int(answer.headers["Retry-After"]) > 1
            text = served.service.metrics.text().decode()
            for reason, count in (("limit", 3), ("stranger", 1)):
                assert f'forecaster_inference_refused_total{{pipeline="small",reason="{reason}"}} {count}.0' in text

    run(body)


def test_rejects_bodies_that_would_expand_in_memory(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = load(published)
    monkeypatch.setattr("dashboards.inference.tensors.MOST_LISTS", 40)
    content = as_json(window(spec, 0))
    nested = {"inputs": [{**tensor, "data": [[]] * 40} for tensor in content["inputs"][:1]]}

    async def body() -> None:
        async with serving(spec) as served:
            for question, status, sentence in (
                (b'{"depots":[' + b"1," * 900_000 + b"1]}", 400, "depots.0: found 1, wanted a valid string"),
                (b"[" * 1_000_000, 400, "the body is no JSON: recursion limit"),
                (b"\0" * (2 << 20), 400, "the body is no JSON: "),
                (b" " * ((2 << 20) + 1), 413, "found a body of more than 2,097,152 bytes"),
            ):
                answer = await served.client.post(FORECAST, content=question)
                assert (answer.status_code, answer.json()["error"][: len(sentence)]) == (status, sentence)
            answer = await served.client.post(INFER, json=nested)
            assert "found more than 40 lists in the JSON" in answer.json()["error"]
            assert (await served.client.post(INFER, json=content)).status_code == 200
            monkeypatch.setattr("dashboards.inference.tensors.LARGEST_JSON", 100)
            answer = await served.client.post(INFER, json=content)
            assert "bytes of JSON, wanted 100 at most" in answer.json()["error"]
            raw, headers = as_binary(window(spec, 0))
            monkeypatch.setattr("dashboards.inference.tensors.LARGEST_JSON", int(headers[HEADER_LENGTH]))
            assert (await served.client.post(INFER, content=raw, headers=headers)).status_code == 200

    run(body)


def test_an_error_from_a_thread_does_not_keep_the_body_alive() -> None:
    def read() -> int:
        raise Malformed("the body is no JSON")

    refused = _outcome(read)
    assert isinstance(refused, Malformed)
    assert str(refused) == "the body is no JSON"
    assert (refused.__traceback__, refused.__context__) == (None, None)


def test_names_the_first_of_many_unknown_keys() -> None:
    for question, where in (
        ({f"k{i}": i for i in range(9)}, ("k0",)),
        ({"what_if": {"a": 1, "b": 2}}, ("what_if", "a")),
    ):
        with pytest.raises(ValidationError) as raised:
            read_question(json.dumps(question).encode())
        odd = [problem["loc"] for problem in raised.value.errors() if problem["type"] == "extra_forbidden"]
        assert odd == [where]


def test_rejects_bodies_that_are_too_large_alone_or_together(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboards.inference.app.LARGEST_BODY", 100)
    monkeypatch.setattr("dashboards.ops.http.bodies.MOST_TOGETHER", 150)

    async def body() -> None:
        async with serving(load(published)) as served:

            async def in_parts(number: int) -> Any:
                for _ in range(number):
                    yield b" " * 10
                    await asyncio.sleep(0)

            for content in (b" " * 101, in_parts(30)):
                answer = await served.client.post(INFER, content=content)
                assert (answer.status_code, "more than 100 bytes" in answer.json()["error"]) == (413, True)
                assert answer.headers["Connection"] == "close"
            for _ in range(2):  # answered requests are not held
                answers = await asyncio.gather(*(served.client.post(INFER, content=in_parts(8)) for _ in range(2)))
                unread, refused = sorted(answers, key=lambda answer: answer.status_code)
                assert (unread.status_code, refused.status_code, refused.headers["Retry-After"]) == (400, 503, "1")
            assert 'refused_total{pipeline="small",reason="full"} 2.0' in served.service.metrics.text().decode()

    run(body)
