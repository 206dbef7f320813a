"""The processes of a job. On each node, one of them saves and restores for the others."""

from __future__ import annotations

import os
from typing import Any, Callable, NamedTuple, Optional, TypeVar, cast

import torch.distributed as dist

from ._portable import portable
from .errors import InvalidConfig

_T = TypeVar("_T")


class Nodes(NamedTuple):
    """The position of this process in the job. All methods are collective."""

    rank: int
    size: int
    #: Ranks of the first process of each node, in order.
    leaders: tuple[int, ...]

    @property
    def leader_index(self) -> Optional[int]:
        """Its index among the leaders (the first process of each node). ``None``: it is not one."""
        return self.leaders.index(self.rank) if self.rank in self.leaders else None

    def gather(self, mine: _T) -> list[_T]:
        """Returns the values that all ranks pass, in the order of the ranks."""
        if self.size == 1:
            return [mine]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, mine)
        return found

    def together(self, work: Callable[[], _T]) -> list[_T]:
        """Runs ``work`` on each rank and returns all results. If one raises, all raise its error."""
        mine: tuple[Any, Optional[Exception]]
        try:
            mine = work(), None
        except Exception as error:
            mine = None, portable(error)
        answers = self.gather(mine)
        for _, failure in answers:
            if failure is not None:
                raise failure
        return [cast(_T, value) for value, _ in answers]


def find_nodes() -> Nodes:
    """The processes of ``torch.distributed``, or this one alone. Collective.

    ``InvalidConfig``: several processes, and none of them knows its number on its node.
    """
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return Nodes(0, 1, (0,))
    alone = Nodes(dist.get_rank(), dist.get_world_size(), ())
    is_first = [number == 0 for number in alone.together(_local_rank)]
    leaders = tuple(rank for rank, first in enumerate(is_first) if first)
    if 0 not in leaders:
        raise InvalidConfig("LOCAL_RANK of rank 0 is not 0: it is not the first of its node")
    return alone._replace(leaders=leaders)


def _local_rank() -> int:
    for name in ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"):
        text = os.environ.get(name, "")
        if text.isdigit():
            return int(text)
    raise InvalidConfig("LOCAL_RANK is not set, so it is not known which processes share a node")
