"""Waits for a save on behalf of ``asyncio``."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Callable, Optional

if TYPE_CHECKING:
    import asyncio


class Awaited:
    """One daemon thread that waits, for all tasks that wait for the same, of any loop.

    Neither a loop nor the exit of Python waits for it. It goes on for a while after the last task
    was cancelled: a task that comes meanwhile takes no other one.
    """

    def __init__(self, wait: Callable[[Callable[[], bool]], bool]) -> None:
        """``wait`` returns whether the goal was reached, or raises.

        Now and then it calls its argument, and returns ``False`` if that is true: no task waits.
        """
        self._wait = wait
        self._lock = threading.Lock()
        self._tasks: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}
        self._is_running = False

    def join(self) -> asyncio.Future[None]:
        """Cancel it to wait no longer."""
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        future.add_done_callback(self._leave)
        with self._lock:
            self._tasks[future] = loop
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="holdfast-wait", daemon=True).start()
        return future

    def _leave(self, future: asyncio.Future[None]) -> None:
        with self._lock:
            self._tasks.pop(future, None)

    def _is_left(self) -> bool:
        with self._lock:
            self._is_running = bool(self._tasks)
            return not self._is_running

    def _run(self) -> None:
        failure: Optional[BaseException] = None
        try:
            if not self._wait(self._is_left):
                return  # By now another thread may wait for tasks that came later.
        except BaseException as error:
            failure = error
        with self._lock:
            tasks, self._tasks, self._is_running = self._tasks, {}, False
        for future, loop in tasks.items():
            try:
                loop.call_soon_threadsafe(_end, future, failure)
            except RuntimeError:
                pass  # The loop was closed meanwhile.


def _end(future: asyncio.Future[None], failure: Optional[BaseException]) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(None)
    else:
        future.set_exception(failure)
