"""Runs a program to its end and writes what it cost to file descriptor 3: cost.py PROGRAM [ARGUMENT...]

The kernel counts for us, so children that live for a millisecond are in it too: every descendant is waited for, by its own
parent or, if that is gone, by us, who ask to become the parent of orphans.
"""

import ctypes
import json
import os
import resource
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
COST_FD = 3

command = sys.argv[1:]
os.set_inheritable(COST_FD, False)
if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
    sys.exit("cost.py: this system does not let a process adopt orphans")
start = time.monotonic()
child = os.posix_spawnp(command[0], command, os.environ)
_, status = os.waitpid(child, 0)
wall = time.monotonic() - start
try:
    while True:
        os.waitpid(-1, 0)
except ChildProcessError:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(COST_FD, "w") as file:
    json.dump(
        {
            "wallMs": wall * 1000,
            "userMs": usage.ru_utime * 1000,
            "systemMs": usage.ru_stime * 1000,
            # Peak of the largest process of the tree, not the sum.
            "peakRssBytes": usage.ru_maxrss * 1024,
        },
        file,
    )
if os.WIFSIGNALED(status):
    sys.exit(f"killed by {signal.Signals(os.WTERMSIG(status)).name}")
sys.exit(os.WEXITSTATUS(status))
