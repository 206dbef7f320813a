"""Jobs with the real trainer of Composer. Prints one line of JSON: what happened in each."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import torch
from composer.callbacks import CheckpointSaver
from composer.core import Timestamp
from composer.utils import ObjectStoreTransientError, get_file, maybe_create_object_store_from_uri

from holdfast.composer import CheckpointDestination, ObjectStore
from holdfast.errors import HoldfastError
from holdfast.fsspec import url

from ..real_agent import agent_command
from .jobs import ANSWER

_FILE = "ep1-ba4-rank0.pt"


def document(uri: str, directory: str, path: str) -> list[Any]:
    """The program of the document, each time on another machine."""
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    found = []
    for number, duration in enumerate(["2ep", "3ep"]):
        os.environ.update(DURATION=duration, LOCAL=os.path.join(directory, str(number)))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, {"__name__": "__main__"})
        left = sorted(os.listdir(os.environ["LOCAL"]))
        found.append([printed.getvalue().splitlines()[-1], left])
    return found


def reading(uri: str, directory: str, path: str) -> dict[str, Any]:
    """What Composer does with an object store."""
    store: Any = maybe_create_object_store_from_uri(url(uri, 4, _FILE))
    target = os.path.join(directory, "file.pt")
    get_file("run/checkpoints/latest-rank0.pt", target, store, progress_bar=False)
    latest = torch.load(target, weights_only=False)["state"]["timestamp"]["Timestamp"]["batch"]
    named = os.path.join(directory, "named.pt")
    get_file(url(uri, 4, _FILE), named, progress_bar=False)
    silent = ObjectStore(uri, agent=f"{directory}/none.sock", timeout=0.1)
    found = {
        "latest": latest,
        "same": os.path.getsize(named) == store.get_object_size(f"any/{_FILE}"),
        "objects": store.list_objects("step-4/"),
        "uri": store.get_uri("step-4/a") == url(uri, 4, "a"),
        "there already": caught(lambda: store.download_object(f"step-4/{_FILE}", target)),
        "no such version": caught(lambda: store.get_object_size(f"step-5/{_FILE}")),
        "no such file": caught(lambda: store.get_object_size("step-4/a")),
        "a version is no link to the latest": caught(lambda: get_file("a/ep2-ba5-rank0.pt", named, store)),
        "no name of an object": caught(lambda: store.get_object_size("a/b")),
        "empty run": caught(lambda: ObjectStore(f"{uri}-empty").get_object_size("latest-rank0.pt.symlink")),
        "empty list": ObjectStore(f"{uri}-empty").list_objects(None),
        "upload": caught(lambda: store.upload_object("a", target)),
        "no agent": caught(lambda: silent.get_object_size("latest-rank0.pt.symlink")),
        "left": sorted(os.listdir(directory)),
    }
    words = ["rollback", uri, "--to", "4", "--reason", "test"]
    subprocess.run([*agent_command(), *words], check=True, timeout=60, stdout=subprocess.DEVNULL)
    return {**found, "objects after a rollback": store.list_objects(None)}


def writing(uri: str, directory: str, path: str) -> dict[str, Any]:
    """What is no checkpoint is ignored, and a failure is raised later."""
    saver = CheckpointSaver(folder=directory, remote_file_name=None)
    state = SimpleNamespace(
        run_name="a",
        callbacks=[saver],
        timestamp=Timestamp(batch=1),
        fsdp_sharded_state_dict_enabled=False,
    )
    destination: Any = CheckpointDestination(uri)
    inside, outside = os.path.join(directory, "a.pt"), os.path.join(f"{directory}-trace")
    for name in (inside, outside):
        with open(name, "wb") as file:
            file.write(name.encode())
    destination.upload_file(state, "trace", outside, overwrite=False)
    destination.upload_file(state, "a.pt", inside, overwrite=False)
    destination.close(state, None)
    versions = ObjectStore(uri).list_objects(None)
    with open(inside, "wb") as file:
        file.write(b"other")

    def again() -> None:
        destination.upload_file(state, "a.pt", inside, overwrite=True)
        destination.close(state, None)

    refused = caught(again)
    state.fsdp_sharded_state_dict_enabled = True
    sharded = caught(lambda: destination.upload_file(state, "b.pt", inside, overwrite=False))
    return {"versions": versions, "again": refused, "sharded": sharded}


def caught(call: Any) -> list[str]:
    try:
        return ["ok", str(call())]
    except (HoldfastError, OSError, ObjectStoreTransientError) as error:
        return [type(error).__name__, str(error)]


if __name__ == "__main__":
    answers = {}
    for job, name in (("document", "run"), ("reading", "run"), ("writing", "other")):
        own = os.path.join(sys.argv[2], job)
        os.makedirs(own)
        answers[job] = globals()[job](f"{sys.argv[1]}-{name}", own, sys.argv[3])
    print(ANSWER + json.dumps(answers))
