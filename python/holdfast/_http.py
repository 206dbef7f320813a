"""One HTTP/1.1 connection to the agent."""

from __future__ import annotations

import http.client
import json
import select
import socket
import time
from typing import Any, Mapping, Optional

from ._place import AgentPlace, open_socket
from .errors import InvalidArgument, ProtocolError, Unavailable, error_from

# Limit for an answer. The longest is a list of all versions of a run.
_ANSWER_BYTES_MAX = 256 << 20
# Limit of the agent for a request.
_BODY_BYTES_MAX = 16 << 20


class Connection(http.client.HTTPConnection):
    """Sends one request at a time."""

    sock: Optional[socket.socket]

    def __init__(self, place: AgentPlace, token: Optional[str]) -> None:
        super().__init__("localhost")
        self._place = place
        self._token = token
        #: The agent's process id, as this process sees it; 0 in another namespace.
        self.peer_pid = 0
        #: Whether it has answered a request. The agent may have closed it since.
        self.is_reused = False

    def open(self, deadline: float) -> None:
        """Connects until ``time.monotonic()`` is ``deadline``."""
        self.sock, self.peer_pid = open_socket(self._place, deadline - time.monotonic())

    def connect(self) -> None:
        raise ConnectionError("the connection is closed")

    def is_stale(self) -> bool:
        """Whether the agent has closed the connection, or has sent bytes that were not asked for."""
        if self.sock is None:
            return True
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(0))

    def ask(
        self,
        method: str,
        target: str,
        body: Optional[bytes],
        deadline: float,
        is_last: bool = False,
    ) -> http.client.HTTPResponse:
        """Sends a request and reads the head of its answer. ``OSError``: the agent is gone.

        ``is_last``: the connection ends with the answer.
        """
        if self.sock is None:
            raise ConnectionError("the connection is closed")
        seconds = max(deadline - time.monotonic(), 0.001)
        self.sock.settimeout(seconds)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        # The agent reports a store that does not answer before this call gives up.
        headers["Holdfast-Timeout-Ms"] = str(int(seconds * 1000))
        if is_last:
            headers["Connection"] = "close"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        self.request(method, target, body=body, headers=headers)
        return self.getresponse()

    def ask_json(
        self, method: str, target: str, body: Optional[bytes], deadline: float
    ) -> dict[str, Any]:
        """The fields of the answer. ``HoldfastError``: the answer is an error."""
        response = self.ask(method, target, body, deadline)
        try:
            return read_json(response, f"{method} {target}")
        finally:
            self.is_reused = True


def read_json(response: http.client.HTTPResponse, request: str) -> dict[str, Any]:
    """Reads the whole answer. ``HoldfastError``: it is an error, or not an agent's."""
    announced = response.length
    body = b""
    if announced is None:
        body = response.read(_ANSWER_BYTES_MAX + 1)
    elif announced <= _ANSWER_BYTES_MAX:
        # Reads without a limit, because Python 3.9 would clear as much memory as the limit.
        body = response.read()
    if max(announced or 0, len(body)) > _ANSWER_BYTES_MAX:
        raise ProtocolError(f"{request}: the answer is longer than {_ANSWER_BYTES_MAX} bytes")
    try:
        fields = json.loads(body)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise ProtocolError(f"{request}: status {response.status}, and the answer is not JSON")
    if response.status >= 400:
        if not isinstance(fields.get("code"), str):
            if response.status == 503:
                raise Unavailable("the agent is stopping", {"isStopping": True})
            raise ProtocolError(f"{request}: status {response.status} without a code")
        raise error_from(fields)
    return fields


def encode(body: Optional[Mapping[str, Any]]) -> Optional[bytes]:
    """A request body. ``TypeError`` or ``ValueError``: JSON does not have such a value."""
    if body is None:
        return None
    encoded = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
    if len(encoded) > _BODY_BYTES_MAX:
        raise InvalidArgument(
            f"the request has {len(encoded)} bytes, and the agent takes {_BODY_BYTES_MAX}: "
            "save fewer files or less metadata at once"
        )
    return encoded

