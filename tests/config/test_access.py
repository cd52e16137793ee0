"""The section `page`: valid access settings, and the messages for invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from forecaster.config import load
from forecaster.errors import SpecError

GOOD = "name: t\ndemand: {source: {kind: csv, path: demand.csv}}\n"
OIDC = 'oidc: {issuer: "https://login.example", client_id: depots}'


def access(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "p.yaml"
    file.write_text(f"{GOOD}page: {{access: {{{text}}}}}\n", "utf-8")
    return file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sign_in: basic", "page.access.sign_in: found 'basic', wanted 'none', 'header' or 'oidc'"),
        ("sign_in: header", "sign_in: header trusts no one without `proxies`"),
        ("sign_in: oidc", "sign_in: oidc needs oidc, url, secret as well"),
        (f"sign_in: oidc, {OIDC}", "sign_in: oidc needs url, secret as well"),
        ("secret: hunter2", "found a secret in the file, wanted it named, as in ${PAGE_SECRET}"),
        ("proxies: [10.0.0.300]", "found '10.0.0.300', wanted an address or a network, as in 10.0.0.0/24"),
        ("url: depots.example/page", "found 'depots.example/page', wanted only https:// and a host"),
        ('url: "http://depots.example"', "wanted only https:// and a host, as in https://depots.example"),
        ('oidc: {issuer: "http://login.example", client_id: d}', "wanted an address that begins with https://"),
        ("limits: {reads: lots}", "found 'lots', wanted a number a second, minute, hour or day, as in 300/minute"),
        ('header: {user: "X User"}', "found 'X User', wanted the name of a header, as in X-Forwarded-User"),
        ("roles: {boss: [ada]}", "unknown key 'boss' in page.access.roles; valid keys: admin, planner, viewer"),
    ],
)
def test_a_mistake_is_reported_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(access(tmp_path, text))
    assert "p.yaml:3: " in str(caught.value)
    assert message in str(caught.value)


def test_by_default_the_page_is_for_its_own_machine_only(tmp_path: Path) -> None:
    section = load(access(tmp_path, "")).page.access
    assert (section.sign_in, section.keys, section.roles.viewer) == ("none", {}, ("*",))


def test_the_secret_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = load(access(tmp_path, 'secret: "${OURS}"')).page.access
    monkeypatch.setenv("OURS", "not in the file")
    assert section.keys == {"secret": "not in the file"}
    assert "not in the file" not in repr(section)
