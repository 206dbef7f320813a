"""The writers that ``save`` and ``async_save`` make: one for each run."""

from __future__ import annotations

import atexit
import logging
import threading
from typing import Any

from ..errors import HoldfastError, InvalidArgument
from ._group import GroupMark, ranks_of
from ._writer import Writer

_log = logging.getLogger("holdfast")
_lock = threading.RLock()
_writers: dict[str, tuple[GroupMark, Writer]] = {}
#: By their runs: two writers of a process would fence each other.
_making: dict[str, threading.RLock] = {}


def writer_of(uri: str, process_group: Any, no_dist: bool) -> Writer:
    """The writer of a run and a group. All ranks of the group call this at the same time.

    ``InvalidArgument``: another group of this process saves to the run, or this process is not in
    the group.
    """
    ranks_of(process_group, no_dist)
    with _lock:
        making = _making.setdefault(uri, threading.RLock())
    with making:
        return _made(uri, process_group, no_dist)


def _made(uri: str, process_group: Any, no_dist: bool) -> Writer:
    mark = GroupMark(process_group, no_dist)
    with _lock:
        known = _writers.get(uri)
        if known is not None and known[0].is_same(mark) and known[0].is_live():
            return known[1]
        if known is not None and known[0].is_live():
            raise InvalidArgument(
                f"process_group: {uri.partition('?')[0]} is saved by another group of this process; "
                "the ranks that save to a run stay the same while its attempt lasts"
            )
        _writers.pop(uri, None)
    if known is not None:
        # Its group is gone, as after destroy_process_group.
        _close(known[1])
    writer = Writer(uri, process_group=process_group, no_dist=no_dist)
    with _lock:
        _writers[uri] = mark, writer
    return writer


def _close(writer: Writer) -> None:
    try:
        writer.close()
    except HoldfastError as error:
        _log.error("a save of %s has failed: %s", writer.run.uri.partition("?")[0], error)


def _close_all() -> None:
    for _, writer in _writers.values():
        _close(writer)


atexit.register(_close_all)
