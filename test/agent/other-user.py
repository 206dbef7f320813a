"""A trainer of another user than the agent's. Arguments: user and group, socket, run.

Becomes that user after all modules are loaded, because it may be unable to read them. Prints what
each step came to.
"""

from __future__ import annotations

import codecs
import importlib
import os
import pkgutil
import sys
from typing import Any, Callable

import holdfast

USER, GROUP, SOCKET, RUN = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]

for module in pkgutil.iter_modules(holdfast.__path__):
    if module.ispkg:  # The packages are for frameworks, which need not be there.
        continue
    try:
        importlib.import_module(f"holdfast.{module.name}")
    except ModuleNotFoundError as error:  # So are modules that the packages share.
        if error.name != "torch":
            raise
for encoding in ("ascii", "latin-1", "idna"):
    codecs.lookup(encoding)
os.setgroups([])
os.setresgid(GROUP, GROUP, GROUP)
os.setresuid(USER, USER, USER)
os.chdir("/")


def step(name: str, call: Callable[[], Any]) -> None:
    try:
        print(f"{name}: {call()}", flush=True)
    except holdfast.HoldfastError as error:
        print(f"{name}: {error.code}", flush=True)


def save(run: holdfast.Run) -> str:
    run.save(1, buffers={"a": b"bytes"}).wait()
    writer = run._saver.writer()
    assert writer is not None
    return f"{run.read('a').decode()} from a {writer.pool._last_choice.split()[0]}"


def joined() -> holdfast.Run:
    return holdfast.connect(RUN, agent=SOCKET, timeout=float(os.environ["TIMEOUT"]))


def all_steps() -> str:
    with joined() as run:
        step("saves", lambda: save(run))
        step("a file of its own", lambda: run.save(2, files={"f": os.environ["OWN"]}).wait().state)
        step("a foreign file", lambda: run.save(3, files={"f": os.environ["FOREIGN"]}).wait().state)
        step("restores", lambda: run.restore("/tmp/holdfast-never").version)
    return "left"


step("joins", all_steps)
