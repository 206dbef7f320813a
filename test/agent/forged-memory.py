"""A trainer that names a descriptor to the agent as memory of its own.

Arguments: kind, name of the memory, and the path of a file that the trainer may not read. Prints
the number of the descriptor, and stays until its standard input ends.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
from typing import Callable

KIND, NAME, FOREIGN = sys.argv[1:4]
USER = 65_534
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
PR_SET_DUMPABLE = 4
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
libc = ctypes.CDLL(None, use_errno=True)


def check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def memory(content: bytes = b"memory of the trainer") -> int:
    number = os.memfd_create(NAME)
    os.write(number, content)
    return number


def through(number: int, flags: int) -> int:
    return os.open(f"/proc/self/fd/{number}", flags)


def foreign(is_removed: bool = False) -> int:
    """A descriptor of the foreign file, under the name of memory, in a tree of mounts of its own."""
    name = f"memfd:{NAME} (deleted)"
    check(libc.unshare(CLONE_NEWNS))
    check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    check(libc.mount(b"tmpfs", b"/mnt", b"tmpfs", 0, None))
    os.chdir("/mnt")
    os.makedirs("old")
    open(name, "w").close()
    check(libc.mount(os.fsencode(FOREIGN), os.fsencode(name), None, MS_BIND, None))
    if is_removed:
        os.unlink(FOREIGN)
    check(libc.syscall(PIVOT_ROOT[platform.machine()], b".", b"old"))
    os.chroot(".")
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    # Otherwise the agent could not look at its descriptors if it had no rights of root.
    check(libc.prctl(PR_SET_DUMPABLE, 1))
    try:
        os.open(f"/{name}", os.O_RDONLY)
    except PermissionError:
        return os.open(f"/{name}", os.O_PATH)
    raise AssertionError("the trainer can read the file")


def exchanged() -> int:
    """The number leads by turns to memory and to the foreign file."""
    number = os.dup(named := foreign(is_removed=True))
    own = memory()

    def exchange() -> None:
        while True:
            os.dup2(own, number)
            os.dup2(named, number)

    threading.Thread(target=exchange, daemon=True).start()
    return number


KINDS: dict[str, Callable[[], int]] = {
    "memory": memory,
    "memory that it only reads": lambda: through(memory(), os.O_RDONLY),
    "memory that it only names": lambda: through(memory(), os.O_PATH),
    "memory that it only writes": lambda: through(memory(), os.O_WRONLY),
    "a foreign file": foreign,
    "a foreign file that was removed": lambda: foreign(is_removed=True),
    "memory and a foreign file by turns": exchanged,
}
print(KINDS[KIND](), flush=True)
sys.stdin.read()
