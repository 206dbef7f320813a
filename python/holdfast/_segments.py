"""Segments: memory that trainer and agent share. At most two for each run, reused.

Copying into pages that are mapped already is three times as fast as into new ones.
"""

from __future__ import annotations

import errno
import functools
import mmap
import os
import secrets
import stat
import threading
import time
import weakref
from typing import Any, Callable, NamedTuple, Optional

from ._place import trusted_users
from ._room import directory_free, memory_available
from .errors import NoStagingSpace, Unexpected

SEGMENTS_MAX = 2
# Segments grow in steps of this, so that a slightly bigger save still fits.
_STEP_BYTES = 2 << 20
_NO_ROOM = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM),
    # The directory belongs to an agent of another user.
    *(errno.EACCES, errno.EPERM),
    # Another program has removed the directory. The agent makes it again.
    *(errno.ENOENT, errno.ENOTDIR, errno.ELOOP),
)
# Room for the records that the agent writes beside the segments. It takes no save without them.
_RECORDS_BYTES = 1 << 20
_MAP_POPULATE = 0x8000

TMPFS = "tmpfs"
MEMFD = "memfd"
DISK = "disk"
#: The agent does not use its staging directory now.
NONE = "none"


class Stage(NamedTuple):
    """Where the agent wants the segments of this writer."""

    directory: str
    #: ``tmpfs``, ``disk`` or ``none``.
    kind: str
    reason: str = ""


class Segment:
    """A mapped file that one save uses at a time."""

    def __init__(self, kind: str, size: int, path: Optional[str], name: str) -> None:
        """Makes nothing yet: see ``make``."""
        self.kind = kind
        self.size = size
        self.path = path
        self._name = name
        self._map: Optional[mmap.mmap] = None
        #: At most one: the system calls that open files put it here themselves.
        self._descriptors: list[int] = []
        self._identity = (0, 0)
        #: Whether the agent may read it.
        self.is_posted = False
        #: What uses it: dead, it uses it no more. ``None``: it is free.
        self.owner: Optional[Callable[[], object]] = None

    def make(self, directory: int, memfd_name: str) -> None:
        """Makes and maps it, in ``directory`` unless it is a memfd. Leaves nothing if it fails."""
        make_one: Callable[[str, int], int] = os.memfd_create
        # The name is new: a slow agent must not mistake the memory of a later save for this one.
        name, wanted = f"{memfd_name}-{self._name}", os.MFD_CLOEXEC
        if self.path is not None:
            make_one = functools.partial(os.open, mode=0o600, dir_fd=directory)
            name = os.path.basename(self.path)
            wanted = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            # In one call of the interpreter: a signal handler that raises loses no descriptor.
            self._descriptors.extend(map(make_one, [name], [wanted]))
            (fd,) = self._descriptors
            # A mapped write past the limit of a file system is SIGBUS. This reports it instead.
            os.posix_fallocate(fd, 0, self.size)
            facts = os.fstat(fd)
            self._identity = (facts.st_dev, facts.st_ino)
            flags = mmap.MAP_SHARED | (0 if self.kind == DISK else _MAP_POPULATE)
            self._map = mmap.mmap(fd, self.size, flags=flags)
            # A memfd has no name, so the agent opens it through this descriptor.
            if self.path is not None:
                self._close_descriptor()
        except BaseException as error:
            # A file of that name that was there before is not this segment's.
            self.close(unlink=not isinstance(error, FileExistsError))
            raise

    def view(self) -> memoryview:
        """All bytes. Its memory stays until the view and all views of it are gone."""
        assert self._map is not None
        return memoryview(self._map)

    def is_unmade(self) -> bool:
        """Whether it has no memory: it is being made, could not be made, or is closed."""
        return self._map is None

    def is_there(self) -> bool:
        """Whether the agent can open it.

        An agent that took this process for ended has removed its files.
        """
        if self.path is None:
            return True
        try:
            facts = os.lstat(self.path)
        except OSError:
            return False
        # Another file of its name is another user's.
        return self._identity == (facts.st_dev, facts.st_ino)

    def is_usable(self, stage: Stage) -> bool:
        """Whether an agent with this staging directory can open it."""
        return self.path is None or (
            os.path.dirname(self.path) == stage.directory and self.is_there()
        )

    def bring_to(self, stage: Stage) -> None:
        """Moves its bytes to the directory of another agent, unless it is usable there.

        Views of its former memory stay as they are. ``NoStagingSpace``: there is no room for a copy.
        """
        if self.is_usable(stage):
            return
        other, _ = make_segment(stage, self.size, None)
        other.view()[:] = self.view()
        self.close(unlink=self.is_there())
        self.kind, self.path = other.kind, other.path
        self._name, self._map, self._identity = other._name, other._map, other._identity

    def source(self, offset: int, length: int) -> dict[str, Any]:
        """How the agent finds a range, as in ``POST …/saves``."""
        place: dict[str, Any]
        if self.path is not None:
            place = {"path": self.path}
        else:
            place = {"pid": os.getpid(), "fd": self._descriptors[0], "segment": self._name}
        return {**place, "offset": offset, "length": length}

    def close(self, unlink: bool) -> None:
        """Unmaps it. Without ``unlink`` its file stays for the agent."""
        if unlink and self.path is not None:
            try:
                os.unlink(self.path)
            except OSError:
                pass
        # It is unmapped with its last view. A call that was interrupted may still have one.
        self._map = None
        self._close_descriptor()

    def _close_descriptor(self) -> None:
        if self._descriptors:
            # Taken out first: a number that is closed may soon be another file's. And closed in the
            # same call of the interpreter: a signal handler that raises loses no descriptor.
            list(map(os.close, map(self._descriptors.pop, [0])))


def make_segment(
    stage: Stage, size: int, memfd_name: Optional[str], note: Callable[[Segment], None] = lambda _: None
) -> tuple[Segment, str]:
    """Makes a segment of at least ``size`` bytes. Returns it, and why better places were not used.

    ``note`` gets each segment before anything of it is made.

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
                segment = _create(stage, kind, whole, memfd_name or "", note)
                return segment, "; ".join(refusals) or stage.reason or "it has room"
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise Unexpected(f"no segment can be made: {error.strerror or error}") from error
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
    elif stage.kind == NONE:
        return stage.reason
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


def _create(
    stage: Stage, kind: str, size: int, memfd_name: str, note: Callable[[Segment], None]
) -> Segment:
    name = secrets.token_hex(8)
    if kind == MEMFD:
        segment = Segment(kind, size, None, name)
        note(segment)
        segment.make(-1, memfd_name)
        return segment
    descriptors: list[int] = []
    try:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptors.extend(map(os.open, [stage.directory], [flags]))
        _check_private(stage.directory, descriptors[0])
        segment = Segment(kind, size, os.path.join(stage.directory, f"segment-{name}"), name)
        note(segment)
        segment.make(descriptors[0], memfd_name)
    finally:
        for fd in descriptors:
            os.close(fd)
    return segment


def _check_private(path: str, directory: int) -> None:
    """``PermissionError``: another user could exchange the files in the directory."""
    facts = os.fstat(directory)
    if facts.st_uid not in trusted_users():
        raise PermissionError(errno.EPERM, f"{path} belongs to user {facts.st_uid}")
    if facts.st_mode & 0o077:
        mode = f"{stat.S_IMODE(facts.st_mode):04o}"
        raise PermissionError(errno.EPERM, f"other users may enter {path}, which has mode {mode}")


class SegmentPool:
    """The segments of one run. Safe for threads, and for signal handlers that raise."""

    def __init__(self, memfd_name: Optional[str], log: Callable[[str], None]) -> None:
        self._memfd_name = memfd_name
        self._log = log
        # The condition's own ``with`` is interruptible after it has taken the lock.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        #: All of them, also those that are being made.
        self._segments: list[Segment] = []
        self._last_choice = ""

    def take(self, stage: Stage, size: int, owner: Optional[object] = None) -> Optional[Segment]:
        """A segment of at least ``size`` bytes, or ``None`` if all are in use.

        It is given back when ``owner`` is gone, for example because a signal handler has ended the
        call that took it. ``None``: only ``give_back`` ends its use.
        """
        refer = weakref.ref(self if owner is None else owner)
        with self._lock:
            self._collect()
            free = [one for one in self._segments if one.owner is None]
            if len(self._segments) - len(free) >= SEGMENTS_MAX:
                return None
            for gone in [one for one in free if not one.is_usable(stage)]:
                free.remove(gone)
                self._drop(gone, unlink=gone.is_there())
            fitting = sorted((one for one in free if one.size >= size), key=_size_of)
            if fitting:
                fitting[0].owner = refer
                return fitting[0]
            if free and len(self._segments) >= SEGMENTS_MAX:
                # Free the old segment first: often there is no room for both.
                self._drop(min(free, key=_size_of), unlink=True)
            # Until it is made, its place is taken by a segment without memory.
            making = [Segment(MEMFD, 0, None, "")]
            making[0].owner = refer
            self._segments.append(making[0])
        try:
            return self._make(stage, size, refer, making)
        finally:
            with self._lock:
                if making[0].is_unmade() and making[0] in self._segments:
                    self._segments.remove(making[0])
                    self._changed.notify_all()

    def _make(
        self, stage: Stage, size: int, refer: Callable[[], object], making: list[Segment]
    ) -> Segment:
        """``making``: the one that has the place of the new segment."""

        def note(segment: Segment) -> None:
            with self._lock:
                segment.owner = refer
                self._segments[self._segments.index(making[0])] = segment
                making[0] = segment

        try:
            segment, reason = make_segment(stage, size, self._memfd_name, note)
        except NoStagingSpace:
            if not self._drop_free():
                raise
            segment, reason = make_segment(stage, size, self._memfd_name, note)
        choice = f"{segment.kind} ({reason})"
        if choice != self._last_choice:
            self._last_choice = choice
            self._log(f"segments are in {segment.path or 'a memfd'}: {choice}")
        return segment

    def _drop_free(self) -> bool:
        """Frees the segments that no save uses. Returns whether there were any."""
        with self._lock:
            free = [one for one in self._segments if one.owner is None]
            for segment in free:
                self._drop(segment, unlink=True)
        return bool(free)

    def _drop(self, segment: Segment, unlink: bool) -> None:
        # Closed first: what is interrupted between the two is closed again.
        segment.close(unlink)
        self._segments.remove(segment)

    def _collect(self) -> None:
        """Ends the use of segments whose owners are gone, or are saves that have ended."""
        for segment in self._segments[:]:
            if segment.owner is None:
                if segment.is_unmade():
                    self._segments.remove(segment)
                continue
            owner = segment.owner()
            if owner is None or getattr(owner, "is_final", False):
                self.give_back(segment, reusable=not segment.is_posted)

    def hand_over(self, segment: Segment, save: object) -> None:
        """From now on the save uses the segment, and the agent may read it."""
        segment.is_posted = True
        segment.owner = weakref.ref(save)

    def give_back(self, segment: Segment, reusable: bool = True) -> None:
        """Ends the use of a segment.

        ``reusable``: false if the agent may still read it. Its bytes then stay as they are.
        """
        with self._lock:
            if segment not in self._segments or segment.owner is None:
                return
            if reusable and not segment.is_unmade():
                segment.is_posted = False
                segment.owner = None
            else:
                self._drop(segment, unlink=True)
            self._changed.notify_all()

    def release(self, owner: object) -> None:
        """Ends the use of all segments of ``owner`` that the agent does not know."""
        with self._lock:
            for segment in self._segments[:]:
                if segment.owner is not None and segment.owner() is owner:
                    self.give_back(segment, reusable=not segment.is_posted)

    def is_all_of_thread(self, thread: int) -> bool:
        """Whether only calls in progress of this thread can free a segment."""
        with self._lock:
            owners = [one.owner() for one in self._segments if one.owner is not None]
        return len(owners) >= SEGMENTS_MAX and all(
            getattr(owner, "thread", None) == thread for owner in owners
        )

    def wait_for_free(self, until: float) -> None:
        """Waits until a segment may be free, or until ``time.monotonic()`` is ``until``."""
        with self._lock:
            if sum(one.owner is not None for one in self._segments) >= SEGMENTS_MAX:
                self._changed.wait(max(0.0, until - time.monotonic()))

    def close(self) -> None:
        """Unlinks free segments. The files of saves in progress stay for the agent."""
        with self._lock:
            self._collect()
            for segment in self._segments[:]:
                self._drop(segment, unlink=segment.owner is None)

    def forget(self) -> None:
        """In the child of a fork: unmaps all, and leaves files and parent alone."""
        for segment in self._segments:
            segment.close(unlink=False)


def _size_of(segment: Segment) -> int:
    return segment.size
