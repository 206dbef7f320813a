"""Segments: memory that trainer and agent share. At most two for each run, reused.

Copying into pages that are mapped already is three times as fast as into new ones.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import secrets
import threading
import time
from typing import Any, Callable, NamedTuple, Optional

from ._room import directory_free, memory_available
from .errors import NoStagingSpace

SEGMENTS_MAX = 2
# Segments grow in steps of this, so that a slightly bigger save still fits.
_STEP_BYTES = 2 << 20
_NO_ROOM = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM),
    # The directory belongs to an agent of another user.
    *(errno.EACCES, errno.EPERM),
    # Another program has removed the directory. The agent makes it again.
    *(errno.ENOENT, errno.ENOTDIR),
)
# Room for the records that the agent writes beside the segments. It takes no save without them.
_RECORDS_BYTES = 1 << 20
_MAP_POPULATE = 0x8000

TMPFS = "tmpfs"
MEMFD = "memfd"
DISK = "disk"


class Stage(NamedTuple):
    """Where the agent wants the segments of this writer."""

    directory: str
    #: ``tmpfs`` or ``disk``.
    kind: str
    reason: str = ""


class Segment:
    """A mapped file that one save uses at a time."""

    def __init__(self, kind: str, size: int, fd: int, path: Optional[str], name: str) -> None:
        self.kind = kind
        self.size = size
        self.path = path
        flags = mmap.MAP_SHARED | (0 if kind == DISK else _MAP_POPULATE)
        try:
            self._map = mmap.mmap(fd, size, flags=flags)
        finally:
            # A memfd has no name, so the agent opens it through this descriptor.
            if path is not None:
                os.close(fd)
        self._fd = fd if path is None else -1
        self._name = name

    def view(self) -> memoryview:
        """All bytes. The caller releases the view before the segment is closed."""
        return memoryview(self._map)

    def is_there(self) -> bool:
        """Whether the agent can open it.

        An agent that took this process for ended has removed its files.
        """
        return self.path is None or os.path.exists(self.path)

    def source(self, offset: int, length: int) -> dict[str, Any]:
        """How the agent finds a range, as in ``POST …/saves``."""
        place: dict[str, Any]
        if self.path is not None:
            place = {"path": self.path}
        else:
            place = {"pid": os.getpid(), "fd": self._fd, "segment": self._name}
        return {**place, "offset": offset, "length": length}

    def close(self, unlink: bool) -> None:
        """Unmaps it. Without ``unlink`` its file stays for the agent."""
        with contextlib.suppress(BufferError):
            self._map.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if unlink and self.path is not None:
            with contextlib.suppress(OSError):
                os.unlink(self.path)


def make_segment(stage: Stage, size: int, memfd_name: Optional[str]) -> tuple[Segment, str]:
    """Makes a segment of at least ``size`` bytes. Returns it, and why better places were not used.

    Tries the stage directory if it is in memory, then a memfd, then the directory on disk.
    ``memfd_name``: ``None`` if the agent cannot open descriptors of this process.
    ``NoStagingSpace``: none of them has room.
    """
    whole = max(size, 1) + -max(size, 1) % _STEP_BYTES
    refusals: list[str] = []
    for kind in (TMPFS, MEMFD, DISK):
        try:
            refusal = _refusal(stage, kind, whole, memfd_name)
            if refusal == "":
                segment = _create(stage, kind, whole, memfd_name or "")
                return segment, "; ".join(refusals) or stage.reason or "it has room"
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            refusal = f"no room: {error.strerror}"
        refusals.append(f"{kind}: {refusal}")
    raise NoStagingSpace(
        f"no room for a segment of {whole} bytes ({'; '.join(refusals)}); "
        "give the agent a larger --stage, or this process more memory",
        whole,
        {"directory": stage.directory},
    )


def _refusal(stage: Stage, kind: str, size: int, memfd_name: Optional[str]) -> str:
    """Why a kind is not tried, or an empty string."""
    if kind == MEMFD:
        if not hasattr(os, "memfd_create"):
            return "this system has none"
        if memfd_name is None:
            return "the agent does not see this process"
    elif kind != stage.kind:
        return f"{stage.directory} is on {stage.kind}"
    if kind != MEMFD:
        free = directory_free(stage.directory)
        if free - _RECORDS_BYTES < size:
            return f"{stage.directory} has {free} bytes left"
    if kind != DISK:
        available = memory_available()
        if available is not None and available < size:
            return f"{available} bytes of memory are left"
    return ""


def _create(stage: Stage, kind: str, size: int, memfd_name: str) -> Segment:
    path: Optional[str] = None
    name = secrets.token_hex(8)
    if kind == MEMFD:
        # The name is new: a slow agent must not mistake the memory of a later save for this one.
        fd = os.memfd_create(f"{memfd_name}-{name}", os.MFD_CLOEXEC)
    else:
        path = os.path.join(stage.directory, f"segment-{name}")
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags, 0o600)
    try:
        # A mapped write past the limit of a file system is SIGBUS. This reports it instead.
        os.posix_fallocate(fd, 0, size)
    except OSError:
        os.close(fd)
        if path is not None:
            os.unlink(path)
        raise
    return Segment(kind, size, fd, path, name)


class SegmentPool:
    """The segments of one run. Safe for threads."""

    def __init__(self, memfd_name: Optional[str], log: Callable[[str], None]) -> None:
        self._memfd_name = memfd_name
        self._log = log
        self._changed = threading.Condition()
        self._free: list[Segment] = []
        #: Segments in use, and those that are being made.
        self._used_count = 0
        self._used: list[Segment] = []
        self._last_choice = ""

    def take(self, stage: Stage, size: int) -> Optional[Segment]:
        """A segment of at least ``size`` bytes, or ``None`` if all are in use."""
        with self._changed:
            if self._used_count >= SEGMENTS_MAX:
                return None
            self._used_count += 1
            for gone in [one for one in self._free if not one.is_there()]:
                self._free.remove(gone)
                gone.close(unlink=False)
            fitting = sorted((one for one in self._free if one.size >= size), key=_size_of)
            old = fitting[0] if fitting else None
            if old is not None:
                self._free.remove(old)
            elif self._free and len(self._free) + self._used_count > SEGMENTS_MAX:
                # Free the old segment first: often there is no room for both.
                smallest = min(self._free, key=_size_of)
                self._free.remove(smallest)
                smallest.close(unlink=True)
        segment = old
        try:
            if segment is None:
                segment = self._make(stage, size)
        finally:
            with self._changed:
                if segment is None:
                    self._used_count -= 1
                    self._changed.notify_all()
                else:
                    self._used.append(segment)
        return segment

    def _make(self, stage: Stage, size: int) -> Segment:
        try:
            segment, reason = make_segment(stage, size, self._memfd_name)
        except NoStagingSpace:
            if not self._drop_free():
                raise
            segment, reason = make_segment(stage, size, self._memfd_name)
        choice = f"{segment.kind} ({reason})"
        if choice != self._last_choice:
            self._last_choice = choice
            self._log(f"segments are in {segment.path or 'a memfd'}: {choice}")
        return segment

    def _drop_free(self) -> bool:
        """Frees the segments that no save uses. Returns whether there were any."""
        with self._changed:
            free, self._free = self._free, []
        for segment in free:
            segment.close(unlink=True)
        return bool(free)

    def give_back(self, segment: Segment, reusable: bool = True) -> None:
        """Ends the use of a segment.

        ``reusable``: false if the agent may still read it. Its bytes then stay as they are.
        """
        with self._changed:
            if segment not in self._used:
                return
            self._used.remove(segment)
            self._used_count -= 1
            if reusable:
                self._free.append(segment)
            self._changed.notify_all()
        if not reusable:
            segment.close(unlink=True)

    def wait_for_free(self, until: float) -> None:
        """Waits until a segment may be free, or until ``time.monotonic()`` is ``until``."""
        with self._changed:
            if self._used_count >= SEGMENTS_MAX:
                self._changed.wait(max(0.0, until - time.monotonic()))

    def close(self) -> None:
        """Unlinks free segments. The files of saves in progress stay for the agent."""
        with self._changed:
            free, self._free = self._free, []
            used, self._used = self._used, []
            self._used_count = 0
        for segment in free:
            segment.close(unlink=True)
        for segment in used:
            segment.close(unlink=False)

    def forget(self) -> None:
        """In the child of a fork: unmaps all, and leaves files and parent alone."""
        for segment in self._free + self._used:
            segment.close(unlink=False)


def _size_of(segment: Segment) -> int:
    return segment.size
