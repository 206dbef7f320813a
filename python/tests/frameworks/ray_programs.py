"""Runs programs one after the other in a Ray of their own, and prints what each printed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from typing import Any

import ray

#: Environment of this program: no reports to others, no files in the home directory.
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    # Seconds. By default the driver learns late that a program has ended.
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
}


def main(path: str, directory: str, steps: list[str]) -> None:
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    ray.init(
        num_cpus=3,
        include_dashboard=False,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
        _temp_dir=directory,
    )
    for count in steps:
        os.environ["STEPS"] = count
        printed = io.StringIO()
        names: dict[str, Any] = {"__name__": "__main__"}
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        print(json.dumps(printed.getvalue().splitlines()[-1]), flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
