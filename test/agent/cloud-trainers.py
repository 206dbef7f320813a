"""Two trainers of a run in a cloud, and an agent that is killed while it uploads.

Arguments: the URI of the run, and a new directory for restored files. Prints how each step ended.
"""

from __future__ import annotations

import array
import os
import sys

import holdfast
from tests.real_agent import RealAgent

URI, DIRECTORY = sys.argv[1:]
TIMEOUT = 60.0
# Several parts.
LARGE = 12 << 20


def large(version: int, rank: int) -> bytes:
    return (b"version %d of rank %d " % (version, rank)).ljust(32, b".") * (LARGE // 32)


def weights(version: int, rank: int) -> array.array[float]:
    return array.array("d", [version + rank / 2] * 1000)


def save(run: holdfast.Run, version: int, rank: int) -> holdfast.Handle:
    return run.save(
        version,
        buffers={f"large-{rank}": large(version, rank)},
        arrays={"weights": weights(version, rank)},
        arrays_name=f"model-{rank}.safetensors",
        metrics={"loss": float(version)},
    )


def expect(what: str, is_right: bool) -> None:
    if not is_right:
        raise AssertionError(f"{what} is wrong; the agent: {agent.log()}")


# The bytes of one version take two seconds.
agent = RealAgent({"saveBytesPerSecondMax": LARGE})
try:
    ranks = [
        holdfast.connect(URI, agent=agent.socket, attempt="a", writer=(rank, 2), timeout=TIMEOUT)
        for rank in (0, 1)
    ]
    handles = [save(run, 1, rank) for rank, run in enumerate(ranks)]
    print("version 1:", *(handle.wait(timeout=TIMEOUT).state for handle in handles))
    handles = [save(run, 2, rank) for rank, run in enumerate(ranks)]
    print("staged:", *(handle.wait("staged", TIMEOUT).durability for handle in handles))
    agent.kill()
    agent.unlimit()
    agent.start()
    print("version 2:", *(handle.wait(timeout=TIMEOUT).state for handle in handles))
    for run in ranks:
        run.close()

    with holdfast.connect(URI, agent=agent.socket, writer=None, timeout=TIMEOUT) as reader:
        print("versions:", *(one.version for one in reader.versions()))
        reader.restore(DIRECTORY, 2)
        for rank in (0, 1):
            with open(os.path.join(DIRECTORY, f"large-{rank}"), "rb") as file:
                expect(f"restored file of rank {rank}", file.read() == large(2, rank))
            expect(f"range of rank {rank}", reader.read(f"large-{rank}", 1) == large(1, rank))
            into = {"weights": array.array("d", bytes(8000))}
            reader.load_arrays(1, name=f"model-{rank}.safetensors", into=into)
            expect(f"array of rank {rank}", into["weights"] == weights(1, rank))
    print("all bytes are right")
finally:
    agent.close()
