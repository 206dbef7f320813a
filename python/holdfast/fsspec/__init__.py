"""Runs as a file system of fsspec: ``holdfast://ALIAS/step-100/FILE``.

    fs = fsspec.filesystem("holdfast")
    with fs.transaction:
        fs.put("model", "holdfast://prod/step-100", recursive=True)
    fs.ls("holdfast://prod")

Instead of an alias of the agent's configuration, a path may have the URI of the run,
percent-encoded: ``holdfast.fsspec.url("s3://bucket/run", 100)``.
"""

from .._requirements import require

#: The oldest version that the tests have run with.
OLDEST_FSSPEC = "2024.6.0"
require("fsspec", OLDEST_FSSPEC, "fsspec")

import fsspec

from .._framework_ids import url
from ._system import HoldfastFileSystem, latest_url

# Also without an installed entry point, for example from a source tree.
fsspec.register_implementation("holdfast", HoldfastFileSystem, clobber=True)

__all__ = ["HoldfastFileSystem", "latest_url", "url"]
