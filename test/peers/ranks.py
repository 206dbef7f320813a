"""Two ranks of a job, as forks of this process, which has imported PyTorch."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
import traceback
from datetime import timedelta
from typing import Any, Callable, Optional

import torch.distributed as dist

SIZE = 2
#: Processes that have not ended.
_LIVING: set[int] = set()
GROUP_SECONDS = 120.0


class Job:
    """One incarnation. ``work`` runs on each rank, and gets its number. Its answer is data."""

    def __init__(
        self, work: Callable[[int], Any], size: int = SIZE, group_seconds: float = GROUP_SECONDS
    ) -> None:
        self._group_seconds = group_seconds
        self._directory = tempfile.mkdtemp(prefix="torture-")
        self.pids = [self._fork(work, rank, size) for rank in range(size)]
        _LIVING.update(self.pids)

    def answers(self, seconds: float = 150.0) -> list[Any]:
        """Of each rank, when all have ended. ``killed``: it gave none."""
        end = time.monotonic() + seconds
        for pid in self.pids:
            while os.waitpid(pid, os.WNOHANG)[0] == 0:
                if time.monotonic() > end:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.01)
            _LIVING.discard(pid)
        return [self._read(rank) for rank in range(len(self.pids))]

    def _read(self, rank: int) -> Any:
        try:
            with open(f"{self._directory}/{rank}", encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return "killed"

    def _fork(self, work: Callable[[int], Any], rank: int, size: int) -> int:
        pid = os.fork()
        if pid != 0:
            return pid
        try:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size))
            dist.init_process_group(
                "gloo",
                init_method=f"file://{self._directory}/store",
                rank=rank,
                world_size=size,
                timeout=timedelta(seconds=self._group_seconds),
            )
            answer = outcome(lambda: work(rank))
            with open(f"{self._directory}/draft-{rank}", "w", encoding="utf-8") as file:
                json.dump(answer, file)
            os.rename(f"{self._directory}/draft-{rank}", f"{self._directory}/{rank}")
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)


def end_all() -> None:
    """Ends the ranks of jobs that were left."""
    while _LIVING:
        pid = _LIVING.pop()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def outcome(do: Callable[[], Any]) -> Any:
    """What it returns, or ``{"error": …}``."""
    try:
        return do()
    except BaseException as error:
        return {"error": first_error(error)}


def first_error(error: BaseException) -> str:
    failures: Optional[dict[int, Any]] = getattr(error, "failures", None)
    if isinstance(failures, dict) and failures:
        error = next(iter(failures.values()))[0]
    text = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {text}"


def die(number: int = signal.SIGKILL) -> None:
    os.kill(os.getpid(), number)
