"""What a step reports about the speed of its worker."""

from __future__ import annotations

import abc


class WorkerStats(abc.ABC):
    """The second value of a step. ``Coordinator.monitor_progress`` gets it."""

    @abc.abstractmethod
    def get_progress_rate(self) -> float:
        """A larger number is a faster worker."""


class SimpleWorkerStats(WorkerStats):
    """A rate that is known when it is made."""

    def __init__(self, progress_rate: float) -> None:
        self._progress_rate = progress_rate

    def get_progress_rate(self) -> float:
        return self._progress_rate
