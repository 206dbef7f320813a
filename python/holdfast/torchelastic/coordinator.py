"""Which workers train together, and when they meet again."""

from __future__ import annotations

import abc
from typing import Any, Optional


class StopException(Exception):
    """Training is over for this worker, without an error."""


class NonRetryableException(Exception):
    """A retry cannot help: this worker ends."""


def is_kind(error: BaseException, kind: type[BaseException]) -> bool:
    """As ``isinstance``. torchelastic's class of the same name counts too."""
    return isinstance(error, kind) or any(
        each.__name__ == kind.__name__ and each.__module__.split(".")[0] == "torchelastic"
        for each in type(error).__mro__
    )


class Coordinator(abc.ABC):
    """The methods that ``train`` calls. A coordinator of torchelastic has them as well.

    A ``RuntimeError`` is a failure that a retry may cure: the workers go back to their snapshots
    and meet again. ``StopException`` ends training. Any other error ends this worker.
    """

    @abc.abstractmethod
    def rendezvous_barrier(self) -> tuple[Any, int, int]:
        """Waits for the other workers. Returns a store (``train`` ignores it), rank and size."""

    @abc.abstractmethod
    def should_rendezvous(self, state: Any) -> bool:
        """Called after each step. True: workers came or left, so that they meet again."""

    @abc.abstractmethod
    def should_stop_training(self) -> bool:
        """Called before each rendezvous and each step."""

    @abc.abstractmethod
    def signal_training_done(self) -> None:
        """This worker has no data left."""

    def init_process_group(self) -> None:
        """Called after each rendezvous. Makes the group in which ``State.sync`` communicates."""
        return None

    def barrier(self) -> None:
        """Waits until all workers are here. Default: ``torch.distributed``, if it is in use."""
        barrier_of(None)

    def should_save_checkpoint(self) -> bool:
        """Called after each step, besides ``State.should_save_checkpoint``."""
        return False

    def monitor_progress(self, state: Any, worker_stats: Any) -> None:
        """Called after each step, with the ``WorkerStats`` that the step has returned."""
        return None

    def report_progress(self, state: Any) -> None:
        """Called after each step, unless the workers meet again or stop after it."""
        return None

    def on_error(self, e: BaseException) -> None:
        """Called with each error, before ``train`` handles it."""
        return None


class LocalCoordinator(Coordinator):
    """One process that trains alone."""

    def __init__(self) -> None:
        self._is_stopped = False

    def rendezvous_barrier(self) -> tuple[Any, int, int]:
        if self._is_stopped:
            raise StopException("training is over")
        return None, 0, 1

    def should_rendezvous(self, state: Any) -> bool:
        return False

    def should_stop_training(self) -> bool:
        return self._is_stopped

    def signal_training_done(self) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends training after the step in progress, which is still saved if a save is due."""
        self._is_stopped = True


def barrier_of(coordinator: Optional[Any]) -> None:
    """The barrier of a coordinator. Older ones of torchelastic have none."""
    barrier = getattr(coordinator, "barrier", None)
    if barrier is not None:
        barrier()
        return
    import sys

    torch = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        torch.barrier()
