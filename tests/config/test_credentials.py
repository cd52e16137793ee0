from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import URL

from forecaster.config import Spec, credentials
from forecaster.errors import SpecError


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Isolate the known secrets of other tests and of this one from each other."""
    monkeypatch.setattr(credentials, "_credentials", set())
    monkeypatch.setattr(credentials, "_secrets", {})


def test_variables_and_secrets_are_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST", "db.example")
    credentials.provide({"orders-reader": "pa:ss"})
    assert credentials.fill("${HOST}/${secret:orders-reader}") == "db.example/pa:ss"
    assert credentials.fill("${HOST}/${secret:orders-reader}", quoted=True) == "db.example/pa%3Ass"
    assert list(credentials.secrets_in("${HOST} ${secret:a-b} ${secret:c}")) == ["a-b", "c"]


def test_a_missing_variable_or_secret_is_named() -> None:
    with pytest.raises(SpecError, match="needs the environment variable NOBODY_SET_THIS, which is not set"):
        credentials.fill("${NOBODY_SET_THIS}")
    with pytest.raises(SpecError, match="needs the secret orders, which nobody provided: a flow takes it from"):
        credentials.fill("${secret:orders}")


def test_only_credentials_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST", "db.example")
    monkeypatch.setenv("PASSWORD", "hunter2")
    credentials.fill("${HOST}")
    credentials.fill("${PASSWORD}", credential=True)
    credentials.provide({"token": "t0ken"})
    credentials.conceal("from-a-url")
    credentials.conceal(None)
    text = credentials.hide("db.example refused hunter2, t0ken and from-a-url")
    assert text == "db.example refused ***, *** and ***"


def test_a_secret_that_is_part_of_another_does_not_reveal_it() -> None:
    credentials.provide({"a": "hunter", "b": "hunter2"})
    assert credentials.hide("hunter2 hunter") == "*** ***"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    password=st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=3).filter(
        lambda text: "<" not in text and ">" not in text
    )
)
def test_a_password_is_hidden_in_every_spelling(password: str) -> None:
    credentials.conceal(password)
    in_url = URL.create("postgresql", "reader", password, "host").render_as_string(hide_password=False)
    in_url = in_url.removeprefix("postgresql://reader:").removesuffix("@host")
    for spelled in (password, repr(password)[1:-1], quote(password), quote(password, safe=""), in_url):
        assert credentials.hide(f"<{spelled}>") == "<***>"
    credentials._credentials.discard(password)


@pytest.mark.parametrize(
    "source",
    [
        {"kind": "sql", "table": "t", "url": "postgresql://reader:hunter2@host/orders"},
        {"kind": "sql", "table": "t", "url": "postgresql://host/orders?user=me&password=hunter2"},
        {"kind": "csv", "path": "sftp://me:hunter2@host/orders.csv"},
        {"kind": "parquet", "path": "s3://bucket/a.parquet", "options": {"secret": "hunter2"}},
    ],
)
def test_a_pipeline_file_with_a_credential_is_rejected(source: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"wanted it named, as in .*for a Prefect Secret block") as caught:
        Spec.model_validate({"name": "x", "demand": {"source": source}})
    assert "password" in str(caught.value) or "secret" in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        {"kind": "sql", "table": "t", "url": "postgresql://reader:${PASSWORD}@host/orders?sslmode=require"},
        {"kind": "sql", "table": "t", "url": "postgresql://host/orders?password=${secret:orders}"},
        {"kind": "csv", "path": "orders?.csv"},
        {"kind": "delta", "path": "s3://bucket/orders", "options": {"aws_secret_access_key": "${KEY}"}},
    ],
)
def test_a_pipeline_file_may_reference_a_credential(source: dict[str, object]) -> None:
    Spec.model_validate({"name": "x", "demand": {"source": source}})
