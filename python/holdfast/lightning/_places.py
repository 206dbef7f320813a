"""Paths of checkpoints, as Lightning passes them."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from .._framework_ids import LATEST, SCHEME, place_of, refuse_eaten_slash
from ..errors import InvalidArgument

#: The file that Lightning's state is in, unless the path names another.
FILE = "checkpoint.ckpt"


class Target(NamedTuple):
    run: str
    #: ``None``: the latest.
    version: Optional[int]
    name: str


def target_of(path: Any) -> Target:
    """``holdfast://RUN/step-100/checkpoint.ckpt``, ``…/step-100``, ``…/epoch=1-step=100.ckpt``, or
    ``…/latest``.

    ``InvalidArgument``: another path, or one without a version.
    """
    text = str(path)
    refuse_eaten_slash(text)
    if not text.startswith(f"{SCHEME}://"):
        raise InvalidArgument(
            f"{text!r} is in no run; expected {SCHEME}://ALIAS/step-100, as "
            'holdfast.lightning.ModelCheckpoint("ALIAS") names its checkpoints'
        )
    run, _, last = text.rpartition("/")
    if last == LATEST:
        place = place_of(run)
        if place.version is None and place.run:
            return Target(place.run, None, FILE)
    place = place_of(text)
    if place.version is None:
        hint = "; the latest is holdfast://RUN/latest" if place.run else ""
        raise InvalidArgument(
            f"{text!r} names no version; expected as in {SCHEME}://ALIAS/step-100{hint}"
        )
    return Target(place.run, place.version, place.name or FILE)
