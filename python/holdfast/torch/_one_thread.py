"""A writer has the state of one save, and a reader of one load: threads use it one after another."""

from __future__ import annotations

import functools
import threading
import time
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Optional, TypeVar, cast

from ..errors import TimedOut, Unsupported

_Method = TypeVar("_Method", bound=Callable[..., Any])


class OneThread:
    """``what``: the work, as in ``save``, and its object, as in ``Writer``, for messages."""

    def __init__(self, what: str, of: str) -> None:
        self._what, self._of = what, of
        self._turn = threading.Lock()
        self._holder: Optional[int] = None
        self._user: Optional[int] = None
        #: Held during each step. A step that begins other work waits for one in progress.
        self.step = threading.RLock()

    @contextmanager
    def alone(self, timeout: Optional[float] = None) -> Iterator[Optional[float]]:
        """Lets the work of other threads wait. Yields the seconds that are left of ``timeout``.

        ``Unsupported``: this thread is in the middle of such work, which a signal handler has
        interrupted. ``TimedOut``: the work of another thread has lasted too long.
        """
        me = threading.get_ident()
        if self._holder == me:
            raise Unsupported(
                f"this {self._of} is in the middle of a {self._what} of this thread; a signal handler "
                f"makes a {self._of} of its own, or leaves a note for the training loop"
            )
        began = time.monotonic()
        left = timeout
        if not self._turn.acquire(blocking=False):
            limit = -1 if timeout is None else min(timeout, threading.TIMEOUT_MAX)
            if not self._turn.acquire(timeout=limit):
                raise TimedOut(
                    f"a {self._what} of another thread with this {self._of} did not end in {timeout:g} s"
                )
            left = None if timeout is None else max(0.001, began + timeout - time.monotonic())
        try:
            self._holder = me
            yield left
        finally:
            self._holder = None
            self._turn.release()

    def begin(self) -> None:
        """From now on the steps of this thread count."""
        self._user = threading.get_ident()

    def is_mine(self) -> bool:
        return self._user in (None, threading.get_ident())

    def check(self) -> None:
        """``Unsupported``: another thread has begun such work since."""
        if not self.is_mine():
            raise Unsupported(
                f"another thread has begun a {self._what} with this {self._of} meanwhile; give each thread "
                f"its own, or use holdfast.torch.{self._what}, which waits"
            )


def step_of_one_thread(method: _Method) -> _Method:
    """For the methods of an object with ``threads`` that DCP calls one after another."""

    @functools.wraps(method)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.threads.step:
            self.threads.check()
            return method(self, *args, **kwargs)

    return cast(_Method, step)
