"""The train loop of torchelastic.

A world begins with: snapshot, rendezvous, load (only on rank 0, and only if it has no state yet),
sync. Each step is: snapshot, step, save, look for workers that came or left.
"""

from __future__ import annotations

import logging
from typing import Any, Callable, Iterator, Optional

from ..errors import Fenced, HoldfastError, InvalidArgument
from ._checkpoints import load_newest, may_pass, save
from .checkpoint._contract import get_checkpoint_manager
from .coordinator import NonRetryableException, StopException, barrier_of, is_kind

log = logging.getLogger("holdfast")

MAX_FAILURES = 100

Step = Callable[[], Any]


def train(elastic_coordinator: Any, train_step: Callable[[Any], Any], state: Any) -> Any:
    """Trains until a step raises ``StopIteration`` or the coordinator stops. Returns the state.

    ``train_step(state)`` returns the state and ``WorkerStats``. Its ``RuntimeError`` is a failure
    that a retry may cure: the state goes back to its snapshot, and the workers meet again. After
    100 of them, ``RuntimeError``. Other errors of a step are raised as they are.

    Checkpoints are those of ``set_checkpoint_manager``. A save that fails for a while costs a
    checkpoint, and no step.
    """
    return _Loop(elastic_coordinator, state, lambda: lambda: train_step(state)).run()


def run_train(coordinator: Any, train_step_gen: Callable[[Any], Iterator[Any]], state: Any) -> Any:
    """As ``train``, with a generator of steps. It is made anew after each rendezvous."""

    def begin() -> Step:
        steps = train_step_gen(state)
        return lambda: next(steps)

    return _Loop(coordinator, state, begin).run()


class _Loop:
    def __init__(self, coordinator: Any, state: Any, begin: Callable[[], Step]) -> None:
        self._coordinator = coordinator
        self._state = state
        self._begin = begin
        self._manager = get_checkpoint_manager()
        self._failure_count = 0
        self._has_state = False
        self._is_over = False
        self._rank = 0

    def run(self) -> Any:
        try:
            while self._goes_on():
                self._check_failures()
                if self._attempt(self._enter_world):
                    step = self._begin()
                    while self._goes_on() and self._attempt(lambda _: self._step(step)):
                        pass
        finally:
            self._tell_manager("leave")
        return self._state

    def _goes_on(self) -> bool:
        return not self._is_over and not self._coordinator.should_stop_training()

    def _check_failures(self) -> None:
        if self._failure_count < MAX_FAILURES:
            return
        error = RuntimeError(f"Exceeded max number of recoverable failures: {self._failure_count}")
        self._coordinator.on_error(error)
        raise error

    def _attempt(self, work: Callable[[Any], bool]) -> bool:
        """Runs ``work``. Returns false if a rendezvous or the end of the training follows."""
        snapshot = self._state.capture_snapshot()
        try:
            return work(snapshot)
        except Exception as error:
            if is_kind(error, StopException):
                self._is_over = True
                return False
            self._coordinator.on_error(error)
            is_final = is_kind(error, NonRetryableException)
            if is_final or not isinstance(error, RuntimeError):
                raise
            self._failure_count += 1
            log.warning("failure %s, which a retry may cure: %r", self._failure_count, error)
            self._tell_manager("leave")
            self._go_back(snapshot)
            return False

    def _go_back(self, snapshot: Any) -> None:
        """Applies the snapshot. If that fails, the state is unknown, so the worker ends."""
        if snapshot is None:
            return
        try:
            self._state.apply_snapshot(snapshot)
        except Exception as error:
            self._coordinator.on_error(error)
            if not isinstance(error, RuntimeError):
                raise
            raise NonRetryableException(f"the snapshot could not be applied: {error}") from error

    def _enter_world(self, snapshot: Any) -> bool:
        _, self._rank, size = self._coordinator.rendezvous_barrier()
        if hasattr(self._coordinator, "init_process_group"):
            self._coordinator.init_process_group()
        barrier_of(self._coordinator)
        self._tell_manager("join" if self._rank == 0 else "leave")
        if self._manager is not None and self._rank == 0 and not self._has_state:
            load_newest(self._manager, self._state, lambda: self._go_back(snapshot))
        self._state.sync(size, self._rank)
        # Without this barrier, a rank that fails here would leave the others waiting in a step.
        barrier_of(self._coordinator)
        self._has_state = True
        return True

    def _step(self, step: Step) -> bool:
        coordinator, state = self._coordinator, self._state
        try:
            told = step()
        except StopIteration:
            coordinator.signal_training_done()
            return False
        if not isinstance(told, tuple) or len(told) != 2:
            raise InvalidArgument(
                f"train_step: expected it to return (state, worker_stats), got {told!r}"
            )
        coordinator.monitor_progress(state, told[1])
        self._save()
        if coordinator.should_rendezvous(state):
            return False
        coordinator.report_progress(state)
        return True

    def _save(self) -> None:
        """Rank 0 saves. All workers wait until it has succeeded or failed."""
        manager, coordinator, rank = self._manager, self._coordinator, self._rank
        if manager is None:
            return
        if not coordinator.should_save_checkpoint() and not self._state.should_save_checkpoint(rank):
            return
        failure: Optional[Exception] = None
        if rank == 0:
            try:
                save(manager, self._state)
            except Exception as error:
                failure = error
        try:
            barrier_of(coordinator)
        except RuntimeError:
            # The others have replaced this rank 0 while it was frozen. It meets them again.
            is_replaced = isinstance(failure, Fenced) and hasattr(manager, "leave")
            if failure is not None and not is_replaced:
                self._judge(failure)
            raise
        if failure is not None:
            self._judge(failure)

    def _judge(self, failure: Exception) -> None:
        """Raises a failure that will not pass. No step is undone: it is done on all ranks."""
        if not may_pass(failure):
            raise failure
        self._coordinator.on_error(failure)
        if not isinstance(failure, HoldfastError):
            # Counted, so that a save that never succeeds ends the worker at last.
            self._failure_count += 1
        log.warning("a checkpoint could not be saved; training continues: %r", failure)

    def _tell_manager(self, name: str) -> None:
        """``join`` fences a former rank 0 before it can save. The first save joins otherwise."""
        method = getattr(self._manager, name, None)
        if method is None:
            return
        try:
            method()
        except HoldfastError as error:
            if name == "join" and not may_pass(error):
                raise
            log.warning("the manager of checkpoints could not %s: %s", name, error)
