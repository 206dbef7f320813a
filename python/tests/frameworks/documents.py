"""Programs of the documents."""

from __future__ import annotations

import os
import re

_DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs")


def program(name: str, run: str) -> str:
    """The program of a page, for this run. Readers get no longer one than 30 lines."""
    with open(os.path.join(_DOCS, f"{name}.md"), encoding="utf-8") as file:
        found = re.search(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
    assert found is not None, name
    text = found[1]
    assert text.count("\n") <= 30, f"the program of {name}.md has {text.count(chr(10))} lines"
    assert "s3://bucket/run" in text, name
    return text.replace("s3://bucket/run", run)
