"""A rank of a job in random rounds: saves versions, and prints each step as a line of JSON.

Its argument is JSON, as ``RankOrders`` of ``job.ts`` describes it. All words of a version's bytes are
the same number, so bytes of two moments are noticed. A line says what the rank is about to do, or
what it was told. A pipe keeps lines that a killed process has written.
"""

from __future__ import annotations

import array
import json
import os
import signal
import sys
import time
from typing import Any, Callable, Optional

import holdfast

ORDERS: dict[str, Any] = json.loads(sys.argv[1])
RANK, COUNT = ORDERS["rank"], ORDERS["count"]
LIMIT = ORDERS["timeoutMs"] / 1000
ARRAYS = f"model-{RANK}.safetensors"
EXTRA = f"optimizer-{RANK}"
# A later try of the same step may succeed.
AGAIN = ("AgentUnavailable", "Unavailable", "TimedOut", "Throttled", "Incomplete", "OutcomeUnknown")
# Another call would have no other answer.
OVER = ("Fenced",)
PROGRESS = ("open", "accepted", "uploading", "delivered")


def tell(event: str, **fields: Any) -> None:
    line = {"event": event, "atMs": time.monotonic() * 1000, **fields}
    os.write(1, (json.dumps(line) + "\n").encode())


def called(name: str, limit: float, call: Callable[[], Any]) -> Any:
    """Makes a call of the client, and tells when it began and ended."""
    tell("call", name=name, limitMs=limit * 1000)
    code = ""
    try:
        return call()
    except holdfast.HoldfastError as error:
        code = error.code
        tell("error", name=name, code=code, message=str(error))
        raise
    finally:
        tell("answer", name=name)


class Rank:
    def __init__(self) -> None:
        self.moment = 0
        words = ORDERS["bytes"] // 8
        self.weights = array.array("Q", bytes(words * 8))
        self.bias = array.array("Q", bytes(max(8, words // 7 * 8)))
        self.extra = bytearray(words // 3 * 8)
        self.in_flight: list[tuple[holdfast.Handle, int, int]] = []
        self.run: Optional[holdfast.Run] = None

    def train(self) -> int:
        """One step changes every word, in place. Returns the number that all words are now."""
        self.moment += 1
        number = ORDERS["mark"] * (1 << 24) + self.moment
        word = number.to_bytes(8, sys.byteorder)
        for numbers in (self.weights, self.bias, self.extra):
            with memoryview(numbers).cast("B") as target:
                target[:] = word * (target.nbytes // 8)
        return number

    def load(self) -> int:
        """Reads the latest version. Returns the number of the next one."""
        run = self.run
        assert run is not None
        latest = called("latest", LIMIT, run.latest)
        if latest is None:
            return 1
        into = {"weights": self.weights, "bias": self.bias}
        # Several requests, each with the limit of its own.
        called(
            "load", 4 * LIMIT, lambda: run.load_arrays(latest.version, name=ARRAYS, into=into)
        )
        numbers = {*self.weights, *self.bias}
        tell("loaded", version=latest.version, numbers=sorted(numbers)[:3])
        return int(latest.version) + 1

    def save(self, version: int) -> None:
        number = self.train()
        handle = self.staged(version, number)
        self.in_flight.append((handle, version, number))
        tell("staged", version=version, number=number)
        # The bytes are copied, so training goes on at once.
        self.train()
        if ORDERS["isWaiting"] or len(self.in_flight) == 2:
            self.wait()

    def staged(self, version: int, number: int) -> holdfast.Handle:
        run = self.run
        assert run is not None
        options: dict[str, Any] = {"arrays": {"weights": self.weights, "bias": self.bias}}
        options.update(arrays_name=ARRAYS, metrics={"moment": float(self.moment)})
        if ORDERS["saveTimeoutMs"] is not None:
            options["timeout"] = ORDERS["saveTimeoutMs"] / 1000
        else:
            options["when_busy"] = "raise"
        # The call waits for a free segment as long as its timeout, and then for the agent.
        limit = options.get("timeout", 0.0) + LIMIT
        extra = {EXTRA: self.extra}
        if not ORDERS["isInTwoSteps"]:
            tell("seal", version=version, number=number)
            return called("save", limit, lambda: run.save(version, buffers=extra, **options))
        handle: holdfast.Handle = called(
            "open", limit, lambda: run.save(version, sealed=False, **options)
        )
        tell("open", version=version)
        tell("seal", version=version, number=number)
        try:
            called("seal", LIMIT, lambda: handle.seal(buffers=extra))
        except holdfast.HoldfastError:
            self.until_it_works(lambda: called("cancel", LIMIT, handle.cancel))
            raise
        return handle

    def wait(self) -> None:
        """``HoldfastError``: the save goes on, or this life of the writer is over."""
        handle, version, number = self.in_flight[0]
        try:
            called("wait", LIMIT, lambda: handle.wait(timeout=LIMIT))
        except holdfast.HoldfastError as error:
            if handle.fields["state"] in PROGRESS:
                raise
            self.in_flight.pop(0)
            tell("ended", version=version, code=error.code)
            if error.code in OVER:
                raise
            return
        self.in_flight.pop(0)
        tell("committed", version=version, number=number)

    def go(self) -> None:
        connect = lambda: holdfast.connect(  # noqa: E731
            ORDERS["uri"],
            agent=ORDERS["socket"],
            attempt=ORDERS["attempt"],
            writer=(RANK, COUNT),
            timeout=LIMIT,
        )
        self.run = self.until_it_works(lambda: called("connect", LIMIT, connect))
        tell("joined")
        version = self.until_it_works(self.load)
        while version <= ORDERS["versions"]:
            version = self.one(version)
        while self.in_flight:
            self.until_it_works(self.wait)
        tell("done")
        if ORDERS["isClosing"]:
            called("close", min(5.0, LIMIT), self.run.close)

    def one(self, version: int) -> int:
        """Saves a version. Returns the next one."""
        try:
            self.save(version)
        except holdfast.HoldfastError as error:
            if error.code in OVER:
                raise
            if error.code not in AGAIN:
                # Another life has committed it, or this one when its answer was lost.
                return int(self.until_it_works(self.load))
            self.rest()
            is_in_flight = any(one[1] == version for one in self.in_flight)
            return version + 1 if is_in_flight else version
        return version + 1

    def until_it_works(self, step: Callable[[], Any]) -> Any:
        while True:
            try:
                return step()
            except holdfast.HoldfastError as error:
                if error.code not in AGAIN:
                    raise
                self.rest()

    def rest(self) -> None:
        time.sleep(0.05)


def end(*_: Any) -> None:
    tell("stopped")
    os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    try:
        Rank().go()
    except holdfast.HoldfastError as error:
        tell("over", code=error.code, message=str(error))
