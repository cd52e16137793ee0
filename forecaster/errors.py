"""Exceptions of the package: errors that a user can cause, and failures on our side.

    ForecasterError                 every error of this package; str() may be shown
    ├── SpecError                   the pipeline file or the command line is wrong     exit code 2
    │   └── ForeignLake             the lake holds the demand of another fleet         exit code 2
    ├── NoUsableData                there is nothing to forecast from                  exit code 4
    │   ├── StaleHistory            the last reading is older than declared            exit code 4
    │   └── SourceError             a declared source could not be read                exit code 4
    │       └── SourceUnreachable   it is unreachable now; a retry may succeed         exit code 4
    ├── OverrideError               a planner's number is not valid                    exit code 2
    ├── MissingExtra                the command needs an optional part                 exit code 2
    ├── TimeLimitExceeded           an external system did not answer in time          exit code 1
    ├── WorkersKilled               workers of a cluster died in the same part         exit code 1
    ├── Busy                        another run is at work on the pipeline             exit code 5
    ├── LakeError                   a table is missing, damaged or of another version  exit code 1
    │   └── LakeSilent              it did not answer in time                          exit code 1
    ├── LedgerError                 the ledger is damaged, locked or of another version
    │   ├── LostLease               another run now has the lease                      exit code 1
    │   ├── UnusableLedger          it is damaged or of another version                exit code 1
    │   ├── NoLedger                there is none yet                                  exit code 2
    │   └── NoSuchRow               it lacks the row that a command names              exit code 2
    ├── DeskError                   the inputs of a publication are not here           exit code 1
    ├── RegistryError               the MLflow registry is down, or rejects a request
    ├── BundleError                 a bundle is damaged, foreign or does not fit
    │   └── InputError              the input of a bundle is not valid
    ├── TrainingError               the loss stopped being a number, or the hosts could not join
    ├── CheckpointError             a checkpoint is damaged or does not fit
    ├── BackupError                 a backup cannot be made or is not whole
    │   └── BackupFolderError       the folder cannot be backed up into or restored    exit code 2
    └── ExportError                 the exported model differs from the trained one    exit code 1

A message states what was found, what was wanted and the next step. It is for the operator of the
pipeline, and may contain files, keys and addresses; readers of the page see `for_readers`, which
contains none.
"""

from __future__ import annotations

PUBLISHED, OUR_FAULT, WRONG_SPEC, DEGRADED, NO_DATA, BUSY = 0, 1, 2, 3, 4, 5
INTERRUPTED, TERMINATED = 130, 143  # by Ctrl-C and SIGTERM, as in shells


def N_(message: str) -> str:
    """Mark a sentence for the catalogue, like `forecaster.core.language`, which this lower layer
    must not import."""
    return message


class ForecasterError(Exception):
    """Base of all errors that this package raises on purpose.

    str() is for the operator of the pipeline. `for_readers` is for readers of the page: the
    sentence of the class, or the one with which the error was raised.
    """

    exit_code = OUR_FAULT
    readers_sentence = N_("this cannot be done at the moment; whoever runs the forecasts finds why in the log")

    def __init__(self, *message: object, for_readers: str | None = None) -> None:
        super().__init__(*message)
        self._for_readers = for_readers

    @property
    def for_readers(self) -> str:
        return self._for_readers or self.readers_sentence


class SpecError(ForecasterError):
    """The pipeline file or the command line requests something impossible."""

    exit_code = WRONG_SPEC


class ForeignLake(SpecError):
    """The lake that the pipeline file names holds the demand of another fleet."""


class OverrideError(ForecasterError):
    """A planner enters an invalid number, day or reason; the message is for the planner."""

    exit_code = WRONG_SPEC

    @property
    def for_readers(self) -> str:
        return str(self)


class MissingExtra(ForecasterError):
    """A command needs an optional part of the package that is not installed."""

    exit_code = WRONG_SPEC


class NoUsableData(ForecasterError):
    """There is nothing to forecast from."""

    exit_code = NO_DATA


class StaleHistory(NoUsableData):
    """The last reading is older than the pipeline file allows for a forecast."""


class SourceError(NoUsableData):
    """A declared source is absent, unreadable or lacks a column."""


class SourceUnreachable(SourceError):
    """A declared source cannot be reached now: no connection, no answer, or no file, which may just
    be in replacement."""


class TimeLimitExceeded(ForecasterError):
    """An external system did not answer within the time limit; the message names it."""


class WorkersKilled(ForecasterError):
    """Workers of a cluster died, one after the other, in the same part of the work; the message
    names the setting to change."""


class Busy(ForecasterError):
    """Another run works on the same pipeline; the message names it."""

    exit_code = BUSY


class LakeError(ForecasterError):
    """A Delta table is missing, damaged or has another schema than ours."""


class LakeSilent(LakeError, TimeLimitExceeded):
    """The lake, an object store or a folder of another machine, did not answer within the time
    limit of a run."""


class LedgerError(ForecasterError):
    """The ledger cannot be opened, is busy, or belongs to another version."""

    readers_sentence = N_("the forecasts cannot be read at the moment; whoever runs this page finds why in its log")


class LostLease(LedgerError):
    """A run was considered dead, another run has its lease, and the former tries to write."""


class UnusableLedger(LedgerError):
    """The ledger is damaged or of another version, for every reader and on every retry: it must be
    restored from a backup."""


class NoLedger(LedgerError):
    """There is no ledger yet, because no night has run."""

    exit_code = WRONG_SPEC
    readers_sentence = N_("nothing has been published yet; the first night does it")


class NoSuchRow(LedgerError):
    """A command names a run, a link or a champion that the ledger does not have."""

    exit_code = WRONG_SPEC


class DeskError(ForecasterError):
    """The inputs of a publication were not kept, are not on this machine, or are damaged."""

    readers_sentence = N_(
        "the planning tool is not available until tonight's run; the numbers shown are of the last one"
    )


class RegistryError(ForecasterError):
    """The MLflow registry cannot be reached, or rejects a record; the outbox keeps it."""


class BundleError(ForecasterError):
    """A bundle is damaged, foreign, or does not fit the data at hand."""

    readers_sentence = N_("the model cannot be used at present; the next night looks again")


class InputError(BundleError):
    """The input of a bundle has an invalid shape, type or value."""


class TrainingError(ForecasterError):
    """Training could not produce a model."""


class CheckpointError(ForecasterError):
    """A checkpoint cannot be written, is damaged, or holds another state than expected: start over
    without it."""


class BackupError(ForecasterError):
    """A backup cannot be made, or is not whole."""


class BackupFolderError(BackupError):
    """A command names a folder that is not empty, or has no backup of this pipeline, or whose
    content would be lost."""

    exit_code = WRONG_SPEC


class ExportError(ForecasterError):
    """The exported model does not agree with the trained one."""
