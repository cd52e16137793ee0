"""Folder of a project: uploaded files next to the pipeline file, as data sources."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, count
from pathlib import Path

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from forecaster.config import Spec, load
from forecaster.core.language import _
from forecaster.errors import SpecError
from forecaster.onboarding import DATA_FILES
from forecaster.onboarding.start import PIPELINE

LARGEST_FILE = 100 << 20  # bytes of an upload; `init --from` reads larger ones from disk
MOST_STORED = 2 << 30  # bytes of all data files in the folder
_LONGEST_NAME = 80


@dataclass(frozen=True)
class ProjectFolder:
    """The folder, which may not exist yet."""

    path: Path

    @property
    def pipeline(self) -> Path:
        return self.path / PIPELINE

    @property
    def spec(self) -> Spec | None:
        """The pipeline file; None if there is none. Raises SpecError if it is invalid."""
        return load(self.pipeline) if self.pipeline.is_file() else None

    def require_spec(self) -> Spec:
        """Return the pipeline file. Raises HTTPException 404 if there is none, SpecError if it is
        invalid."""
        spec = self.spec
        if spec is None:
            raise HTTPException(404, _("there is no pipeline file yet; the first step makes one of your data"))
        return spec

    def files(self) -> list[Path]:
        """Return the data files of the folder, newest first."""
        files = [file for file in self.path.glob("*") if file.suffix.lower() in DATA_FILES and file.is_file()]
        return sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)

    def file(self, name: str) -> Path:
        """Return the data file of this name. Raises HTTPException 404 for any other path."""
        for file in self.files():
            if file.name == name:
                return file
        raise HTTPException(404, _("there is no data file “{name}” in {folder}", name=name[:80], folder=self.path))

    async def store(self, name: str, content: UploadFile) -> Path:
        """Store an upload under its name, numbered if the name is taken; nothing is replaced.

        Raises HTTPException 413 for a file that is too large, and SpecError for an unsupported
        type.
        """
        plain = re.sub(r"[^\w.() +-]+", "_", name.replace("\\", "/").rpartition("/")[2]).lstrip(".")
        stem, suffix = Path(plain).stem[:_LONGEST_NAME], Path(plain).suffix
        if suffix.lower() not in DATA_FILES:
            expected = ", ".join(sorted(DATA_FILES))
            raise SpecError(
                _("{file}: found a file of another kind, wanted one of {wanted}", file=plain, wanted=expected)
            )
        stored = sum(file.stat().st_size for file in self.files())
        self.path.mkdir(parents=True, exist_ok=True)
        partial, size = self.path / f".upload-{os.urandom(8).hex()}", 0
        try:
            with partial.open("xb") as out:
                while piece := await content.read(1 << 20):
                    size += len(piece)
                    if size > LARGEST_FILE or stored + size > MOST_STORED:
                        raise HTTPException(413, too_large(size))
                    out.write(piece)
            return self._named(partial, stem, suffix)
        except OSError as error:
            raise SpecError(f"{self.path}: cannot be written: {error.strerror}; wanted a folder of yours") from error
        finally:
            partial.unlink(missing_ok=True)

    def _named(self, partial: Path, stem: str, suffix: str) -> Path:
        names = chain([f"{stem}{suffix}"], (f"{stem}-{number}{suffix}" for number in count(2)))
        for file in map(self.path.joinpath, names):
            with suppress(FileExistsError):
                file.open("xb").close()  # reserves the name
                return partial.replace(file)
        raise AssertionError("numbers do not end")

    def write(self, text: str, now: datetime) -> None:
        """Write the pipeline file; an earlier one is kept under another name. Raises SpecError for
        an invalid text, or if it cannot be written."""
        draft_file = self.path / f".{PIPELINE}"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            draft_file.write_text(text, "utf-8")
            load(draft_file)
            if self.pipeline.exists() and self.pipeline.read_text("utf-8") != text:
                self.pipeline.replace(self.path / f"pipeline-until-{now:%Y%m%dT%H%M%S}.yaml")
            draft_file.replace(self.pipeline)
        except SpecError as error:
            raise SpecError(str(error).replace(str(draft_file), str(self.pipeline))) from error
        except OSError as error:
            sentence = f"{self.pipeline}: cannot be written: {error.strerror}; wanted a folder of yours"
            raise SpecError(sentence) from error
        finally:
            draft_file.unlink(missing_ok=True)


def too_large(size: int | None = None) -> str:
    """Sentence about an upload that exceeds the limit; `size` is in bytes."""
    return _(
        "found a file of more than {n} bytes, wanted at most {limit} MB; put a larger file into the folder yourself, "
        "and choose it on this page",
        n=f"{size or LARGEST_FILE:,}",
        limit=LARGEST_FILE >> 20,
    )
