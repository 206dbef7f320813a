"""A file of a checkpoint as a seekable stream."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Optional

from ._reader import Reader, Version
from .checkpoint import Which

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# A smaller read asks for as much. A larger one goes straight into the caller's memory.
_BUFFER_BYTES = 1 << 20


def open_stream(
    reader: Reader, version: Optional[Which], name: str, deadline: float, timeout: float
) -> io.BufferedReader:
    """See ``Run.open``. ``timeout``: of each read."""
    found, file = reader.find(version, name, deadline)
    raw = _RawFile(reader, found, name, file.size_bytes, timeout)
    return _Stream(raw, _BUFFER_BYTES)


class _Stream(io.BufferedReader):
    @property
    def size(self) -> int:
        """fsspec asks for it to read from the end."""
        raw: Any = self.raw
        return int(raw.size)


class _RawFile(io.RawIOBase):
    def __init__(
        self, reader: Reader, version: Version, name: str, size: int, timeout: float
    ) -> None:
        super().__init__()
        self._reader = reader
        self._version = version
        self._name = name
        self.size = size
        self._timeout = timeout
        self._offset = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._offset, io.SEEK_END: self.size}.get(whence)
        if base is None or base + offset < 0:
            raise ValueError(f"no place in the file: offset {offset}, whence {whence}")
        self._offset = base + offset
        return self._offset

    def readall(self) -> bytes:
        # The inherited one asks for 8 KiB at a time.
        data = bytearray(max(0, self.size - self._offset))
        self.readinto(data)
        return bytes(data)

    def readinto(self, buffer: WriteableBuffer) -> int:
        with memoryview(buffer).cast("B") as view:
            count = max(0, min(view.nbytes, self.size - self._offset))
            if count > 0:
                with view[:count] as target:
                    self._reader.read_ranges(
                        self._version, self._name, self._offset, [target], self._timeout
                    )
            self._offset += count
            return count
