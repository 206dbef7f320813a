"""A trainer beside a stage of 64 MiB that fills up, and runs on a full disk.

Arguments: the socket, a file that fills the stage, and the directory of a run on a small disk. Runs
in a mount namespace of its own. Prints what each step came to.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Callable

import holdfast

SOCKET, FILLER, SMALL_DISK = sys.argv[1:]
MIB = 1 << 20


def connect(uri: str = f"file://{os.getcwd()}/run") -> holdfast.Run:
    return holdfast.connect(uri, agent=SOCKET, timeout=60)


def without_memfd(run: holdfast.Run) -> holdfast.Run:
    """As in a container whose processes the agent does not see."""
    writer = run._saver.writer()
    assert writer is not None
    writer.pool._memfd_name = None
    return run


def step(name: str, call: Callable[[], Any]) -> None:
    try:
        result = call()
    except holdfast.HoldfastError as error:
        needed = f" {error.bytes_needed}" if isinstance(error, holdfast.NoStagingSpace) else ""
        result = f"{error.code}{needed}"
    print(f"{name}: {result}", flush=True)


def saved(run: holdfast.Run, version: int, size: int) -> str:
    data = bytes([version % 256]) * size
    run.save(version, buffers={"a": data}).wait(timeout=60)
    return "committed" if run.read("a", version) == data else "wrong bytes"


def fill() -> None:
    """To the last byte."""
    fd = os.open(FILLER, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for size in (MIB, 4096, 1):
        try:
            while True:
                os.write(fd, b"0" * size)
        except OSError:
            pass
    os.close(fd)


first = without_memfd(connect())
step("fits", lambda: saved(first, 1, MIB))
step("is larger than the stage", lambda: saved(first, 2, 80 * MIB))
step("fits again", lambda: saved(first, 3, 40 * MIB))
fill()
second = connect()
step("beside a full stage, in memory without a name", lambda: saved(second, 5, MIB))
without_memfd(second)
step("beside a full stage", lambda: saved(second, 6, 40 * MIB))
with open("file", "wb") as file:
    file.write(b"7")
step("a file, whose seal has no room", lambda: second.save(7, files={"f": "file"}).state)
os.unlink(FILLER)
step("a file, when there is room", lambda: second.save(8, files={"f": "file"}).wait().state)
second.close()
first.close()

third = connect(f"file://{SMALL_DISK}/run")
step("on a small disk", lambda: saved(third, 1, 2 * MIB))
step("larger than the disk", lambda: saved(third, 2, 20 * MIB))
step("on the small disk again", lambda: saved(third, 3, 2 * MIB))
third.close()
