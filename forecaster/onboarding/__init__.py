"""First contact with somebody's data: guess from files what a pipeline file has to say, and write
it."""

DATA_FILES = {".csv", ".tsv", ".txt", ".gz", ".bz2", ".xz", ".zip", ".zst", ".parquet"}
"""Suffixes of the files that `init --from` and the guide in the browser take."""
DATA_FILES |= {".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"}
