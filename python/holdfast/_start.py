"""Starts the agent of this node."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import shlex
import shutil
import time
from typing import Iterator, Optional

from ._command import bundled_command
from ._place import AgentPlace, check_own_directory, make_directory, open_socket
from .errors import AgentUnavailable, InvalidConfig

log = logging.getLogger("holdfast")

LOG_NAME = "agent.log"
_IDLE_EXIT = "10m"
_PAUSE = 0.01
_LOG_TAIL_BYTES = 2000

# Ids of agents that this process has started. A child that has ended stays a zombie until its
# parent asks for its status.
_started: set[int] = set()


def agent_command() -> list[str]:
    """The words before ``agent``: ``HOLDFAST_COMMAND``, the bundled command, or ``holdfast``.

    ``InvalidConfig``: there is no such command, or no Node for the bundled one.
    """
    given = os.environ.get("HOLDFAST_COMMAND")
    if given:
        try:
            words = shlex.split(given)
        except ValueError as error:
            raise InvalidConfig(f"HOLDFAST_COMMAND: {error}") from None
        if not words or shutil.which(words[0]) is None:
            raise InvalidConfig(f"HOLDFAST_COMMAND: {given!r} is not a program")
        return words
    bundled = bundled_command()
    if bundled is not None:
        return bundled
    found = shutil.which("holdfast")
    if found is None:
        raise InvalidConfig(
            "the command holdfast was not found; install it, or set HOLDFAST_COMMAND"
        )
    return [found]


def default_stage(place: AgentPlace) -> str:
    """A directory for segments: in memory if this machine has one."""
    shared = "/dev/shm"
    if os.access(shared, os.W_OK | os.X_OK):
        # One for each socket: two agents do not share a directory.
        name = hashlib.sha256(place.socket.encode()).hexdigest()[:8]
        return f"{shared}/holdfast-{os.geteuid()}-{name}"
    return os.path.join(place.directory, "stage")


def start_agent(place: AgentPlace, stage: Optional[str], deadline: float) -> None:
    """Starts the agent unless it runs. Of several starters, one starts it and all wait.

    The agent has a session of its own, so signals for the trainer's process group do not reach
    it. ``deadline``: of ``time.monotonic()``. ``AgentUnavailable``: it is not ready until then, or
    has ended. ``InvalidConfig``: there is no command, or the directory is not safe.
    """
    command = agent_command()
    if not os.path.isdir(place.directory):
        with contextlib.suppress(FileNotFoundError):
            make_directory(place.directory)
    check_own_directory(place.directory)
    if stage is None:
        stage = default_stage(place)
        make_directory(stage)
    with _locked(place.directory, deadline):
        if _is_running(place, deadline):
            return
        _spawn(command, place, stage, deadline)


def _is_running(place: AgentPlace, deadline: float) -> bool:
    try:
        connection, _ = open_socket(place, deadline - time.monotonic())
    except OSError:
        return False
    connection.close()
    return True


@contextlib.contextmanager
def _locked(directory: str, deadline: float) -> Iterator[None]:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise AgentUnavailable(
                        f"another process has been starting an agent in {directory} for too long"
                    ) from None
                time.sleep(_PAUSE)
        yield
    finally:
        os.close(fd)


def _spawn(command: list[str], place: AgentPlace, stage: str, deadline: float) -> None:
    for pid in list(_started):
        _exit_status(pid)
    words = [*command, "agent", "--socket", place.socket, "--stage", stage]
    config = os.environ.get("HOLDFAST_AGENT_CONFIG")
    if config:
        words += ["--config", os.path.abspath(config)]
    words += ["--idle-exit", _IDLE_EXIT]
    log_path = os.path.join(place.directory, LOG_NAME)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    log_start = _size_of(log_path)
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log_path, flags, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    try:
        program = shutil.which(words[0]) or words[0]
        pid = os.posix_spawn(program, words, os.environ, file_actions=files, setsid=True)
    except OSError as error:
        raise InvalidConfig(f"{words[0]} cannot be started: {error.strerror}") from None
    _started.add(pid)
    log.info("started an agent at %s, process %d", place.socket, pid)
    _wait_until_ready(pid, place, (log_path, log_start), deadline)


def _exit_status(pid: int) -> Optional[int]:
    """``None``: the process runs."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        # Other code has asked for the status already, or this process is a child of the starter.
        _started.discard(pid)
        return 0
    if ended == 0:
        return None
    _started.discard(pid)
    return os.waitstatus_to_exitcode(status)


def _wait_until_ready(
    pid: int, place: AgentPlace, log_from: tuple[str, int], deadline: float
) -> None:
    """``log_from``: the log, and where this agent begins to write."""
    while not _is_running(place, deadline):
        status = _exit_status(pid)
        if status is not None:
            raise AgentUnavailable(
                f"the agent was started and has ended before it was ready: {_tail(*log_from)}",
                {"log": log_from[0], "exitStatus": status},
            )
        if time.monotonic() >= deadline:
            # It may become ready later. Then the next starter finds it.
            raise AgentUnavailable("the agent was started and is not ready yet", {"pid": pid})
        time.sleep(_PAUSE)


def _size_of(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _tail(path: str, start: int) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(start, os.path.getsize(path) - _LOG_TAIL_BYTES))
            return file.read().decode(errors="replace").strip() or "it said nothing"
    except OSError as error:
        return f"{path}: {error.strerror}"
