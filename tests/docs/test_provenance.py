"""A wheel built here has its own bill of materials, and a signed statement of its inputs."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from docs import provenance
from forecaster.errors import BundleError
from tests.graphs import signer
from tests.names import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [built] = folder.glob("*.whl")
    provenance.write(str(built), signer(), into=folder)
    return built


def test_the_statement_names_wheel_and_bill_by_digest_and_the_lock(wheel: Path) -> None:
    made = provenance.verify(wheel, [signer().public])
    assert (made["_type"], made["predicateType"]) == (provenance.STATEMENT, provenance.PROVENANCE)
    digests = {subject["name"]: subject["digest"]["sha256"] for subject in made["subject"]}
    assert digests.keys() == {wheel.name, f"{wheel.name}.cdx.json"}
    assert digests[wheel.name] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    source, lock = made["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert lock["digest"]["sha256"] == hashlib.sha256((ROOT / "requirements.lock").read_bytes()).hexdigest()
    assert re.fullmatch("[0-9a-f]{40}|", source["digest"]["gitCommit"])


def test_the_bill_describes_this_wheel_and_its_dependencies(wheel: Path) -> None:
    text = wheel.with_name(f"{wheel.name}.cdx.json").read_text("utf-8")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    [digest] = bill["metadata"]["component"]["hashes"]
    assert digest == {"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}
    names = {component["name"] for component in bill["components"]}
    assert {"numpy", "jax", "psycopg-binary", "pandera", "prefect"} <= names
    assert not {"pytest", "sphinx", "hatchling", "mypy"} & names


def test_the_signature_is_over_the_encoding_of_dsse(wheel: Path) -> None:
    envelope = json.loads(wheel.with_name(f"{wheel.name}.intoto.json").read_text("utf-8"))
    content, [signature] = base64.b64decode(envelope["payload"]), envelope["signatures"]
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    encoded = b"DSSEv1 28 application/vnd.in-toto+json " + str(len(content)).encode() + b" " + content
    signer().public.verify(base64.b64decode(signature["sig"]), encoded)


def test_rejects_another_wheel_key_or_statement(wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"signed by the key .*, trusted are"):
        provenance.verify(wheel, [signer(1).public])
    for file in wheel.parent.glob(f"{wheel.name}*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    copy = tmp_path / wheel.name
    copy.write_bytes(wheel.read_bytes() + b" ")
    with pytest.raises(BundleError, match=r"has sha256 .*, its statement says"):
        provenance.verify(copy, [signer().public])
    statement = tmp_path / f"{wheel.name}.intoto.json"
    envelope = json.loads(statement.read_text("utf-8"))
    content = base64.b64decode(envelope["payload"]).replace(b"requirements.lock", b"requirements.lack")
    statement.write_text(json.dumps(envelope | {"payload": base64.b64encode(content).decode()}), "utf-8")
    with pytest.raises(BundleError, match=r"the signature of the key .* does not fit"):
        provenance.verify(copy, [signer().public])


def test_an_images_statement_names_its_digest(tmp_path: Path) -> None:
    file = provenance.write(f"localhost/forecaster:serve@sha256:{'a' * 64}", signer(), into=tmp_path)
    made = json.loads(base64.b64decode(json.loads(file.read_text("utf-8"))["payload"]))
    assert file.name == "forecaster-serve.intoto.json"
    assert made["subject"] == [{"name": "localhost/forecaster:serve", "digest": {"sha256": "a" * 64}}]


def test_one_command_builds_the_wheel_and_the_images_with_their_statements() -> None:
    process = subprocess.run(
        ["make", "--dry-run", "--assume-old=.venv/.complete", "release", "IMAGES=serve"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "docs.provenance dist/*.whl" in process.stdout
    assert 'docs.provenance "localhost/forecaster:$image@' in process.stdout
