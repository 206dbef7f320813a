"""The files, buffers and arrays of one save, before their bytes are copied."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterable, Mapping, NamedTuple, Optional

from ._arguments import FilePath, check_path, check_text, items_of
from ._array_source import ArraySource, CopyInto
from ._arrays import find_array
from ._segments import Segment
from ._views import view_of
from .errors import InvalidArgument

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from ._safetensors import Layout

DEFAULT_ARRAYS_NAME = "model.safetensors"
# Files begin at a page, so that the agent's reads do.
_PAGE = 4096


class _Part(NamedTuple):
    """Bytes of a file, at an offset in the segment."""

    offset: int
    size: int
    copy_into: CopyInto


class _StagedFile(NamedTuple):
    name: str
    offset: int
    size: int


class Payload:
    """The files of a save. Its constructor and ``add_…`` check all arguments and copy nothing."""

    def __init__(
        self,
        files: Optional[Mapping[str, FilePath]] = None,
        buffers: Optional[Mapping[str, ReadableBuffer]] = None,
        arrays: Optional[Mapping[str, Any]] = None,
        arrays_name: str = DEFAULT_ARRAYS_NAME,
    ) -> None:
        self._paths: list[tuple[str, str]] = []
        self._parts: list[_Part] = []
        self._staged: list[_StagedFile] = []
        self._names: set[str] = set()
        #: Parts that the segment has.
        self._copied_count = 0
        #: Bytes that the segment has to have.
        self.size = 0
        for name, path in items_of("files", files):
            self._paths.append((self._named(name), _absolute(name, path)))
        for name, buffer in items_of("buffers", buffers):
            self.add_buffer(name, buffer)
        if arrays is not None:
            self._add_arrays(arrays_name, arrays)

    @property
    def is_staged(self) -> bool:
        """Whether it needs a segment."""
        return bool(self._staged)

    def copy_into(self, segment: Segment) -> None:
        """Copies all bytes once. What is added later is copied by the next call."""
        # Not released here: what a signal handler has ended may still hold a view.
        whole = segment.view()
        for part in self._parts[self._copied_count :]:
            part.copy_into(whole[part.offset : part.offset + part.size])
        self._copied_count = len(self._parts)

    def forget_copy(self) -> None:
        """Makes the next ``copy_into`` copy all bytes, into another segment."""
        self._copied_count = 0

    def sources(self, segment: Optional[Segment]) -> list[dict[str, Any]]:
        """``files`` of the request."""
        listed: list[dict[str, Any]] = [
            {"name": name, "source": {"path": path, **_state(path)}} for name, path in self._paths
        ]
        for file in self._staged:
            assert segment is not None
            source = segment.source(file.offset, file.size)
            listed.append({"name": file.name, "source": source})
        return listed

    def add_buffer(self, name: str, buffer: ReadableBuffer) -> None:
        view = view_of(
            f"buffer {name!r}",
            buffer,
            f"buffer {name!r}: expected bytes, bytearray, memoryview or another object with "
            f"the buffer protocol, got {type(buffer).__name__}",
        )
        if not view.c_contiguous:
            raise InvalidArgument(
                f"buffer {name!r} is not contiguous; pass its bytes, or pass it in arrays"
            )

        def copy_into(target: memoryview) -> None:
            from ._memory import copy_buffer

            copy_buffer(target, view)

        offset = self._place(name, view.nbytes)
        self._parts.append(_Part(offset, view.nbytes, copy_into))

    def add_joined(self, name: str, parts: Iterable[tuple[int, CopyInto]]) -> None:
        """One file of several parts. Each is its bytes, and what copies them."""
        listed = list(parts)
        offset = self._place(name, sum(size for size, _ in listed))
        for size, copy_into in listed:
            if size > 0:
                self._parts.append(_Part(offset, size, copy_into))
            offset += size

    def add_safetensors(
        self, name: str, sources: Mapping[str, ArraySource], metadata: Mapping[str, str] = {}
    ) -> Layout:
        """One safetensors file. ``metadata``: strings of its header."""
        from ._safetensors import lay_out

        layout = lay_out(sources, metadata)
        offset = self._place(name, layout.size)
        header = layout.header

        def copy_header(target: memoryview) -> None:
            target[:] = header

        self._parts.append(_Part(offset, len(header), copy_header))
        for entry in layout.entries:
            copy_into = sources[entry.name].copy_into
            if entry.size > 0:
                self._parts.append(_Part(offset + entry.offset, entry.size, copy_into))
        return layout

    def _add_arrays(self, name: str, arrays: Mapping[str, Any]) -> None:
        check_text("arrays_name", name, "the name of a file")
        sources = {key: find_array(key, value) for key, value in items_of("arrays", arrays)}
        if "__metadata__" in sources:
            raise InvalidArgument("arrays: safetensors keeps the name '__metadata__' for itself")
        self.add_safetensors(name, sources)

    def _place(self, name: str, size: int) -> int:
        offset = self.size
        self._staged.append(_StagedFile(self._named(name), offset, size))
        self.size = offset + size + -(offset + size) % _PAGE
        return offset

    def _named(self, name: str) -> str:
        if name in self._names:
            raise InvalidArgument(f"two files have the name {name!r}")
        self._names.add(name)
        return name


def _state(path: str) -> dict[str, str]:
    """Size and times of the file now. An agent that opens it later refuses a file that changed."""
    try:
        found = os.stat(path)
    except OSError:
        # The agent says what is wrong with it.
        return {}
    return {"state": f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"}


def _absolute(name: str, path: FilePath) -> str:
    what = f"file {name!r}"
    if isinstance(path, (bytes, bytearray, memoryview)):
        raise InvalidArgument(f"{what}: expected a path as str, got bytes; bytes go into buffers")
    return os.path.abspath(check_path(what, path))
