"""obstore: its own multipart upload by path; downloads of large files by ranges in parallel, of small ones whole."""

import asyncio
import os
from pathlib import Path

import obstore
from driver import is_wanted, job, leave, local_files, local_path, measure, prefix, range_to_read
from obstore.store import S3Store

MIB = 1024 * 1024
RANGE_BYTES = 8 * MIB
LARGE_REQUESTS = 12  # the default of put_async
SMALL_REQUESTS = 64


def store() -> S3Store:
    options = {"allow_http": True}
    if job["ca"]:
        options["root_certificate"] = Path(job["ca"]).read_text()
    return S3Store(
        job["bucket"],
        endpoint=job["endpoint"],
        region=job["region"],
        virtual_hosted_style_request=False,
        # A checksum that the server compares costs less than half of the default, which is SHA-256
        # in the signature.
        checksum_algorithm="CRC64NVME",
        unsigned_payload=True,
        client_options=options,
    )


async def upload() -> None:
    s3 = store()
    files = asyncio.Semaphore(SMALL_REQUESTS)

    async def send(file) -> None:
        async with files:
            large = file.size > RANGE_BYTES
            source = Path(file.path) if large else Path(file.path).read_bytes()
            await obstore.put_async(s3, prefix + file.name, source, use_multipart=large, chunk_size=RANGE_BYTES)

    await asyncio.gather(*(send(file) for file in local_files()))


async def download() -> None:
    s3 = store()
    small, large = asyncio.Semaphore(SMALL_REQUESTS), asyncio.Semaphore(LARGE_REQUESTS)

    async def receive_whole(key: str) -> None:
        async with small:
            response = await obstore.get_async(s3, key)
            Path(local_path(key)).write_bytes(await response.bytes_async())

    async def receive_range(key: str, file: int, start: int, end: int) -> None:
        async with large:
            data = await obstore.get_range_async(s3, key, start=start, end=end)
            await asyncio.to_thread(os.pwrite, file, data, start)

    async def receive_ranges(key: str, size: int) -> None:
        file = os.open(local_path(key), os.O_WRONLY | os.O_CREAT, 0o644)
        starts = range(0, size, RANGE_BYTES)
        await asyncio.gather(*(receive_range(key, file, at, min(at + RANGE_BYTES, size)) for at in starts))
        os.close(file)

    tasks = []
    async for page in obstore.list(s3, prefix):
        for entry in page:
            key, size = entry["path"], entry["size"]
            if not is_wanted(key):
                continue
            tasks.append(asyncio.create_task(receive_ranges(key, size) if size > RANGE_BYTES else receive_whole(key)))
    await asyncio.gather(*tasks)


async def read_range() -> None:
    s3 = store()
    key, start, end = range_to_read()
    starts = range(start, end, RANGE_BYTES)
    parts = (obstore.get_range_async(s3, key, start=at, end=min(at + RANGE_BYTES, end)) for at in starts)
    with open(local_path(key), "wb", buffering=0) as file:
        for part in await asyncio.gather(*parts):
            file.write(part)


measure(lambda: asyncio.run(upload()), lambda: asyncio.run(download()), lambda: asyncio.run(read_range()))
leave()
