"""Reads ranges that follow each other with one request, straight into tensors."""

from __future__ import annotations

import torch

from .._memory import view_at
from .._reader import Version
from ..run import Run
from ._boxes import ByteRange


class Rows:
    """Collects ranges by file and offset. The caller calls ``flush`` after the last."""

    def __init__(self, run: Run, found: Version) -> None:
        self._run = run
        self._found = found
        self._file = ""
        self._start = 0
        self._end = 0
        self._targets: list[memoryview] = []
        #: Their memory has to stay until it is filled.
        self._owners: list[torch.Tensor] = []

    def add(self, file: str, where: ByteRange, target: torch.Tensor) -> None:
        if where.length == 0:
            return
        if self._file != file or self._end != where.start:
            self.flush()
            self._file, self._start = file, where.start
        self._end = where.start + where.length
        self._targets.append(view_at(target.data_ptr(), where.length))
        self._owners.append(target)

    def flush(self) -> None:
        if self._targets:
            self._run._read_row(self._targets, self._file, self._found, self._start)
        self._targets, self._owners, self._end, self._file = [], [], 0, ""
