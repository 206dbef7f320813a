"""Where the agent's socket is, and whether it can be trusted."""

from __future__ import annotations

import os
import socket
import stat
import struct
from typing import NamedTuple, Optional

from .errors import InvalidArgument, InvalidConfig

SOCKET_NAME = "agent.sock"
# A longer name does not fit into `sockaddr_un`, with its zero at the end.
_PATH_BYTES_MAX = 107


class AgentPlace(NamedTuple):
    """A socket, and the directory that holds it."""

    socket: str
    directory: str
    #: The user's own runtime directory. Only its user may enter it.
    is_runtime: bool


def find_place(agent: Optional[str]) -> AgentPlace:
    """The socket: ``agent``, else ``HOLDFAST_AGENT``, else the one in the runtime directory.

    ``InvalidArgument``: the path cannot be one of a socket.
    """
    given = agent if agent is not None else os.environ.get("HOLDFAST_AGENT") or None
    if given is None:
        directory = runtime_directory()
        return AgentPlace(os.path.join(directory, SOCKET_NAME), directory, True)
    path = os.path.abspath(os.fspath(given))
    if "\0" in path or not given:
        raise InvalidArgument("agent: expected the path of a socket")
    size = len(os.fsencode(path))
    if size > _PATH_BYTES_MAX:
        raise InvalidArgument(
            f"agent: {path} has {size} bytes, and the path of a socket at most {_PATH_BYTES_MAX}"
        )
    directory = os.path.dirname(path)
    is_runtime = path == os.path.join(runtime_directory(), SOCKET_NAME)
    return AgentPlace(path, directory, is_runtime)


def runtime_directory() -> str:
    """``$XDG_RUNTIME_DIR/holdfast``, else ``/tmp/holdfast-UID``."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and os.path.isabs(base):
        return os.path.join(base, "holdfast")
    return f"/tmp/holdfast-{os.geteuid()}"


def make_directory(path: str) -> None:
    """Makes a directory that only this user may enter, and checks one that is there."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise InvalidConfig(f"{path} cannot be made: {error.strerror}") from None
    check_own_directory(path)


def check_own_directory(path: str) -> None:
    """``InvalidConfig``: it is a link, or other users may enter it. ``FileNotFoundError``."""
    facts = os.lstat(path)
    if not stat.S_ISDIR(facts.st_mode):
        raise InvalidConfig(f"{path} is not a directory; remove it")
    if facts.st_uid != os.geteuid():
        raise InvalidConfig(
            f"{path} belongs to user {facts.st_uid}, not to user {os.geteuid()}; "
            "set HOLDFAST_AGENT or XDG_RUNTIME_DIR"
        )
    if facts.st_mode & 0o077:
        raise InvalidConfig(
            f"{path} has the mode {stat.S_IMODE(facts.st_mode):04o}; run: chmod 700 {path}"
        )


def _check_shared_directory(path: str) -> bool:
    """A directory that the caller named. Other users must not replace the socket in it.

    Returns whether other users may enter it.
    """
    facts = os.stat(path)
    if facts.st_uid not in trusted_users():
        raise InvalidConfig(f"{path} belongs to user {facts.st_uid}, who could replace the socket")
    if facts.st_mode & 0o022 and not facts.st_mode & stat.S_ISVTX:
        raise InvalidConfig(
            f"other users may write {path} (mode {stat.S_IMODE(facts.st_mode):04o}) and could "
            f"replace the socket; run: chmod go-w {path}"
        )
    return facts.st_mode & 0o077 != 0


def trusted_users() -> set[int]:
    """Users whose agent this process talks to: its own, root, and ``HOLDFAST_AGENT_UID``."""
    trusted = {os.geteuid(), 0}
    given = os.environ.get("HOLDFAST_AGENT_UID")
    if given:
        if not given.isdecimal():
            raise InvalidConfig(f"HOLDFAST_AGENT_UID: expected a number, got {given!r}")
        trusted.add(int(given))
    return trusted


def _check_socket(path: str, is_reachable: bool) -> None:
    """``is_reachable``: other users may enter the directory, so the mode of the socket counts.

    An agent sets the mode a moment after it has made the socket.
    """
    facts = os.lstat(path)
    if not stat.S_ISSOCK(facts.st_mode):
        raise InvalidConfig(f"{path} is not a socket")
    if facts.st_uid not in trusted_users():
        raise InvalidConfig(f"the socket {path} belongs to user {facts.st_uid}")
    if is_reachable and facts.st_mode & 0o007:
        raise InvalidConfig(
            f"any user may use the socket {path} (mode {stat.S_IMODE(facts.st_mode):04o}); "
            f"run: chmod o= {path}"
        )


def open_socket(place: AgentPlace, timeout: float) -> tuple[socket.socket, int]:
    """A connection to an agent that this user trusts, and the agent's process id.

    The id is 0 if the agent is in another namespace of processes. Not one byte is sent before the
    checks. ``timeout`` in seconds. ``OSError``: there is no agent. ``InvalidConfig``: other users
    could be behind the socket.
    """
    is_reachable = False
    if place.is_runtime:
        check_own_directory(place.directory)
    else:
        is_reachable = _check_shared_directory(place.directory)
    _check_socket(place.socket, is_reachable)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.settimeout(max(timeout, 0.001))
        connection.connect(place.socket)
        pid, uid, _ = struct.unpack(
            "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        )
        if uid not in trusted_users():
            raise InvalidConfig(f"user {uid} serves the socket {place.socket}")
    except BaseException:
        connection.close()
        raise
    return connection, int(pid)
