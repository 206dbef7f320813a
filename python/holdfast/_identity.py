"""Names this process so that an agent can tell later whether it has certainly ended."""

from __future__ import annotations

import os
import re
from typing import Optional

_TICKS_PER_SECOND = 100


def process_identity(proc: str = "/proc") -> Optional[str]:
    """Process id, start in ticks since boot, namespace of processes, and boot, with dashes between.

    ``None``: the kernel does not say. Then the agent keeps what this process leaves behind.
    """
    try:
        with open(f"{proc}/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        namespace = re.fullmatch(r"pid:\[(\d+)\]", os.readlink(f"{proc}/self/ns/pid"))
        own, ticks = _pid_and_start(proc, "self")
        shifted = _shifted_ticks(proc)
    except (OSError, ValueError, IndexError):
        return None
    is_boot = re.fullmatch(r"[0-9a-f-]{36}", boot) is not None
    # A /proc of another namespace has other process ids.
    if not is_boot or namespace is None or own != str(os.getpid()) or shifted is None:
        return None
    return f"{own}-{ticks - shifted}-{namespace[1]}-{boot}"


def is_certainly_gone(identity: str, proc: str = "/proc") -> bool:
    """Whether the process of an identity has ended.

    False if that cannot be known: it ran on another machine, in another container, or before a
    restart of this machine.
    """
    own = process_identity(proc)
    match = re.fullmatch(r"(\d+)-(-?\d+)-(\d+-[0-9a-f-]{36})", identity)
    if own is None or match is None or not own.endswith(f"-{match[3]}"):
        return False
    try:
        _, ticks = _pid_and_start(proc, match[1])
        shifted = _shifted_ticks(proc)
    except FileNotFoundError:
        return True
    except (OSError, ValueError, IndexError):
        return False
    # Another process may have the same process id by now, but it has another start time.
    return shifted is not None and ticks - shifted != int(match[2])


def _pid_and_start(proc: str, process: str) -> tuple[str, int]:
    with open(f"{proc}/{process}/stat", encoding="utf-8", errors="replace") as file:
        stat = file.read()
    # The name of a process is in parentheses and may hold any character.
    return stat.split(" ", 1)[0], int(stat.rpartition(")")[2].split()[19])


def _shifted_ticks(proc: str) -> Optional[int]:
    """Ticks by which a time namespace shifts start times. ``None``: by a part of a second."""
    try:
        with open(f"{proc}/self/timens_offsets", encoding="ascii") as file:
            text = file.read()
    except OSError:
        return 0
    offsets = re.search(r"^boottime\s+(-?\d+)\s+(\d+)$", text, re.MULTILINE)
    if offsets is None:
        return 0
    return int(offsets[1]) * _TICKS_PER_SECOND if offsets[2] == "0" else None
