"""A trainer of `bench agent`: one process that saves and loads memory again and again, by Holdfast's agent or by another client.

Takes a job as JSON on the command line, and a command for each line of its standard input: `save N`, `load N`, `control N`. Answers each with a line of JSON.
"""

import json
import os
import resource
import sys
import time
from typing import Any, Callable

MIB = 1024 * 1024

job = json.loads(sys.argv[1])
size: int = job["sizeBytes"]
rank: int = job["rank"]
pattern = bytes(os.urandom(MIB))
state = bytearray(pattern * (size // MIB))
loaded = bytearray(size)
copy = bytearray(size)


def change(version: int) -> None:
    """A byte in each MiB, so that no save finds an unchanged part."""
    for at in range(0, size, MIB):
        state[at : at + 8] = (version * 1000 + rank).to_bytes(8, "little")


def plain_copy() -> None:
    memoryview(copy)[:] = state


def holdfast_client() -> tuple[Callable[[int], Callable[[], None]], Callable[[int], None]]:
    import holdfast

    run = holdfast.connect(job["uri"], attempt=job["attempt"], writer=(rank, job["count"]), agent=job["socket"])
    name = f"state-{rank}.safetensors"
    weights, into = ({"weights": memoryview(one)} for one in (state, loaded))

    def save(version: int) -> Callable[[], None]:
        handle = run.save(version, arrays=weights, arrays_name=name)
        return lambda: handle.wait("committed")

    def control() -> float:
        """Milliseconds of a call that asks for the state of a save."""
        handle = run.save(2**40, buffers={"small": b"0"}, sealed=False)
        times = [timed(lambda: handle.state)[0] for _ in range(201)]
        handle.cancel()
        return sorted(times)[100] * 1000

    global ask_agent
    ask_agent = control
    return save, lambda version: run.load_arrays(version, name=name, into=into)


def obstore_client() -> tuple[Callable[[int], Callable[[], None]], Callable[[int], None]]:
    import obstore
    from obstore.store import S3Store

    store = S3Store(
        job["bucket"],
        endpoint=job["endpoint"],
        region=job["region"],
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )

    def save(version: int) -> Callable[[], None]:
        obstore.put(store, key_of(version), state, chunk_size=8 * MIB)
        return nothing

    def load(version: int) -> None:
        memoryview(loaded)[:] = obstore.get(store, key_of(version)).bytes()

    return save, load


def boto3_client() -> tuple[Callable[[int], Callable[[], None]], Callable[[int], None]]:
    import io

    import boto3

    client = boto3.client("s3", endpoint_url=job["endpoint"], region_name=job["region"])

    def save(version: int) -> Callable[[], None]:
        client.upload_fileobj(io.BytesIO(state), job["bucket"], key_of(version))
        return nothing

    def load(version: int) -> None:
        found = io.BytesIO()
        client.download_fileobj(job["bucket"], key_of(version), found)
        memoryview(loaded)[:] = found.getbuffer()

    return save, load


def s3fs_client() -> tuple[Callable[[int], Callable[[], None]], Callable[[int], None]]:
    import s3fs

    system = s3fs.S3FileSystem(endpoint_url=job["endpoint"], client_kwargs={"region_name": job["region"]})

    def save(version: int) -> Callable[[], None]:
        system.pipe_file(f"{job['bucket']}/{key_of(version)}", bytes(state))
        return nothing

    def load(version: int) -> None:
        memoryview(loaded)[:] = system.cat_file(f"{job['bucket']}/{key_of(version)}")

    return save, load


def ask_agent() -> float:
    raise SystemExit("only Holdfast has an agent")


def nothing() -> None:
    """Other clients have ended when their call returns."""


def key_of(version: int) -> str:
    return f"{job['prefix']}{version}/state-{rank}.bin"


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    cpu, start = cpu_seconds(), time.monotonic()
    result = work()
    return time.monotonic() - start, cpu_seconds() - cpu, result


CLIENTS = {"holdfast": holdfast_client, "obstore": obstore_client, "boto3": boto3_client, "s3fs": s3fs_client}


def answer(values: dict[str, Any]) -> None:
    print(json.dumps(values), flush=True)


def main() -> None:
    base_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    save, load = CLIENTS[job["client"]]()
    plain_copy()
    answer({"ready": True})
    for line in sys.stdin:
        word, version = line.split()[0], int(line.split()[1])
        if word == "save":
            change(version)
            copied, _, _ = timed(plain_copy)
            blocked, blocked_cpu, wait = timed(lambda: save(version))
            waited, waited_cpu, _ = timed(wait)
            answer(
                {
                    "copySeconds": copied,
                    "blockedSeconds": blocked,
                    "wallSeconds": blocked + waited,
                    "blockedCpuSeconds": blocked_cpu,
                    "cpuSeconds": blocked_cpu + waited_cpu,
                    "extraMiB": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base_kib) / 1024,
                }
            )
        elif word == "control":
            answer({"medianMs": ask_agent()})
        else:
            wall, cpu, _ = timed(lambda: load(version))
            if loaded[:8] != (version * 1000 + rank).to_bytes(8, "little"):
                raise SystemExit("other bytes came back")
            answer({"wallSeconds": wall, "cpuSeconds": cpu})


main()
os._exit(0)
