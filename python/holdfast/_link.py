"""All connections of one process to one agent."""

from __future__ import annotations

import http.client
import logging
import threading
import time
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Mapping, Optional
from urllib.parse import urlencode

from ._http import Connection, encode, read_json
from ._place import AgentPlace
from .errors import (
    AgentUnavailable,
    HoldfastError,
    InvalidArgument,
    ProtocolError,
    Unavailable,
)

log = logging.getLogger("holdfast")

#: How long after its own timeout a call may end if the agent does not answer.
GRACE_SECONDS = 2.0
_IDLE_MAX = 4
_PAUSE_FIRST = 0.01
_PAUSE_MAX = 0.5

Starter = Callable[[float], None]


class AgentChanged(Exception):
    """The request was not sent: the connection leads to an agent that the caller did not mean."""


class Link:
    """Finds or makes a connection for each request. Safe for threads.

    Each request may be sent twice: the agent recognizes repeated ones by their ids.
    """

    def __init__(self, place: AgentPlace, token: Optional[str], starter: Optional[Starter]) -> None:
        self.place = place
        self._token = token
        self._starter = starter
        self._lock = threading.RLock()
        self._idle: list[Connection] = []
        #: See ``Connection.peer_pid``; of the last connection.
        self.peer_pid = 0

    def call(
        self,
        method: str,
        path: str,
        body: Optional[Mapping[str, Any]] = None,
        *,
        query: Optional[Mapping[str, Any]] = None,
        deadline: float,
        is_same: Optional[Callable[[], bool]] = None,
    ) -> dict[str, Any]:
        """Sends a request, on another connection if the agent was gone, or stops.

        ``is_same``: asked after each connection was made. If it returns false, the request is not
        sent there: ``AgentChanged``. ``deadline``: of ``time.monotonic()``. ``AgentUnavailable``: there was no answer until then.
        ``Unavailable``: the agent stops, and had no successor until then. Other errors are the
        agent's.
        """
        target = _target(path, query)
        data = _encoded(body)
        stopping: Optional[HoldfastError] = None
        try:
            for connection in self._connections(deadline):
                try:
                    if is_same is not None and not is_same():
                        raise AgentChanged
                    answer = connection.ask_json(method, target, data, deadline)
                except AgentChanged:
                    self._keep(connection)
                    raise
                except (OSError, http.client.HTTPException) as error:
                    self._drop(connection, error)
                except ProtocolError:
                    connection.close()
                    raise
                except HoldfastError as error:
                    if not _is_stopping(error):
                        # The agent has answered, and can answer again.
                        self._keep(connection)
                        raise
                    stopping = error
                    connection.close()
                except BaseException:
                    connection.close()
                    raise
                else:
                    self._keep(connection)
                    return answer
        except AgentUnavailable:
            if stopping is not None:
                raise stopping from None
            raise
        raise AssertionError("unreachable")

    @contextmanager
    def get(
        self, path: str, query: Mapping[str, Any], deadline: float
    ) -> Iterator[http.client.HTTPResponse]:
        """The head of an answer whose body the caller reads.

        ``ConnectionError``: the agent ended a new connection without an answer.
        """
        connection, response = self._asked(path, query, deadline)
        try:
            yield response
        finally:
            # Only a body that was read to its end leaves a connection for the next request.
            if response.isclosed() and not response.will_close:
                connection.is_reused = True
                self._keep(connection)
            else:
                response.close()
                connection.close()

    def _asked(
        self, path: str, query: Mapping[str, Any], deadline: float
    ) -> tuple[Connection, http.client.HTTPResponse]:
        for connection in self._connections(deadline):
            try:
                response = connection.ask("GET", _target(path, query), None, deadline)
                if response.status < 400:
                    return connection, response
                read_json(response, f"GET {path}")
                raise ProtocolError(f"GET {path}: status {response.status}")
            except (OSError, http.client.HTTPException) as error:
                self._drop(connection, error)
                if time.monotonic() >= deadline:
                    raise self._silent() from None
                if not connection.is_reused:
                    raise ConnectionError("the agent ended the connection") from None
            except BaseException as error:
                connection.close()
                if not _is_stopping(error) or time.monotonic() >= deadline:
                    raise
        raise AssertionError("unreachable")

    def open(self, deadline: float) -> Connection:
        """A new connection for the caller alone."""
        for connection in self._connections(deadline, is_new=True):
            return connection
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Closes the connections that no call uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def forget(self) -> None:
        """In the child of a fork: its copies of the parent's sockets are closed."""
        self._lock = threading.RLock()
        self.close()

    def _connections(self, deadline: float, is_new: bool = False) -> Iterator[Connection]:
        """Connections to try one after the other, until ``deadline``."""
        pause = _PAUSE_FIRST
        is_first = True
        while True:
            connection = None if is_new else self._take_idle()
            if connection is None:
                connection, reason = self._connect(deadline)
                if connection is None:
                    if time.monotonic() >= deadline:
                        raise AgentUnavailable(
                            f"no agent answers at {self.place.socket}: {reason}; start one with: "
                            f"holdfast agent --socket {self.place.socket}",
                            {"socket": self.place.socket},
                        )
                    if is_first:
                        log.warning("no agent answers at %s: %s", self.place.socket, reason)
                        is_first = False
            if connection is not None:
                was_reused = connection.is_reused
                yield connection
                if time.monotonic() >= deadline:
                    raise self._silent()
                if was_reused:
                    continue
            time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
            pause = min(pause * 2, _PAUSE_MAX)

    def _silent(self) -> AgentUnavailable:
        return AgentUnavailable(
            f"the agent at {self.place.socket} did not answer in time",
            {"socket": self.place.socket},
        )

    def _take_idle(self) -> Optional[Connection]:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if not connection.is_stale():
                return connection
            connection.close()

    def _connect(self, deadline: float) -> tuple[Optional[Connection], str]:
        try:
            return self._connected(deadline), ""
        except OSError as error:
            reason = error.strerror or str(error)
        if self._starter is not None:
            self._starter(deadline)
            try:
                return self._connected(deadline), ""
            except OSError as error:
                reason = error.strerror or str(error)
        return None, reason

    def _connected(self, deadline: float) -> Connection:
        connection = Connection(self.place, self._token)
        connection.open(deadline)
        self.peer_pid = connection.peer_pid
        return connection

    def _drop(self, connection: Connection, error: Exception) -> None:
        connection.close()
        if isinstance(error, http.client.HTTPException) and not isinstance(
            error, (http.client.RemoteDisconnected, http.client.IncompleteRead)
        ):
            raise ProtocolError(
                f"{self.place.socket} does not speak HTTP as an agent does: {error!r}"
            ) from None

    def _keep(self, connection: Connection) -> None:
        with self._lock:
            if connection.sock is not None and len(self._idle) < _IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()


def _is_stopping(error: BaseException) -> bool:
    """Whether the agent is stopping. Its successor at the same socket can carry out the request."""
    return isinstance(error, Unavailable) and error.details.get("isStopping") is True


def _target(path: str, query: Optional[Mapping[str, Any]]) -> str:
    given = {name: value for name, value in (query or {}).items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _encoded(body: Optional[Mapping[str, Any]]) -> Optional[bytes]:
    try:
        return encode(body)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"JSON does not have such a value: {error}") from None
