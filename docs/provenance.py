"""Provenance of build artifacts: a bill of materials, and a signed statement of the build's inputs.

    X.cdx.json      CycloneDX: the wheel with its SHA-256, and all that it may install, by the lock
    X.intoto.json   in-toto statement (SLSA provenance 1) in a DSSE envelope: the SHA-256 of wheel or image and of its
                    bill, the commit, the lock, the builder; signed as bundles are (`forecaster.serving.keys`)

`python -m docs.provenance WHEEL` writes both next to a wheel; an image is given as NAME@sha256:…,
and contains its own bill. `--verify` compares a wheel with its statement instead.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from docs import dependencies
from docs.dependencies import LOCK, ROOT
from forecaster.errors import BundleError
from forecaster.serving import keys
from forecaster.serving.keys import Signer, Trusted

STATE = ROOT / "var"  # its `keys` hold the signing key, unless FORECASTER_SIGNING_KEY names another one
PAYLOAD = "application/vnd.in-toto+json"
STATEMENT, PROVENANCE = "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"
BUILD = "urn:harbor-forecaster:make"  # the build type: `make TARGET` in a checkout


def write(artefact: str, signer: Signer, *, into: Path) -> Path:
    """Write the signed statement of a wheel, after its bill, or of an image; returns the
    statement's file."""
    name, _, digest = artefact.partition("@sha256:")
    subjects, target, stem = {name: digest}, "images", name.rpartition("/")[2].replace(":", "-")
    if not digest:
        wheel = Path(artefact)
        bill = into / f"{wheel.name}.cdx.json"
        bill.write_text(dependencies.bill_of_wheel(wheel), "utf-8")
        subjects, target, stem = {file.name: _sha256(file) for file in (wheel, bill)}, "wheel", wheel.name
    content = json.dumps(statement(subjects, target), indent=1).encode()
    envelope = {
        "payloadType": PAYLOAD,
        "payload": base64.b64encode(content).decode(),
        "signatures": [
            {
                "keyid": keys.fingerprint(signer.public.public_bytes_raw()),
                "sig": base64.b64encode(signer.seal(_to_sign(content))[keys.KEY_BYTES :]).decode(),
            }
        ],
    }
    into.mkdir(parents=True, exist_ok=True)
    file = into / f"{stem}.intoto.json"
    file.write_text(json.dumps(envelope, indent=1) + "\n", "utf-8")
    return file


def statement(subjects: Mapping[str, str], target: str) -> dict[str, Any]:
    """Return a provenance statement: artifacts by SHA-256, the commit, whether the checkout
    differed from it, and the lock."""
    materials = [
        {"name": "source", "digest": {"gitCommit": _git("rev-parse", "HEAD")}},
        {"name": LOCK.name, "digest": {"sha256": _sha256(LOCK)}},
    ]
    definition = {
        "buildType": BUILD,
        "externalParameters": {"target": target},
        "internalParameters": {"changed": _git("status", "--porcelain", "--untracked-files=no").splitlines()},
        "resolvedDependencies": materials,
    }
    builder = {"python": platform.python_version(), "hatchling": version("hatchling")}
    run = {
        "builder": {"id": BUILD, "version": builder},
        "metadata": {"finishedOn": datetime.now(UTC).isoformat(timespec="seconds")},
    }
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in subjects.items()],
        "predicateType": PROVENANCE,
        "predicate": {"buildDefinition": definition, "runDetails": run},
    }


def verify(wheel: Path, trusted: Trusted) -> dict[str, Any]:
    """Return the statement of a wheel. Raises BundleError unless a trusted key signed it for this
    wheel and its bill."""
    envelope = json.loads((wheel.parent / f"{wheel.name}.intoto.json").read_text("utf-8"))
    content, [signature] = base64.b64decode(envelope["payload"]), envelope["signatures"]
    of_name = {keys.fingerprint(key.public_bytes_raw()): key for key in trusted}
    if signature["keyid"] not in of_name:
        raise BundleError(f"{wheel.name}: signed by the key {signature['keyid']}, trusted are {', '.join(of_name)}")
    key = of_name[signature["keyid"]]
    keys.verify(_to_sign(content), key.public_bytes_raw() + base64.b64decode(signature["sig"]), [key])
    made: dict[str, Any] = json.loads(content)
    for subject in made["subject"]:
        actual, expected = _sha256(wheel.parent / subject["name"]), subject["digest"]["sha256"]
        if actual != expected:
            raise BundleError(f"{subject['name']} has sha256 {actual[:16]}…, its statement says {expected[:16]}…")
    return made


def _to_sign(content: bytes) -> bytes:
    """Return the pre-authentication encoding of DSSE:
    https://github.com/secure-systems-lab/dsse/blob/master/protocol.md"""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD), PAYLOAD.encode(), len(content), content)


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _git(*arguments: str) -> str:
    process = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return process.stdout.strip()


def main(arguments: list[str]) -> int:
    """Write or, with `--verify`, compare the statements of artifacts; returns 1 if one does not
    match."""
    for artefact in arguments:
        if artefact == "--verify":
            continue
        if "--verify" not in arguments:
            is_image = "@sha256:" in artefact
            into = ROOT / "build" / "provenance" if is_image else Path(artefact).parent
            print(write(artefact, keys.signer(STATE), into=into))
            continue
        try:
            made = verify(Path(artefact), keys.trusted_keys(STATE))
        except (BundleError, OSError) as error:
            print(error, file=sys.stderr)
            return 1
        commit = made["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"]["gitCommit"]
        print(f"{artefact}: what its statement says, built of commit {commit}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
