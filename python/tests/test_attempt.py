"""One attempt id for all ranks of an incarnation."""

from __future__ import annotations

import os
import sys
import threading
import types
from typing import Any, Optional
from unittest import mock

import holdfast

from .support import TestCase


class Store:
    """As torch.distributed.Store: `get` waits for `set`."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: str) -> None:
        with self._changed:
            self._values[key] = value.encode()
            self._changed.notify_all()

    def get(self, key: str) -> bytes:
        with self._changed:
            self._changed.wait_for(lambda: key in self._values)
            return self._values[key]


class Attempts(TestCase):
    def ranks(self, count: int, carry: Any) -> list[str]:
        """What each rank gets, rank 0 last."""
        found: list[str] = []

        def work(rank: int) -> None:
            found.append(holdfast.attempt((rank, count), carry=carry(rank), timeout=20))

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(count - 1, -1, -1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        self.assertEqual(len(found), count)
        return found

    def test_one_rank_draws_128_bits_each_time(self) -> None:
        one, two = holdfast.attempt(), holdfast.attempt((0, 1))
        for drawn in (one, two):
            self.assertRegex(drawn, "^[0-9a-f]{32}$")
        self.assertNotEqual(one, two)

    def test_the_variable_overrides_all_else(self) -> None:
        os.environ["HOLDFAST_ATTEMPT"] = "from the job script"
        self.assertEqual(holdfast.attempt((3, 8)), "from the job script")

    def test_a_store_carries_it(self) -> None:
        store = Store()
        self.assertEqual(len(set(self.ranks(4, lambda rank: store))), 1)

    def test_a_function_carries_it_as_bcast_of_mpi_does(self) -> None:
        barrier = threading.Barrier(3)
        box: list[str] = []

        def carrier(rank: int) -> Any:
            def bcast(value: Optional[str]) -> str:
                self.assertEqual(value is None, rank != 0)
                if value is not None:
                    box.append(value)
                barrier.wait(20)
                return box[0]

            return bcast

        self.assertEqual(len(set(self.ranks(3, carrier))), 1)

    def test_a_file_carries_it_and_is_refused_when_an_earlier_incarnation_made_it(self) -> None:
        path = self.path("attempt")
        (drawn,) = set(self.ranks(3, lambda rank: path))
        self.assertEqual(os.listdir(self.directory), ["attempt"])
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        with self.assertRaisesRegex(holdfast.Conflict, "earlier incarnation"):
            holdfast.attempt((0, 3), carry=path)
        self.assertEqual(os.listdir(self.directory), ["attempt"])
        self.assertEqual(holdfast.attempt((1, 3), carry=path), drawn)

    def test_a_file_that_rank_0_never_makes_ends_the_wait(self) -> None:
        with self.assertRaisesRegex(holdfast.TimedOut, "rank 0 has not made"):
            holdfast.attempt((1, 2), carry=self.path("x"), timeout=0)

    def test_what_was_not_drawn_by_rank_0_is_refused(self) -> None:
        for brought in (None, "", "short", b"\xff" * 32 + b"x", 7):
            with self.assertRaisesRegex(holdfast.ProtocolError, "carry brought"):
                holdfast.attempt((1, 2), carry=lambda value: brought)

    def test_launchers_name_rank_and_size(self) -> None:
        for rank, size in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")):
            with mock.patch.dict(os.environ, {rank: "0", size: "1"}):
                self.assertRegex(holdfast.attempt(), "^[0-9a-f]{32}$")
            with mock.patch.dict(os.environ, {rank: "1", size: "2"}):
                with self.assertRaisesRegex(holdfast.InvalidArgument, "2 ranks need .*HOLDFAST_ATTEMPT"):
                    holdfast.attempt()
            with mock.patch.dict(os.environ, {rank: "2", size: "2"}):
                with self.assertRaisesRegex(holdfast.InvalidArgument, f"{rank} and {size}: expected a rank"):
                    holdfast.attempt()
            with mock.patch.dict(os.environ, {rank: "x", size: "2"}):
                with self.assertRaisesRegex(holdfast.InvalidArgument, f"{rank} and {size}: expected numbers"):
                    holdfast.attempt()

    def test_odd_arguments_are_refused(self) -> None:
        for group in ("x", (1,), (0.5, 2), 3):
            with self.assertRaisesRegex(holdfast.InvalidArgument, "^group"):
                holdfast.attempt(group)
        for group in ((1, 1), (-1, 2)):
            with self.assertRaisesRegex(holdfast.InvalidArgument, "^group: expected a rank below"):
                holdfast.attempt(group)
        with self.assertRaisesRegex(holdfast.InvalidArgument, "^carry"):
            holdfast.attempt((0, 2), carry=7)  # type: ignore[arg-type]
        for path in ("a\0b", "\ud800"):
            with self.assertRaisesRegex(holdfast.InvalidArgument, "^carry: its path"):
                holdfast.attempt((0, 2), carry=path)
        for timeout in ("1", None, -1):
            with self.assertRaisesRegex(holdfast.InvalidArgument, "^timeout: expected seconds"):
                holdfast.attempt((1, 2), carry=self.path("x"), timeout=timeout)  # type: ignore[arg-type]

    def test_torch_carries_it_by_itself_when_its_groups_are_made(self) -> None:
        calls: list[Any] = []

        def broadcast(box: list[Any], src: int, group: Any) -> None:
            calls.append((list(box), src, group))
            if box[0] is None:
                box[0] = "f" * 32

        torch: Any = types.ModuleType("torch.distributed")
        torch.is_available = torch.is_initialized = lambda: True
        torch.get_rank = lambda group: {None: 0, "pair": 1, "other": -1}[group]
        torch.get_global_rank = lambda group, rank: 4 + rank
        torch.broadcast_object_list = broadcast
        with mock.patch.dict(sys.modules, {"torch.distributed": torch}):
            drawn = holdfast.attempt()
            self.assertEqual(holdfast.attempt("pair"), "f" * 32)
            self.assertRegex(holdfast.attempt((0, 1)), "^[0-9a-f]{32}$")
            with self.assertRaisesRegex(holdfast.InvalidArgument, "is not in it"):
                holdfast.attempt("other")
        self.assertEqual(calls, [([drawn], 0, None), ([None], 4, "pair")])
