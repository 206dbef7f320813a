"""The ranks that save or load together."""

from __future__ import annotations

import weakref
from typing import Any, Callable, NamedTuple, Optional, TypeVar

import torch.distributed as dist

from .._portable import portable
from ..errors import InvalidArgument

_T = TypeVar("_T")


class Ranks(NamedTuple):
    """A process group, or one process alone."""

    #: As the caller gave it. ``None``: all processes, or one process alone.
    group: Any
    rank: int
    size: int

    @property
    def is_alone(self) -> bool:
        return self.size == 1

    def global_rank(self, rank: int) -> int:
        """The rank in the default group, which collectives take."""
        return rank if self.group is None else dist.get_global_rank(self.group, rank)

    def from_first(self, find: Callable[[], _T]) -> _T:
        """Calls ``find`` on rank 0. All ranks return its result, or raise its error."""
        if self.is_alone:
            return find()
        found: list[Any] = [None, None]
        if self.rank == 0:
            try:
                found[0] = find()
            except Exception as error:
                found[1] = portable(error)
        dist.broadcast_object_list(found, src=self.global_rank(0), group=self.group)
        if found[1] is not None:
            raise found[1]
        value: _T = found[0]
        return value

    def on_all(self, do: Callable[[], _T]) -> _T:
        """Calls ``do`` on each rank. If it fails on one rank, all ranks raise an error of ``do``."""
        value: Optional[_T] = None
        error: Optional[Exception] = None
        try:
            value = do()
        except Exception as raised:
            error = raised
        if not self.is_alone:
            errors: list[Any] = [None] * self.size
            dist.all_gather_object(errors, error and portable(error), group=self.group)
            error = error or next((one for one in errors if one is not None), None)
        if error is not None:
            raise error
        return value  # type: ignore[return-value]


def ranks_of(process_group: Optional[Any] = None, no_dist: bool = False) -> Ranks:
    """The ranks of a group, by default of all processes. ``no_dist``: this process alone.

    ``InvalidArgument``: this process is not in the group.
    """
    if no_dist or not dist.is_available() or not dist.is_initialized():
        return Ranks(None, 0, 1)
    rank = dist.get_rank(process_group)
    if rank < 0:
        raise InvalidArgument("process_group: this process is not in it, so it cannot save or load there")
    return Ranks(process_group, rank, dist.get_world_size(process_group))


class GroupMark:
    """Remembers the group that a writer was made for, and notices when it is destroyed."""

    def __init__(self, process_group: Optional[Any], no_dist: bool) -> None:
        self._is_alone = no_dist or not dist.is_available() or not dist.is_initialized()
        self._no_dist = no_dist
        group = None if self._is_alone else _object_of(process_group)
        self._group = None if group is None else weakref.ref(group)

    def is_same(self, other: GroupMark) -> bool:
        if self._is_alone or other._is_alone:
            return self._is_alone and other._is_alone
        if self._group is None or other._group is None:
            return False
        mine = self._group()
        return mine is not None and mine is other._group()

    def is_live(self) -> bool:
        """Whether the same ranks may still save with it."""
        if self._is_alone:
            return self._no_dist or not dist.is_initialized()
        group: Any = self._group() if self._group is not None else None
        if group is None or not dist.is_initialized():
            return False
        try:
            return dist.get_rank(group) >= 0
        except ValueError:
            # torch has forgotten it.
            return False


def _object_of(process_group: Optional[Any]) -> Any:
    return dist.group.WORLD if process_group is None else process_group
