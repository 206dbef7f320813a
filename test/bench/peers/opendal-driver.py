"""OpenDAL: the asynchronous operator, which sends and fetches chunks of a large file concurrently; CRC32C on what is sent."""

import asyncio
from pathlib import Path

import opendal
from driver import is_wanted, job, leave, local_files, local_path, measure, prefix, range_to_read

MIB = 1024 * 1024
CHUNK_BYTES = 8 * MIB
CONCURRENT = 8
SMALL_REQUESTS = 64


def operator() -> opendal.AsyncOperator:
    return opendal.AsyncOperator(
        "s3",
        bucket=job["bucket"],
        endpoint=job["endpoint"],
        region=job["region"],
        checksum_algorithm="crc32c",
    )


async def upload() -> None:
    s3 = operator()
    files = asyncio.Semaphore(SMALL_REQUESTS)

    async def send(file) -> None:
        async with files:
            key = prefix + file.name
            if file.size <= CHUNK_BYTES:
                await s3.write(key, Path(file.path).read_bytes())
                return
            with open(file.path, "rb", buffering=0) as source:
                async with await s3.open(key, "wb", chunk=CHUNK_BYTES, concurrent=CONCURRENT) as sink:
                    while data := source.read(CHUNK_BYTES):
                        await sink.write(data)

    await asyncio.gather(*(send(file) for file in local_files()))


async def download() -> None:
    s3 = operator()
    files = asyncio.Semaphore(SMALL_REQUESTS)

    async def receive(key: str, size: int) -> None:
        async with files:
            with open(local_path(key), "wb", buffering=0) as sink:
                if size <= CHUNK_BYTES:
                    sink.write(await s3.read(key))
                    return
                async with await s3.open(key, "rb", chunk=CHUNK_BYTES, concurrent=CONCURRENT) as source:
                    while data := await source.read(CHUNK_BYTES):
                        sink.write(data)

    entries = [entry async for entry in await s3.list(prefix)]
    found = [(entry.path, entry.metadata.content_length) for entry in entries if not entry.path.endswith("/")]
    found = [(key, size) for key, size in found if is_wanted(key)]
    await asyncio.gather(*(receive(key, size) for key, size in found))


async def read_range() -> None:
    s3 = operator()
    key, start, end = range_to_read()
    data = await s3.read(key, offset=start, size=end - start, chunk=CHUNK_BYTES, concurrent=CONCURRENT)
    Path(local_path(key)).write_bytes(data)


measure(lambda: asyncio.run(upload()), lambda: asyncio.run(download()), lambda: asyncio.run(read_range()))
leave()
