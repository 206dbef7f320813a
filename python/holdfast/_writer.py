"""The agent's view of this writer: its joining, its saves, and their states."""

from __future__ import annotations

import os
import secrets
import threading
import time
from contextlib import contextmanager, suppress
from typing import Any, Callable, Iterator, Mapping, Optional

from ._events import Events, News, open_events
from ._identity import process_identity
from ._keeper import keep
from ._link import AgentChanged, Link
from ._saves import Save, forgotten, refused
from ._segments import SegmentPool, Stage
from .errors import (
    AgentUnavailable,
    HoldfastError,
    InvalidArgument,
    NotFound,
    ProtocolError,
    Unavailable,
)

# Seconds between two attempts to join an agent that ends each stream of events.
_PAUSE = 0.05
# Assumed until the agent has said how long it waits at most.
_WAIT_SECONDS = 30.0


def closed() -> InvalidArgument:
    return InvalidArgument("the run is closed")


class Writer:
    """Joins the run, again after the agent was gone, and follows the saves. Safe for threads."""

    def __init__(
        self,
        link: Link,
        join: Mapping[str, Any],
        is_visible: bool,
        say: Callable[[str], None],
    ) -> None:
        """``is_visible``: the agent finds this process in its ``/proc``."""
        life = secrets.token_hex(16)
        self._link = link
        self._join = {**join, "life": life, "pid": os.getpid()}
        process = process_identity()
        if process is not None:
            self._join["process"] = process
        self.pool = SegmentPool(f"holdfast-{life}" if is_visible else None, say)
        self._lock = threading.RLock()
        self._keeper: Optional[threading.Thread] = None
        self.events: Optional[Events] = None
        self.has_left = False
        self._news = News()
        #: ``latest`` of the news when the states of the saves were read.
        self._read_news = self._news.latest
        #: Whether the agent has all saves in progress.
        self._knows_all = False
        self._join_count = 0
        self._saves: list[Save] = []
        #: The highest version that was saved.
        self._newest = -1
        self._failures: list[HoldfastError] = []
        self.id = ""
        #: The answer of the agent when this writer joined.
        self.joined: dict[str, Any] = {}
        self.stage = Stage("", "disk")

    @property
    def run_id(self) -> Optional[str]:
        run_id: Optional[str] = self._join.get("runId")
        return run_id

    @property
    def has_unfinished(self) -> bool:
        return bool(self._saves)

    @property
    def wait_seconds_max(self) -> float:
        """How long the agent waits at most before it answers."""
        limits = self.joined.get("limits")
        known = limits.get("waitMsMax") if isinstance(limits, dict) else None
        return known / 1000 if isinstance(known, (int, float)) and known > 0 else _WAIT_SECONDS

    def ensure(self, deadline: float) -> int:
        """Joins unless this writer has joined and the agent still knows it.

        Repeats the saves that the agent may have forgotten. Returns how often this writer has
        joined. ``Fenced``: another life of this writer, or a newer attempt, has taken over.
        ``AgentUnavailable``: at ``deadline``.
        """
        with self._locked(deadline):
            pause = 0.0
            while not (self.is_connected() and self._knows_all):
                if self.has_left:
                    raise closed()
                if not self.is_connected():
                    time.sleep(pause)
                    pause = _PAUSE
                    self._leave_events()
                    self._rejoin(deadline)
                if self.events is not None:
                    self._bring_saves(deadline)
            return self._join_count

    def post(self, save: Save, deadline: float) -> None:
        """Begins a save. Its sources are open when this returns."""
        self.ensure(deadline)
        # From here on, the save is repeated when this writer joins again.
        with self._lock:
            save.is_only = save.version > self._newest
            self._newest = max(self._newest, save.version)
            self._saves.append(save)
            if self._keeper is None or not self._keeper.is_alive():
                # At the end of the interpreter no thread starts. The save goes on without.
                with suppress(RuntimeError):
                    self._keeper = keep(self)
        try:
            self.update(save, self._asked("POST", "saves", lambda: save.body, deadline=deadline))
        except BaseException:
            with self._lock, suppress(ValueError):
                self._saves.remove(save)
            raise

    def seal(self, save: Save, seals: Mapping[str, Any], deadline: float) -> None:
        """Lets the upload of an unsealed save begin."""
        self.ensure(deadline)
        save.seals = seals
        try:
            answer = self._asked(
                "POST", f"saves/{save.id}/seal", lambda: save.seals, deadline=deadline
            )
            self.update(save, answer)
        except HoldfastError:
            save.seals = None
            raise

    def refresh(self, deadline: float) -> None:
        """Reads the states of all saves, if there is news and a save is in progress."""
        if not self._saves:
            return
        self.ensure(deadline)
        news = self._news.latest
        if news is self._read_news:
            return
        try:
            answer = self._link.call("GET", f"/v1/writers/{self.id}", deadline=deadline)
        except NotFound:
            # The agent has ended since. The next call joins its successor.
            return
        told = {str(one.get("saveId")): one for one in answer.get("saves", [])}
        for save in self._saves[:]:
            if save.id in told:
                self.update(save, told[save.id])
        # Last: a signal handler may end this call, or ask itself meanwhile.
        self._read_news = news

    def ask(self, save: Save, wait: Optional[str], wait_ms: int, deadline: float) -> None:
        """Asks for the state of one save; the agent waits for ``wait`` at most ``wait_ms``."""
        query = {"wait": wait, "timeoutMs": wait_ms} if wait else None
        self.ensure(deadline)
        if save.is_final:
            return
        try:
            fields = self._asked("GET", f"saves/{save.id}", query=query, deadline=deadline)
        except NotFound:
            # The agent may still read the segments, so they are not reused.
            self.update(save, forgotten(save), reusable=False)
            return
        self.update(save, fields)

    def cancel(self, save: Save, deadline: float) -> None:
        """Stops a save unless its commit is decided."""
        self.ensure(deadline)
        save.is_told = True
        with suppress(NotFound):
            self.update(save, self._asked("DELETE", f"saves/{save.id}", deadline=deadline))

    def update(self, save: Save, fields: Mapping[str, Any], reusable: bool = True) -> None:
        """Stores the agent's description of a save. ``reusable``: its segments may be reused."""
        if not isinstance(fields.get("state"), str):
            raise ProtocolError("the agent's answer is not a save: it has no state")
        with self._lock:
            was_final = save.is_final
            if not was_final:
                save.fields = dict(fields)
            if not save.is_final or (was_final and save not in self._saves):
                return
            error = save.error()
            # The save is removed last: a signal handler may end this call, and then it is repeated.
            if error is not None and not save.is_told and save.failure is None:
                self._failures.append(error)
                save.failure = error
            if save in self._saves:
                self._saves.remove(save)
        for segment in save.segments:
            self.pool.give_back(segment, reusable)

    def tell(self, save: Save) -> Optional[HoldfastError]:
        """Returns the failure of a save, and notes that the caller has learned of it."""
        with self._lock:
            save.is_told = True
            if save.failure in self._failures:
                self._failures.remove(save.failure)
        return save.error()

    def next_failure(self) -> Optional[HoldfastError]:
        """A failure that no call has raised yet."""
        with self._lock:
            return self._failures[0] if self._failures else None

    def note_raised(self, failure: HoldfastError) -> None:
        with self._lock, suppress(ValueError):
            self._failures.remove(failure)

    def wait_for_news(self, seconds: float) -> None:
        """Waits until the agent sends news of any save."""
        events = self.events
        if events is not None:
            events.wait(seconds)

    def leave(self, deadline: float) -> None:
        """Ends this writer. Sealed saves continue in the agent."""
        self.has_left = True
        if self.is_connected():
            with suppress(HoldfastError):
                self._link.call("DELETE", f"/v1/writers/{self.id}", deadline=deadline)
        self._leave_events()
        self.pool.close()

    def forget(self) -> None:
        """In the child of a fork: only the parent keeps its stream of events."""
        self.has_left = True
        self._lock = threading.RLock()
        self._leave_events(is_shared=True)
        self.pool.forget()

    @contextmanager
    def _locked(self, deadline: float) -> Iterator[None]:
        if not self._lock.acquire(timeout=max(0.001, deadline - time.monotonic())):
            raise AgentUnavailable("another thread of this process still waits for the agent")
        try:
            yield
        finally:
            self._lock.release()

    def is_settled(self) -> bool:
        """Whether it is connected, and the agent has all saves in progress."""
        with self._lock:
            return self.is_connected() and self._knows_all

    def is_connected(self) -> bool:
        """Whether the agent still holds this writer's stream of events."""
        with self._lock:
            return self.events is not None and self.events.look()

    def _rejoin(self, deadline: float) -> None:
        # Counted before the agent knows it: see `_asked`.
        self._join_count += 1
        self._knows_all = False
        answer = self._link.call("POST", "/v1/writers", self._join, deadline=deadline)
        try:
            self.id = str(answer["writerId"])
            stage = answer["stage"]
            self.stage = Stage(
                str(stage["directory"]), str(stage["kind"]), str(stage.get("reason", ""))
            )
        except (KeyError, TypeError) as error:
            raise ProtocolError(f"the agent's answer is not a writer: {error!r}") from None
        self.joined = answer
        run_id = answer.get("runId")
        if isinstance(run_id, str) and run_id:
            # From now on a run that is begun again at the URI is refused.
            self._join.setdefault("runId", run_id)
        try:
            self.events = open_events(self._link, self.id, deadline, self._news)
        except NotFound:
            # The agent that this writer joined has ended meanwhile.
            pass

    def _bring_saves(self, deadline: float) -> None:
        """Tells the agent of the saves in progress. Called again if it was interrupted."""
        try:
            for save in self._saves[:]:
                self._send_again(save, deadline)
        except (NotFound, AgentChanged):
            self._leave_events()
            return
        self._knows_all = True
        self._news.note()

    def _leave_events(self, is_shared: bool = False) -> None:
        events, self.events = self.events, None
        if events is not None:
            events.close(is_shared)

    def _asked(
        self,
        method: str,
        path: str,
        body: Optional[Callable[[], Optional[Mapping[str, Any]]]] = None,
        *,
        query: Optional[Mapping[str, Any]] = None,
        deadline: float,
    ) -> dict[str, Any]:
        """Asks the agent that this writer has joined, or its successor, for one of the saves.

        A successor gets the earlier saves first: it begins saves in the order of their arrival.
        ``body`` is called for each agent: the next one may have another staging directory.
        """
        while True:
            joins = self.ensure(deadline)

            def is_same(joins: int = joins) -> bool:
                with self._locked(deadline):
                    return joins == self._join_count and self.is_connected() and self._knows_all

            target = f"/v1/writers/{self.id}/{path}"
            try:
                content = None if body is None else body()
                return self._link.call(
                    method, target, content, query=query, deadline=deadline, is_same=is_same
                )
            except AgentChanged:
                continue
            except NotFound:
                # A new agent knows the saves only when this writer, in any thread, has joined it.
                if not self._knows_me(deadline):
                    self._leave_former(joins)
                elif joins == self._join_count:
                    raise

    def _leave_former(self, joins: int) -> None:
        """Another agent has the socket now, while the one that this writer has joined still runs."""
        with self._lock:
            if joins == self._join_count:
                self._leave_events()

    def _knows_me(self, deadline: float) -> bool:
        try:
            self._link.call("GET", f"/v1/writers/{self.id}", deadline=deadline)
        except NotFound:
            return False
        return True

    def _send_seal(self, save: Save, deadline: float) -> None:
        path = f"/v1/writers/{self.id}/saves/{save.id}/seal"
        self.update(save, self._call_joined("POST", path, save.seals, deadline=deadline))

    def _call_joined(
        self, method: str, path: str, body: Optional[Mapping[str, Any]] = None, *, deadline: float
    ) -> dict[str, Any]:
        """Sends a request while saves are brought. ``AgentChanged``: the agent has ended meanwhile.

        Its successor may know this writer from records, and does not know the saves before this one.
        """
        return self._link.call(method, path, body, deadline=deadline, is_same=self.is_connected)

    def _send_again(self, save: Save, deadline: float) -> None:
        """Repeats a save to an agent that may not know it."""
        path = f"/v1/writers/{self.id}/saves"
        try:
            fields = self._known(save, deadline)
            if fields is None:
                save.bring_to(self.stage)
                fields = self._call_joined("POST", path, save.repeated(), deadline=deadline)
            self.update(save, fields)
            if save.seals is not None and save.state == "open":
                self._send_seal(save, deadline)
        except (Unavailable, ProtocolError):
            raise
        except HoldfastError as error:
            if isinstance(error, NotFound) and not self._knows_me(deadline):
                raise
            # The agent refuses it now, for example because a source is gone.
            self.update(save, refused(save, error))

    def _known(self, save: Save, deadline: float) -> Optional[dict[str, Any]]:
        """The agent's view of a save. A restarted agent knows it only if it was sealed."""
        with suppress(NotFound):
            path = f"/v1/writers/{self.id}/saves/{save.id}"
            return self._call_joined("GET", path, deadline=deadline)
        return None
