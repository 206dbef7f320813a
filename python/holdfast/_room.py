"""How much memory this process may still use, before the kernel stops it."""

from __future__ import annotations

import os
from typing import Optional

# Part of the free memory that segments never take, so that the trainer can continue.
_RESERVE = 0.05
_CGROUP = "/sys/fs/cgroup"


def memory_available() -> Optional[int]:
    """Bytes that can be allocated without swapping, or ``None`` if the kernel does not say.

    Pages of a memory file count against the machine and the cgroup of the process that writes
    them. ``posix_fallocate`` past either limit does not fail: the kernel kills a process.
    """
    found = [free for free in (_of_machine(), _of_cgroup()) if free is not None]
    return int(min(found) * (1 - _RESERVE)) if found else None


def _of_machine() -> Optional[int]:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _of_cgroup() -> Optional[int]:
    """The least room in the cgroup of this process and in those above it."""
    frees: list[int] = []
    for limit, used, statistics in _limits():
        total = _number(limit)
        now = _number(used)
        # Version 1 calls "no limit" a number close to 2 ** 63.
        if total is None or now is None or total >= 1 << 60:
            continue
        frees.append(max(0, total - now + _reclaimable(statistics)))
    return min(frees) if frees else None


def _limits() -> list[tuple[str, str, str]]:
    """Files with limit, use and statistics of each cgroup that counts this process's memory."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as lines:
            rows = [line.rstrip("\n").split(":", 2) for line in lines]
    except (OSError, ValueError):
        return []
    files: list[tuple[str, str, str]] = []
    for row in rows:
        if len(row) != 3:
            continue
        if row[1] == "":
            root, names = _CGROUP, ("memory.max", "memory.current", "memory.stat")
        elif "memory" in row[1].split(","):
            root = f"{_CGROUP}/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat")
        else:
            continue
        path = row[2].rstrip("/")
        while True:
            place = root + path
            files.append((f"{place}/{names[0]}", f"{place}/{names[1]}", f"{place}/{names[2]}"))
            if not path:
                break
            path = path.rpartition("/")[0]
    return files


def _number(path: str) -> Optional[int]:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        # "max" is no number: there is no limit.
        return None


def _reclaimable(path: str) -> int:
    """Page cache that the kernel drops before it stops a process."""
    try:
        with open(path, encoding="ascii") as lines:
            for line in lines:
                if line.startswith(("inactive_file ", "total_inactive_file ")):
                    return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return 0


def directory_free(path: str) -> int:
    """Bytes that this user may still write to the file system of ``path``."""
    facts = os.statvfs(path)
    return facts.f_bavail * facts.f_frsize
