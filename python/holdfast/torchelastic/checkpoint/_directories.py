"""Checkpoints that torchelastic has left: ``directory/ID/KEY``. They are only read."""

from __future__ import annotations

import os
import re
from typing import BinaryIO, NamedTuple, Optional

from ...errors import InvalidArgument, NotFound
from ._contract import Checkpoint, check_key


class _Entry(NamedTuple):
    sequence_id: int
    path: str


class OldCheckpoint(Checkpoint):
    """A directory. Its bytes have no checksums, and it may be the part of one that was cut off."""

    def __init__(self, entry: _Entry) -> None:
        self.sequence_id = entry.sequence_id
        self._path = entry.path

    def open_output_stream(self, key: str) -> BinaryIO:
        raise InvalidArgument(f"{self._path} is of torchelastic, and is only read")

    def open_input_stream(self, key: str) -> BinaryIO:
        path = os.path.join(self._path, check_key(key))
        try:
            return open(path, "rb")
        except FileNotFoundError:
            raise NotFound(f"{path} does not exist", {"path": path}) from None

    def commit(self) -> None:
        return None

    def discard(self) -> None:
        return None


def old_checkpoints(directory: Optional[str]) -> list[OldCheckpoint]:
    """Newest first. Empty if the directory does not exist.

    As in torchelastic, names such as ``-1`` and ``007`` count. All other entries are ignored.
    """
    if directory is None:
        return []
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    found: dict[int, _Entry] = {}
    for name in names:
        path = os.path.join(directory, name)
        if not re.fullmatch(r"-?[0-9]+", name) or not os.path.isdir(path):
            continue
        number = int(name)
        # torchelastic itself reads `7`, and not `007`.
        if number not in found or name == str(number):
            found[number] = _Entry(number, path)
    return [OldCheckpoint(found[number]) for number in sorted(found, reverse=True)]
