"""What delta-rs says comes as one line, with its causes."""

from __future__ import annotations

from forecaster.lake.faults import remedy, sentence


def test_causes_below_an_error_are_put_behind_it_and_a_backtrace_is_left_out() -> None:
    cause = "\x1b[31m↳\x1b[0m"
    text = f"Kernel error -> Generic S3 error\n  {cause} Error performing GET\n    {cause} refused\n0: x\n"
    assert sentence(OSError(text)) == "Kernel error -> Generic S3 error: Error performing GET: refused"
    assert sentence(OSError("")) == "OSError"


def test_a_table_is_not_said_to_be_damaged_where_its_store_refuses() -> None:
    refused = "Generic S3 error: Error performing GET … - Server returned non-2xx status code: 503 Service Unavailable"
    assert "the table is not damaged" in remedy(OSError(refused))
    assert "restore the folder from a backup" in remedy(OSError("Parquet magic bytes not found in footer"))
