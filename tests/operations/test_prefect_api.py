"""A server that is not Prefect, or has another version, is reported before any other request."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from forecaster.errors import ForecasterError
from forecaster.operations import doctor, prefect_api
from tests.flows.test_prefect_trouble import proxied


def test_reports_an_invalid_url() -> None:
    with pytest.raises(ForecasterError, match="nothing that speaks HTTP answers at localhost:4200/api/health"):
        prefect_api.probe("localhost:4200/api")


def test_reports_a_different_server_version() -> None:
    with proxied("2.10.0") as proxy, pytest.raises(ForecasterError, match=r"is Prefect 2\.10\.0, this client 3\."):
        prefect_api.probe(proxy.url)
    with proxied("3.1.4") as proxy:
        assert prefect_api.probe(proxy.url) == f"the server is Prefect 3.1.4, this client {version('prefect')}"


def test_rejects_a_login_page() -> None:
    with proxied("login") as proxy, pytest.raises(ForecasterError, match="is no Prefect API: it answers '<!doctype"):
        prefect_api.probe(proxy.url)


def test_reports_a_server_that_answers_with_an_error() -> None:
    with proxied("broken") as proxy, pytest.raises(ForecasterError, match="answers its health check with 500"):
        prefect_api.probe(proxy.url)


def test_doctor_names_both_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    for mode in ("2.10.0", "3.1.4"):
        with proxied(mode) as proxy:
            monkeypatch.setenv(prefect_api.URL, proxy.url)
            [sign] = doctor._prefect_server()
        assert sign.state == "warn"
        assert f"Prefect {mode}, this client {version('prefect')}" in sign.text
    monkeypatch.setenv(prefect_api.URL, "http://127.0.0.1:9/api")
    [sign] = doctor._prefect_server()
    assert str(sign).endswith("Connection refused; runs go on without it")
