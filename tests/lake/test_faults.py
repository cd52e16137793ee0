"""Errors of delta-rs as one line with their causes, and the next step for each."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from forecaster.errors import LakeError
from forecaster.lake import Lake
from forecaster.lake.faults import remedy, sentence


def test_error_sentence_includes_causes_but_no_backtrace() -> None:
    cause = "\x1b[31m↳\x1b[0m"
    text = f"Kernel error -> Generic S3 error\n  {cause} Error performing GET\n    {cause} refused\n0: x\n"
    assert sentence(OSError(text)) == "Kernel error -> Generic S3 error: Error performing GET: refused"
    assert sentence(OSError("")) == "OSError"


def test_table_is_not_reported_as_damaged_when_the_store_rejects_requests() -> None:
    refused = "Generic S3 error: Error performing GET … - Server returned non-2xx status code: 503 Service Unavailable"
    assert "the table is not damaged" in remedy(OSError(refused))
    assert "restore the folder from a backup" in remedy(OSError("Parquet magic bytes not found in footer"))


def test_endpoint_without_tls_is_answered_with_the_variable_that_allows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ALLOW_HTTP", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    settings = {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "REGION": "us-east-1", "ENDPOINT_URL": "http://[::1]:9"}
    for name, value in settings.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with pytest.raises(LakeError, match="AWS_ALLOW_HTTP=true") as caught:
        Lake("s3://bucket/lake", window=3600).version("owners")
    assert "restore" not in str(caught.value)
    assert "move it aside" not in str(caught.value)


@pytest.mark.parametrize(
    "refused",
    [
        "Kernel error -> Generic S3 error: Error performing GET …: Server returned non-2xx status code: 403 Forbidden",
        "Generic S3 error: the AccessDenied region is wrong",
        "Permission denied (os error 13)",
        "Generic MicrosoftAzure error: Account must be specified",
        "Input/output error (os error 5)",
    ],
)
def test_never_advises_to_restore_an_unreachable_table(refused: str) -> None:
    assert "no file was found damaged" in remedy(OSError(refused))


@pytest.mark.parametrize("fault", ["short", "scrambled", "gone", "log"])
def test_advises_to_restore_a_damaged_file(tmp_path: Path, fault: str) -> None:
    Lake(str(tmp_path)).append(
        "owners", pd.DataFrame({"fleet": ["a" * 99], "recorded_at": [pd.Timestamp(0, tz="UTC")]})
    )
    (file,) = (tmp_path / "owners").glob("*.parquet")
    content = file.read_bytes()
    if fault == "gone":
        file.unlink()
    elif fault == "log":
        next((tmp_path / "owners" / "_delta_log").glob("*.json")).write_text('{"half')
    else:
        file.write_bytes(content[:40] if fault == "short" else content[:20] + b"x" * 60 + content[80:])
    with pytest.raises(LakeError, match="restore the folder from a backup"):
        Lake(str(tmp_path)).read("owners")
