"""The election of Paddle: one of many trainers that hold the same model exports it.

    with holdfast.paddle.Client("s3://bucket/run") as client:
        if client.request_save_model(trainer_id, 10 * 60_000):
            with holdfast.paddle.saving("/mnt/models/pass-7", trainer_id) as directory:
                save_parameters(os.path.join(directory, "model.tar"))
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from contextlib import contextmanager, suppress
from typing import Any, Iterator, Union

from ._connect import connect
from ._holds_run import HoldsRun
from ._identity import is_certainly_gone, process_identity
from .errors import InvalidArgument, TargetExists

__all__ = ["Client", "saving"]

_ID_BYTES_MAX = 255


class Client(HoldsRun):
    """Has the calls of Paddle's client of its master. The store of a run keeps the election."""

    def __init__(self, uri: str, **options: Any) -> None:
        """``options``: ``agent``, ``start``, ``timeout`` of ``holdfast.connect``."""
        self._run = connect(uri, writer=None, **options)

    def request_save_model(self, trainer_id: Union[str, int], block_ms: int) -> bool:
        """Whether this trainer should save the model. See ``Run.request_save_model``.

        Paddle's client returns -1 after an error. This one raises it, because -1 counts as true.
        """
        return self._run.request_save_model(_checked(trainer_id), block_ms)


@contextmanager
def saving(directory: Union[str, os.PathLike[str]], trainer_id: Union[str, int]) -> Iterator[str]:
    """A directory for the files of a model. At the end it becomes ``directory/trainer_id``.

    Two trainers that were both elected leave two whole models. The model appears as a whole and
    durably, when the block has ended. If the block raises, nothing appears.

    ``TargetExists``: this trainer has a model there. ``InvalidArgument``: the id is no directory
    name, or the block has written no file. ``OSError``: the disk.
    """
    name = _checked(trainer_id)
    root = os.path.abspath(os.fspath(directory))
    target = os.path.join(root, name)
    os.makedirs(root, exist_ok=True)
    if os.path.lexists(target):
        raise _exists(target)
    prefix = f".{hashlib.sha256(name.encode()).hexdigest()[:16]}.holdfast-"
    _remove_abandoned(root, prefix)
    hidden = os.path.join(root, f"{prefix}{secrets.token_hex(8)}.{process_identity() or ''}")
    os.mkdir(hidden)
    try:
        yield hidden
        if not _made_durable(hidden):
            raise InvalidArgument(f"{target} was not created: no file was written")
        try:
            os.rename(hidden, target)
        except (FileExistsError, NotADirectoryError):
            raise _exists(target) from None
        except OSError:
            if os.path.lexists(target):
                raise _exists(target) from None
            raise
    except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        raise
    _sync(root)


def _checked(trainer_id: Any) -> str:
    is_number = isinstance(trainer_id, int) and not isinstance(trainer_id, bool)
    text = str(trainer_id) if is_number or isinstance(trainer_id, str) else ""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        size = 0
    is_name = not text.startswith(".") and not re.search(r"[/\\\x00-\x1f\x7f]", text)
    if is_name and 1 <= size <= _ID_BYTES_MAX:
        return text
    raise InvalidArgument(
        f"trainer_id: expected a directory name of 1 to {_ID_BYTES_MAX} bytes without a leading "
        f"dot, got {trainer_id!r}"
    )


def _exists(target: str) -> TargetExists:
    return TargetExists(f"{target} exists: this trainer has a model there", {"path": target})


def _remove_abandoned(root: str, prefix: str) -> None:
    """Removes what earlier processes of this trainer were writing when they were killed."""
    for entry in os.listdir(root):
        match = re.fullmatch(rf"{re.escape(prefix)}[0-9a-f]{{16}}\.(.+)", entry)
        if match is not None and is_certainly_gone(match[1]):
            shutil.rmtree(os.path.join(root, entry), ignore_errors=True)


def _made_durable(directory: str) -> bool:
    """Whether there is a file. Each file and directory is synced. ``OSError``: one cannot be read."""

    def fail(error: OSError) -> None:
        raise error

    has_file = False
    for place, _, names in os.walk(directory, topdown=False, onerror=fail):
        for name in names:
            has_file = True
            path = os.path.join(place, name)
            if not os.path.islink(path):
                _sync(path)
        _sync(place)
    return has_file


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        with suppress(OSError):
            os.close(fd)
