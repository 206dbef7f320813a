"""Names of objects, as Composer forms them, and the files of the run that they mean."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import contextmanager, suppress
from typing import Iterator, NamedTuple, Optional

from composer.utils import ObjectStoreTransientError

from .._framework_ids import version_name
from ..errors import HoldfastError, InvalidArgument, NotFound
from ..run import Run

_OBJECT = re.compile(r"^step-([0-9]+)/(.+)$")
#: Composer's own names: ``RUN_NAME/checkpoints/ep1-ba100-rank0.pt``.
_BATCH = re.compile(r"(?:^|[-_])ba([0-9]+)(?=[-_.]|$)")
_RANK = re.compile(r"rank[0-9]+")
_SYMLINK = ".symlink"
_BLOCK_BYTES = 16 << 20


class Object(NamedTuple):
    version: int
    name: str


def object_name(version: int, name: str) -> str:
    return f"{version_name(version)}/{name}"


def object_of(text: str) -> Object:
    """``step-100/NAME``, or Composer's name of the file. ``FileNotFoundError``: another name."""
    found = _OBJECT.match(text)
    if found is not None:
        return Object(int(found[1]), found[2])
    name = text.rpartition("/")[2]
    batch = _BATCH.search(name)
    if batch is None or name.endswith(_SYMLINK):
        raise FileNotFoundError(f"{text}: expected step-N/FILE, as in step-100/ep1-ba100-rank0.pt")
    return Object(int(batch[1]), name)


def link_of(run: Run, text: str) -> Optional[bytes]:
    """What Composer's link to the latest checkpoint holds. ``None``: the name is of no such link.

    ``FileNotFoundError``: nothing was committed.
    """
    name = text.rpartition("/")[2]
    # Composer looks for NAME.symlink whenever it does not find NAME.
    if not name.endswith(_SYMLINK) or re.search("[0-9]", _RANK.sub("", name)):
        return None
    latest = run.latest()
    if latest is None:
        raise FileNotFoundError(f"{text}: nothing was committed")
    names = [file.name for file in run.files(latest)]
    if len(names) != 1:
        raise FileNotFoundError(
            f"{text}: version {latest.version} is no checkpoint of Composer: it has {len(names)} files"
        )
    return object_name(latest.version, names[0]).encode()


def download(run: Run, text: str, filename: str, overwrite: bool) -> None:
    """Writes an object to a new file, every byte verified. The file appears when it is whole.

    ``FileExistsError``: it is there, and must not be replaced. ``FileNotFoundError``: no such
    object.
    """
    if os.path.lexists(filename) and not overwrite:
        raise FileExistsError(f"{filename} exists, and overwrite is False")
    with as_composer_errors(text):
        link = link_of(run, text)
        draft = f"{filename}.holdfast-{os.getpid()}"
        try:
            with open(draft, "wb") as file:
                if link is None:
                    found = object_of(text)
                    with run.open(found.name, found.version) as source:
                        shutil.copyfileobj(source, file, _BLOCK_BYTES)
                else:
                    file.write(link)
            os.replace(draft, filename)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)


@contextmanager
def as_composer_errors(text: str) -> Iterator[None]:
    """Composer knows only these: what is missing, and what may succeed later."""
    try:
        yield
    except (NotFound, InvalidArgument) as error:
        raise FileNotFoundError(f"{text}: {error.message}") from error
    except HoldfastError as error:
        if error.retryable:
            raise ObjectStoreTransientError(f"{text}: {error.message}") from error
        raise
