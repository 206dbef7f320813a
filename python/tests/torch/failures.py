"""Ranks that end, stop or fail at a given place of a save, for the tests."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from typing import Any, Iterator, Optional
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

import holdfast.torch as hdcp
from holdfast._payload import Payload
from holdfast.run import Run
from holdfast.torch import _roll_call, _writer

from .mistakes import own
from .programs import caught, numbers

#: In their order. ``posted``: rank 0 has handed all that the commit needs to its agent.
PLACES = ["begun", "copied", "delivered", "finishing", "posted"]


class _EndingWriter(hdcp.Writer):
    """Sends a signal to some process at a place of a save."""

    place = ""
    number = int(signal.SIGKILL)
    pid = 0

    def _reach(self, place: str) -> None:
        if place == self.place:
            self.place = ""
            os.kill(self.pid or os.getpid(), self.number)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        self._reach("begun")
        return super().prepare_local_plan(plan)

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        copy_into = Payload.copy_into

        def copy_and_reach(payload: Payload, segment: Any) -> None:
            copy_into(payload, segment)
            self._reach("copied")

        with mock.patch.object(Payload, "copy_into", copy_and_reach):
            done = super().write_data(plan, planner)
        self._reach("delivered")
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        self._reach("finishing")
        waits, self.waits = self.waits, False
        super().finish(metadata, results)
        self._reach("posted")
        self.waits = waits
        if waits:
            assert self.handle is not None
            self.handle.wait()


_writers: dict[str, _EndingWriter] = {}


def ending_save(
    uri: str,
    step: int,
    seed: int,
    place: str = "",
    ranks: Optional[list[int]] = None,
    number: int = signal.SIGKILL,
    pid: int = 0,
    is_async: bool = False,
) -> Any:
    """Saves. Sends the signal on these ranks, by default to the rank itself. ``None``: on all."""
    if uri not in _writers:
        _writers[uri] = _EndingWriter(uri)
    writer = _writers[uri]
    is_chosen = ranks is None or dist.get_rank() in ranks
    writer.place, writer.number, writer.pid = place if is_chosen else "", number, pid

    def do() -> None:
        if is_async:
            hdcp.async_save(own(seed), checkpoint_id=step, storage_writer=writer).result(60)
        else:
            hdcp.save(own(seed), checkpoint_id=step, storage_writer=writer)

    return caught(do)


def load_latest_own(uri: str, size: int) -> Any:
    """Version, seed, and whether all tensors are of this seed. ``size``: of the ranks that saved."""
    state: dict[str, Any] = {f"own-{rank}": torch.zeros(3, 2) for rank in range(size)}
    state["step"] = 0

    def do() -> Any:
        version = hdcp.load(state, checkpoint_id=f"{uri}/latest")
        same = [torch.equal(state[f"own-{rank}"], numbers(3, 2, seed=state["step"])) for rank in range(size)]
        return [version, state["step"], all(same)]

    return caught(do)


def saves_in_flight(uri: str, count: int) -> Any:
    """Two saves in progress, again and again. What each came to, and what was asked of the agent."""
    asked: list[bool] = []
    post = Run._post

    def note(run: Run, staged: Any, version: int, more: Any) -> Any:
        asked.append(bool(more.get("inOrder")))
        return post(run, staged, version, more)

    answers = []
    with mock.patch.object(Run, "_post", note):
        for step in range(1, 2 * count, 2):
            futures = [hdcp.async_save(own(one), checkpoint_id=f"{uri}/step-{one}") for one in (step, step + 1)]
            answers += [caught(lambda: future.result(60) and None) for future in futures]
    return answers, asked


def save_without_room(uri: str, step: int, rank: int) -> Any:
    """The copy fails on one rank."""
    patch: Any = contextlib.nullcontext()
    if dist.get_rank() == rank:
        full = OSError(errno.ENOSPC, "No space left on device")
        patch = mock.patch.object(Payload, "copy_into", side_effect=full)
    with patch:
        return caught(lambda: hdcp.save(own(step), checkpoint_id=f"{uri}/step-{step}") and None)


def save_with_clock(uri: str, step: int, directory: str) -> Any:
    """Saves with a timeout, which is over when the test makes a file for this rank."""
    with _clock_of_files(directory):
        return caught(lambda: hdcp.save(own(step), checkpoint_id=f"{uri}/step-{step}", timeout=300) and None)


@contextlib.contextmanager
def _clock_of_files(directory: str) -> Iterator[None]:
    rank = dist.get_rank()
    pause = time.sleep

    def monotonic() -> float:
        return float("inf") if os.path.exists(f"{directory}/over-{rank}") else 0.0

    def sleep(_seconds: float) -> None:
        with open(f"{directory}/waits-{rank}", "w", encoding="ascii"):
            pass
        pause(0.005)

    clock = mock.Mock(monotonic=monotonic, sleep=sleep)
    with mock.patch.object(_roll_call, "time", clock):
        yield


def close_after_a_failure(uri: str) -> Any:
    """A background save fails, and no later save raises it. Returns its class and what is logged."""
    if dist.get_rank() != 0:
        return None
    for seed in (1, 2):
        writer = hdcp.Writer(uri, no_dist=True)
        future = hdcp.async_save(own(seed), checkpoint_id=1, storage_writer=writer, no_dist=True)
        error = future.exception(60)
        with mock.patch.object(_writer._log, "error") as log:
            writer.close()
    return [type(error).__name__, [call.args[0] % call.args[1:] for call in log.call_args_list]]
