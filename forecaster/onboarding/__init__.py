"""Onboarding of a user's own data: guess the content of a pipeline file from data files, and write
it."""

DATA_FILES = {".csv", ".tsv", ".txt", ".gz", ".bz2", ".xz", ".zip", ".zst", ".parquet"}
"""Suffixes of the files accepted by `init --from` and the guide in the browser."""
DATA_FILES |= {".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"}
