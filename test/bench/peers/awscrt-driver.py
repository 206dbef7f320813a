"""The AWS common runtime's S3 client: files in and out by path, parts and connections of its own choosing, CRC32C on what is sent."""

import xml.etree.ElementTree as ElementTree
from urllib.parse import quote, urlparse

from awscrt.auth import AwsCredentialsProvider
from awscrt.http import HttpHeaders, HttpRequest
from awscrt.io import ClientTlsContext, TlsContextOptions
from awscrt.s3 import (
    S3ChecksumAlgorithm,
    S3ChecksumConfig,
    S3ChecksumLocation,
    S3ChecksumValidationMode,
    S3Client,
    S3RequestTlsMode,
    S3RequestType,
    create_default_s3_signing_config,
)
from driver import is_wanted, job, local_files, local_path, measure, prefix, range_to_read

endpoint = urlparse(job["endpoint"])
UPLOAD_CHECKSUM = S3ChecksumConfig(algorithm=S3ChecksumAlgorithm.CRC32C, location=S3ChecksumLocation.TRAILER)
# This client fetches ranges. Stores have no checksum for a range, so it verifies none in fact.
# Asking for the checksum of the whole object costs one more request per object. It also fails,
# because objects that the client uploads in parts have no such checksum.
DOWNLOAD_CHECKSUM = S3ChecksumConfig(
    validate_response=True, response_validation_mode=S3ChecksumValidationMode.REQUEST_ONLY
)


def client() -> S3Client:
    provider = AwsCredentialsProvider.new_environment()
    signing = create_default_s3_signing_config(region=job["region"], credential_provider=provider)
    if endpoint.scheme == "http":
        return S3Client(region=job["region"], signing_config=signing, tls_mode=S3RequestTlsMode.DISABLED)
    options = TlsContextOptions()
    options.override_default_trust_store_from_path(ca_filepath=job["ca"])
    return S3Client(
        region=job["region"],
        signing_config=signing,
        tls_mode=S3RequestTlsMode.ENABLED,
        tls_connection_options=ClientTlsContext(options).new_connection_options(),
    )


def request(method: str, path: str, **headers: str) -> HttpRequest:
    fields = [("host", endpoint.netloc), *((name.replace("_", "-"), value) for name, value in headers.items())]
    return HttpRequest(method, path, HttpHeaders(fields))


def object_path(key: str) -> str:
    return f"/{job['bucket']}/{quote(key)}"


def upload() -> None:
    s3 = client()
    requests = [
        s3.make_request(
            type=S3RequestType.PUT_OBJECT,
            request=request("PUT", object_path(prefix + file.name), content_length=str(file.size)),
            send_filepath=file.path,
            checksum_config=UPLOAD_CHECKSUM,
        )
        for file in local_files()
    ]
    for each in requests:
        each.finished_future.result()


def keys(s3: S3Client):
    namespace = "{http://s3.amazonaws.com/doc/2006-03-01/}"
    token = ""
    while token is not None:
        query = f"list-type=2&prefix={quote(prefix, safe='')}"
        if token:
            query += f"&continuation-token={quote(token, safe='')}"
        body = bytearray()
        s3.make_request(
            type=S3RequestType.DEFAULT,
            operation_name="ListObjectsV2",
            request=request("GET", f"/{job['bucket']}?{query}"),
            on_body=lambda chunk, offset, **_: body.extend(chunk),
        ).finished_future.result()
        root = ElementTree.fromstring(bytes(body))
        yield from (each.text for each in root.iter(f"{namespace}Key"))
        token = root.findtext(f"{namespace}NextContinuationToken")


def download() -> None:
    s3 = client()
    requests = [
        s3.make_request(
            type=S3RequestType.GET_OBJECT,
            request=request("GET", object_path(key)),
            recv_filepath=local_path(key),
            checksum_config=DOWNLOAD_CHECKSUM,
        )
        for key in keys(s3)
        if is_wanted(key)
    ]
    for each in requests:
        each.finished_future.result()


def read_range() -> None:
    s3 = client()
    key, start, end = range_to_read()
    s3.make_request(
        type=S3RequestType.GET_OBJECT,
        request=request("GET", object_path(key), range=f"bytes={start}-{end - 1}"),
        recv_filepath=local_path(key),
        checksum_config=DOWNLOAD_CHECKSUM,
    ).finished_future.result()


measure(upload, download, read_range)
