"""The error tree: what a user can cause, and what went wrong on our side.

    ForecasterError                 every error of this package; str() is fit to be shown
    ├── SpecError                   the pipeline file or the command line is wrong     exit code 2
    │   └── ForeignLake             the lake holds the demand of another fleet         exit code 2
    ├── NoUsableData                there is nothing to forecast from                  exit code 4
    │   ├── StaleHistory            the last reading is older than declared            exit code 4
    │   └── SourceError             a declared source could not be read                exit code 4
    │       └── SourceUnreachable   it is not there now; another try may find it       exit code 4
    ├── OverrideError               a planner's number cannot be meant                 exit code 2
    ├── MissingExtra                the command needs a part that is not installed     exit code 2
    ├── TimeLimitExceeded           something outside did not answer in its time       exit code 1
    ├── WorkersKilled               workers of a cluster ended in the same part        exit code 1
    ├── Busy                        another run is at work on the pipeline             exit code 5
    ├── LakeError                   a table is missing, damaged or of another version  exit code 1
    │   └── LakeSilent              it did not answer in its time                      exit code 1
    ├── LedgerError                 the ledger is damaged, locked or of another version
    │   ├── LostLease               another run has the lease by now               exit code 1
    │   ├── UnusableLedger          it is damaged or of another version            exit code 1
    │   ├── NoLedger                there is none yet                              exit code 2
    │   └── NoSuchRow               it has not what a command names                exit code 2
    ├── DeskError                   what a publication was made from is not here   exit code 1
    ├── RegistryError               the MLflow registry is down, or refuses
    ├── BundleError                 a bundle is damaged, foreign or does not fit
    │   └── InputError              what it is to forecast from is not what it wants
    ├── TrainingError               the loss stopped being a number, or the hosts could not join
    ├── CheckpointError             what a killed training left is damaged or does not fit
    ├── BackupError                 a backup cannot be made or is not whole
    │   └── BackupFolderError       the folder is none to back up into or restore  exit code 2
    └── ExportError                 the exported model says something else         exit code 1

A message says what was found, what was wanted and what to do next. It is for whoever runs the
pipeline, and may name files, keys and addresses; those who read the page are told `for_readers`,
which names none.
"""

from __future__ import annotations

PUBLISHED, OUR_FAULT, WRONG_SPEC, DEGRADED, NO_DATA, BUSY = 0, 1, 2, 3, 4, 5
INTERRUPTED, TERMINATED = 130, 143  # by Ctrl-C and SIGTERM, as shells count


def N_(message: str) -> str:
    """Marks a sentence for the catalogue, as `forecaster.core.language` does, which stands above
    this floor."""
    return message


class ForecasterError(Exception):
    """Base of all errors that this package raises on purpose.

    str() is for whoever runs the pipeline, `for_readers` is what readers of the page are told: the
    sentence of the class, or that with which the error was raised.
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
    """The pipeline file or the command line says something that cannot be done."""

    exit_code = WRONG_SPEC


class ForeignLake(SpecError):
    """The lake that the pipeline file names holds the demand of another fleet."""


class OverrideError(ForecasterError):
    """A planner asks for a number, a day or a reason that cannot be meant; the message is for
    them."""

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
    """The last reading is older than the pipeline file allows a forecast to start from."""


class SourceError(NoUsableData):
    """A declared source is absent, unreadable or lacks a column."""


class SourceUnreachable(SourceError):
    """A declared source cannot be reached now: no connection, no answer, or no file, which may be
    being replaced."""


class TimeLimitExceeded(ForecasterError):
    """Something outside of this process did not answer in the time that a night has for it; the
    message names it."""


class WorkersKilled(ForecasterError):
    """Workers of a cluster ended, one after the other, in the same part of the work; the message
    says what to set."""


class Busy(ForecasterError):
    """Another run works on the same pipeline; the message names it."""

    exit_code = BUSY


class LakeError(ForecasterError):
    """A Delta table is missing, damaged or has another schema than ours."""


class LakeSilent(LakeError, TimeLimitExceeded):
    """The lake, an object store or a folder of another machine, did not answer in the time that a
    run has for it."""


class LedgerError(ForecasterError):
    """The ledger cannot be opened, is busy, or belongs to another version."""

    readers_sentence = N_("the forecasts cannot be read at the moment; whoever runs this page finds why in its log")


class LostLease(LedgerError):
    """A run that was taken for dead, and whose lease another one has, wants to write."""


class UnusableLedger(LedgerError):
    """The ledger is damaged or of another version, whoever asks and however often: a backup takes
    its place."""


class NoLedger(LedgerError):
    """There is no ledger yet, as no night has run."""

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
    """The MLflow registry cannot be reached, or refuses what it is told; the outbox keeps it."""


class BundleError(ForecasterError):
    """A bundle is damaged, foreign, or does not fit the data at hand."""

    readers_sentence = N_("the model cannot be used at present; the next night looks again")


class InputError(BundleError):
    """The input of a bundle has another shape, type or value than it wants."""


class TrainingError(ForecasterError):
    """Training could not produce a model."""


class CheckpointError(ForecasterError):
    """A checkpoint cannot be written, is damaged, or holds another state than the one wanted: start
    over without it."""


class BackupError(ForecasterError):
    """A backup cannot be made, or is not whole."""


class BackupFolderError(BackupError):
    """A command names a folder that holds something, or no backup of this pipeline, or what is
    there would be lost."""

    exit_code = WRONG_SPEC


class ExportError(ForecasterError):
    """The exported model does not agree with the trained one."""
