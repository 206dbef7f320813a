"""boto3: one transfer manager for all files, as boto3's own upload_file makes one per call."""

import boto3
from boto3.s3.transfer import TransferConfig, create_transfer_manager
from botocore.config import Config
from driver import is_wanted, job, local_files, local_path, measure, prefix, range_to_read

MIB = 1024 * 1024


def client():
    # One connection for every thread of the manager. The pool's default is 10, and it closes the
    # others after each request.
    config = Config(max_pool_connections=32, s3={"addressing_style": "path"})
    return boto3.client("s3", endpoint_url=job["endpoint"], region_name=job["region"], config=config)


def manager(s3):
    config = TransferConfig(max_concurrency=16, multipart_chunksize=16 * MIB, multipart_threshold=16 * MIB)
    return create_transfer_manager(s3, config)


def upload() -> None:
    s3 = client()
    with manager(s3) as transfers:
        futures = [transfers.upload(file.path, job["bucket"], prefix + file.name) for file in local_files()]
        for future in futures:
            future.result()


def download() -> None:
    s3 = client()
    with manager(s3) as transfers:
        futures = []
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=job["bucket"], Prefix=prefix):
            for entry in page.get("Contents", []):
                key = entry["Key"]
                if is_wanted(key):
                    futures.append(transfers.download(job["bucket"], key, local_path(key)))
        for future in futures:
            future.result()


def read_range() -> None:
    key, start, end = range_to_read()
    answer = client().get_object(Bucket=job["bucket"], Key=key, Range=f"bytes={start}-{end - 1}")
    with open(local_path(key), "wb", buffering=0) as file:
        for piece in answer["Body"].iter_chunks(MIB):
            file.write(piece)


measure(upload, download, read_range)
