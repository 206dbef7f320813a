"""Makes the failures of training jobs happen to each tool, and tells what is in the bucket then.

Arguments: the URI of an empty place in a bucket. The agent of ``HOLDFAST_AGENT`` serves Holdfast.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, NamedTuple, Optional

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ranks import Job, die, end_all, first_error, outcome
from s3torchconnector.dcp.s3_file_system import S3FileSystem
from tools import (
    S5CMD,
    TOOLS,
    Connector,
    Copied,
    Fsspec,
    Holdfast,
    Tool,
    configure,
    patched,
    state_of,
)
from torch.distributed.checkpoint import _fsspec_filesystem, filesystem

import holdfast.torch as hdcp
from holdfast._payload import Payload

_WRITERS: dict[type[Tool], Any] = {
    Fsspec: _fsspec_filesystem.FsspecWriter,
    Connector: sys.modules[S3FileSystem.__module__].__dict__["S3StorageWriter"],
    Copied: filesystem.FileSystemWriter,
    Holdfast: hdcp.Writer,
}
_FILE_SYSTEMS: dict[type[Tool], Any] = {
    Fsspec: _fsspec_filesystem.FileSystem,
    Connector: S3FileSystem,
    Copied: filesystem.FileSystem,
}
_COMMIT_SECONDS = 30.0
_HANG_SECONDS = 20.0
#: Copies until one is cut.
_TRIES = 10
#: From the begin of an upload of 128 MiB until it is cut.
_CUT_SECONDS = 0.2
#: Limit for one failure of one tool.
_CASE_SECONDS = 300


class Verdict(NamedTuple):
    #: ``holds``, ``lost`` (nothing can be loaded), ``WRONG`` (other values load without an error).
    word: str
    why: str


def nothing() -> None:
    pass


def saved(tool: Tool, step: int, value: float) -> None:
    """All ranks save, and all is well."""
    answers = Job(lambda rank: tool.save(step, value)).answers()
    if answers != [None, None]:
        raise AssertionError(f"{tool.title} could not save: {answers}")


def loaded(tool: Tool, step: Optional[int]) -> Any:
    """The values in a version on rank 0, or its error."""
    if step is None:
        return {"error": "there is no checkpoint"}
    return Job(lambda rank: tool.load(step)).answers()[0]


def judged(found: Any, *right: float) -> Verdict:
    if isinstance(found, dict):
        return Verdict("lost", found["error"])
    if found in [[value] for value in right]:
        return Verdict("holds", f"loads {found[0]:g}")
    return Verdict("WRONG", f"loads without an error: {found}, saved was {right[-1]:g}")


def dying_between_shards(tool: Tool, step: int, value: float) -> None:
    """Rank 0 has written its shard, and rank 1 has not, when all ranks are killed."""

    def work(rank: int) -> None:
        before, after = (nothing, die) if rank == 0 else (lambda: (time.sleep(1), die())[0], nothing)
        patched(_WRITERS[type(tool)], "write_data", before, after)
        tool.save(step, value)

    Job(work).answers()


def killed_in_mid_save(tool: Tool) -> Verdict:
    saved(tool, 1, 1)
    dying_between_shards(tool, 2, 2)
    return judged(loaded(tool, tool.newest()), 1)


def saved_again_and_killed(tool: Tool) -> Verdict:
    saved(tool, 1, 1)
    dying_between_shards(tool, 1, 2)
    return judged(loaded(tool, 1), 1)


def killed_at_the_end(tool: Tool) -> Verdict:
    saved(tool, 1, 1)

    def work(rank: int) -> None:
        if isinstance(tool, Holdfast):
            patched(hdcp.Writer, "finish", die, nothing)
        else:
            patched(_FILE_SYSTEMS[type(tool)], "rename", die, nothing)
        tool.save(1, 2)

    Job(work).answers()
    return judged(loaded(tool, tool.newest()), 2, 1)


def zombie(tool: Tool) -> Verdict:
    other = type(tool)(tool.uri.rpartition("/")[0])

    def work(rank: int) -> None:
        patched(_WRITERS[type(tool)], "write_data", lambda: die(signal.SIGSTOP), nothing)
        tool.save(2, 10)

    stopped = Job(work)
    while any(_state(pid) != "T" for pid in stopped.pids):
        time.sleep(0.05)
    saved(other, 2, 20)
    for pid in stopped.pids:
        os.kill(pid, signal.SIGCONT)
    answer = stopped.answers()[0]
    word, why = judged(loaded(other, 2), 20)
    told = "the old job ends without an error" if answer is None else f"the old job gets {answer['error']}"
    return Verdict(word, f"{why}; {told}")


def rank_hangs(tool: Tool) -> Verdict:
    def work(rank: int) -> Any:
        if rank == 1:
            time.sleep(2 * _HANG_SECONDS)
            return None
        began = time.monotonic()
        if isinstance(tool, Holdfast):
            save = lambda: hdcp.save({"a": 1}, checkpoint_id=tool.path(1), timeout=2)  # noqa: E731
            # Both ranks make the writer, as at an earlier save.
        else:
            save = lambda: tool.save(1, 1)  # noqa: E731
        error = outcome(save)["error"]
        return [round(time.monotonic() - began, 1), error]

    def with_a_save_before(rank: int) -> Any:
        tool.save(0, 0)
        return work(rank)

    seconds, error = Job(with_a_save_before, group_seconds=_HANG_SECONDS).answers()[0]
    names_it = "rank 1" in error
    word = "holds" if names_it else "blocks"
    return Verdict(word, f"the other rank waited {seconds} s (the group's timeout is {_HANG_SECONDS:g} s): {error}")


def upload_cut(tool: Tool) -> Verdict:
    saved(tool, 1, 1)
    if isinstance(tool, Copied):
        cut_copy(tool)
    else:

        def work(rank: int) -> None:
            cut = threading.Timer(_CUT_SECONDS, die).start
            patched(_WRITERS[type(tool)], "write_data", cut, nothing)
            tool.save(2, 2, is_large=True)

        Job(work).answers()
    newest = tool.newest()
    assert newest is not None
    return judged(Job(lambda rank: tool.load(newest, is_large=newest > 1)).answers()[0], 1, 2)


def cut_copy(tool: Copied) -> None:
    """Copies a whole directory, and is killed before all files are there."""
    Job(lambda rank: dcp.save(state_of(2, is_large=True), storage_writer=tool.writer(2)) and None).answers()
    files = len(os.listdir(f"{tool.local}/step-2"))
    for step in range(2, 2 + _TRIES):
        copy = subprocess.Popen(
            [S5CMD, "--numworkers", "1", "cp", f"{tool.local}/step-2/", f"{tool.path(step)}/"],
            stdout=subprocess.DEVNULL,
        )
        while copy.poll() is None and not tool.bucket.keys(f"{tool.base}/step-{step}/"):
            pass
        copy.kill()
        copy.wait()
        if len(tool.bucket.keys(f"{tool.base}/step-{step}/")) < files:
            break


def killed_after_async_save(tool: Tool) -> Verdict:
    def work(rank: int) -> None:
        tool.async_save(1, 1)
        dist.barrier()
        die()

    Job(work).answers()
    end = time.monotonic() + _COMMIT_SECONDS
    while tool.newest() is None and time.monotonic() < end:
        time.sleep(0.2)
    return judged(loaded(tool, tool.newest()), 1)


def flipped_bit(tool: Tool) -> Verdict:
    saved(tool, 1, 1)
    tool.bucket.flip(tool.shards()[0])
    found = loaded(tool, 1)
    if isinstance(found, dict):
        return Verdict("holds", found["error"])
    return judged(found, 1)


def disk_full_in_a_helper(tool: Tool) -> Verdict:
    def work(rank: int) -> None:
        full = OSError(errno.ENOSPC, "No space left on device")
        if isinstance(tool, Holdfast):
            if rank == 1:
                patched(Payload, "copy_into", lambda: _raise(full), nothing)
            tool.save(1, 1)
            return
        main = threading.current_thread()
        patched(
            _FILE_SYSTEMS[type(tool)],
            "create_stream",
            lambda: None if threading.current_thread() is main else _raise(full),
            nothing,
        )
        threading.excepthook = lambda _: None
        tool.save(1, 1, thread_count=2)

    answer = Job(work).answers()[0]
    if isinstance(answer, dict):
        return Verdict("holds", f"the save fails: {answer['error']}")
    word, why = judged(loaded(tool, tool.newest()), 1)
    return Verdict(word, f"the save returns without an error; then {why}")


def _raise(error: Exception) -> None:
    raise error


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0]


CASES: list[tuple[str, str, Callable[[Any], Verdict]]] = [
    ("F1", "all ranks are killed in mid-save of a new step", killed_in_mid_save),
    ("F2", "a step is saved again, and killed when one of two shards is written", saved_again_and_killed),
    ("F3", "a step is saved again, and killed at the very end", killed_at_the_end),
    ("F4", "a job that was stopped wakes up after its successor has saved", zombie),
    ("F5", "a rank hangs before the save", rank_hangs),
    ("F6", "the upload is cut", upload_cut),
    ("F7", "all ranks are killed right after async_save has returned", killed_after_async_save),
    ("F8", "a bit of a shard changes in the bucket", flipped_bit),
    ("F9", "the disk or the store is full in a helper thread", disk_full_in_a_helper),
]


def too_late(*_: object) -> None:
    raise TimeoutError(f"it took more than {_CASE_SECONDS} s")


def main(given: str, only: list[str]) -> int:
    uri = configure(given)
    signal.signal(signal.SIGALRM, too_late)
    rows, is_right = [], True
    for name, what, case in CASES:
        if only and name not in only:
            continue
        print(f"\n{name}  {what}", flush=True)
        words = []
        for kind in TOOLS:
            tool = kind(f"{uri}/{name.lower()}")
            signal.alarm(_CASE_SECONDS)
            try:
                verdict = case(tool)
            except Exception as error:
                verdict = Verdict("not run", first_error(error))
            finally:
                signal.alarm(0)
                end_all()
            print(f"    {tool.title:16}{verdict.word:8}{verdict.why[:160]}", flush=True)
            words.append(verdict.word)
            is_right = is_right and (kind is not Holdfast or verdict.word == "holds")
        rows.append((name, words))
    print("\n    " + "".join(f"{kind.title:16}" for kind in TOOLS))
    for name, words in rows:
        print(f"{name}  " + "".join(f"{word:16}" for word in words))
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
