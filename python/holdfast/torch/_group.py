"""The ranks that save or load together."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional, TypeVar

import torch.distributed as dist

_T = TypeVar("_T")


class Ranks(NamedTuple):
    """A process group, or one process alone."""

    group: Any
    rank: int
    size: int

    @property
    def is_alone(self) -> bool:
        return self.size == 1

    def from_first(self, find: Callable[[], _T]) -> _T:
        """What ``find`` returns on rank 0, on all ranks. All raise what it raises there."""
        if self.is_alone:
            return find()
        found: list[Any] = [None, None]
        if self.rank == 0:
            try:
                found[0] = find()
            except Exception as error:
                found[1] = error
        first = 0 if self.group is None else dist.get_global_rank(self.group, 0)
        dist.broadcast_object_list(found, src=first, group=self.group)
        if found[1] is not None:
            raise found[1]
        value: _T = found[0]
        return value


def ranks_of(process_group: Optional[Any] = None, no_dist: bool = False) -> Ranks:
    """The ranks of a group, by default of all processes. ``no_dist``: this process alone."""
    if no_dist or not dist.is_available() or not dist.is_initialized():
        return Ranks(None, 0, 1)
    return Ranks(process_group, dist.get_rank(process_group), dist.get_world_size(process_group))
