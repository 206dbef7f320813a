"""The stream of a writer's events, whose closing tells each side that the other has gone."""

from __future__ import annotations

import http.client
import select
import socket
from contextlib import suppress
from typing import Optional

from ._http import Connection
from ._link import Link
from .errors import NotFound, ProtocolError

_PIECE_BYTES = 65536


class News:
    """Of the saves of a writer. Its streams only say that there is some."""

    def __init__(self) -> None:
        #: Another object after each news.
        self.latest = object()

    def note(self) -> None:
        self.latest = object()


class Events:
    """An open stream. Its lines are not parsed: any line counts as news."""

    def __init__(
        self,
        connection: Connection,
        sock: socket.socket,
        response: http.client.HTTPResponse,
        news: News,
    ) -> None:
        self._connection = connection
        self._sock = sock
        self._response = response
        self._news = news

    def look(self) -> bool:
        """Notes what is new. Returns whether the stream goes on."""
        while True:
            try:
                if self._sock.recv(1, socket.MSG_PEEK) == b"":
                    return False
                # Noted before it is taken: a signal handler may end this call at any moment.
                self._news.note()
                self._sock.recv(_PIECE_BYTES)
            except (BlockingIOError, InterruptedError):
                return True
            except OSError:
                return False

    def wait(self, seconds: float) -> None:
        """Waits until there is news, or the stream has ended."""
        with suppress(OSError, ValueError):
            poll = select.poll()
            poll.register(self._sock, select.POLLIN)
            poll.poll(seconds * 1000)

    def wait_for_end(self, seconds: float) -> None:
        """Waits until the agent ends the stream. News does not end the wait."""
        with suppress(OSError, ValueError):
            poll = select.poll()
            poll.register(self._sock, select.POLLRDHUP)
            poll.poll(seconds * 1000)

    def close(self, is_shared: bool = False) -> None:
        """Ends the stream. ``is_shared``: in a fork's child; the stream of its parent continues."""
        with suppress(OSError, ValueError):
            if not is_shared:
                # ``close`` alone would not end the connection while another thread reads from it.
                self._sock.shutdown(socket.SHUT_RDWR)
        with suppress(OSError, ValueError):
            self._response.close()
        self._connection.close()
        self._sock.close()


def open_events(
    link: Link, writer_id: str, deadline: float, news: News
) -> Optional[Events]:
    """Opens the stream. ``None``: the agent has gone. ``NotFound``: it does not know the writer."""
    connection = link.open(deadline)
    sock = connection.sock
    assert sock is not None
    path = f"/v1/writers/{writer_id}/events"
    try:
        response = connection.ask("GET", path, None, deadline, is_last=True)
        if response.status == 404:
            raise NotFound(f"the agent does not know the writer {writer_id}")
        if response.status != 200:
            raise ProtocolError(f"GET {path}: status {response.status}")
    except OSError:
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    sock.setblocking(False)
    return Events(connection, sock, response, news)
