"""Waits for all ranks with a deadline. A collective would wait for a rank that hangs."""

from __future__ import annotations

import json
import secrets
import time
from typing import Any

import torch.distributed as dist

from ..errors import Incomplete
from ._group import Ranks

_PAUSE_SECONDS_MIN = 0.001
_PAUSE_SECONDS_MAX = 0.25
_GRACE_SECONDS = 1.0


class RollCall:
    """Keys in the store of the process group. All ranks make it at the same time."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self._number = 0
        self._oldest = 1
        self._store: Any = None
        if not ranks.is_alone:
            # Ranks of an earlier roll call may still look for their keys.
            drawn = ranks.from_first(lambda: secrets.token_hex(8))
            group = dist.group.WORLD if ranks.group is None else ranks.group
            assert group is not None
            prefixed = dist.PrefixStore  # pyright: ignore[reportPrivateImportUsage]
            self._store = prefixed(f"holdfast-{drawn}", group.get_group_store())

    def wait(self, end: float, version: int) -> None:
        """Returns on all ranks, or raises ``Incomplete`` on all of them.

        ``end``: of ``time.monotonic()``. A rank that comes too late raises it at once, and takes
        part in the next roll call again.
        """
        if self._ranks.is_alone:
            return
        self._number += 1
        if self._ranks.rank == 0:
            missing = self._decided(self._ranks_missing(end))
            if not missing:
                self._forget()
        else:
            self._store.set(self._key(self._number, self._ranks.rank), "1")
            # Rank 0 may know which rank is missing a moment after the deadline.
            is_decided = self._appear([self._decision(self._number)], end + _GRACE_SECONDS)
            missing = self._decided([] if is_decided else [0])
        if missing:
            who = ", ".join(str(rank) for rank in missing)
            raise Incomplete(
                f"version {version} was not saved: rank {who} of {self._ranks.size} did not begin the "
                "save in time; see what it waits for",
                {"version": str(version), "missingWriters": missing},
            )

    def _ranks_missing(self, end: float) -> list[int]:
        keys = {self._key(self._number, rank): rank for rank in range(1, self._ranks.size)}
        if self._appear(list(keys), end):
            return []
        return [rank for key, rank in keys.items() if not self._store.check([key])]

    def _decided(self, proposal: list[int]) -> list[int]:
        """The ranks that are missing, the same on all ranks: the first proposal counts."""
        key = self._decision(self._number)
        decision: list[int] = json.loads(self._store.compare_set(key, "", json.dumps(proposal)))
        return decision

    def _appear(self, keys: list[str], end: float) -> bool:
        pause = _PAUSE_SECONDS_MIN
        while not self._store.check(keys):
            left = end - time.monotonic()
            if left <= 0:
                return False
            # `wait` of a store would print a warning at each timeout.
            time.sleep(min(pause, left))
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)
        return True

    def _forget(self) -> None:
        """Removes keys of earlier roll calls: all ranks have read them."""
        for number in range(self._oldest, self._number):
            self._store.delete_key(self._decision(number))
            for rank in range(1, self._ranks.size):
                self._store.delete_key(self._key(number, rank))
        self._oldest = self._number

    @staticmethod
    def _decision(number: int) -> str:
        return f"{number}-missing"

    @staticmethod
    def _key(number: int, rank: int) -> str:
        return f"{number}-{rank}"
