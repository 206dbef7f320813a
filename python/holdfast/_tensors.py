"""What a ``torch.Tensor`` must be to be copied. PyTorch is not imported."""

from __future__ import annotations

from typing import Any

from .errors import InvalidArgument


def not_in_memory(name: str, device: object) -> InvalidArgument:
    return InvalidArgument(
        f"array {name!r} is on {device}; copy it to this machine's memory first, "
        "for example with tensor.cpu()"
    )


def require_plain_tensor(name: str, tensor: Any) -> None:
    """``InvalidArgument``: the tensor is distributed or not dense, or is not in this machine's memory."""
    if hasattr(tensor, "to_local"):
        raise InvalidArgument(
            f"array {name!r} is distributed over processes; pass its own part, tensor.to_local()"
        )
    if str(tensor.device.type) != "cpu":
        raise not_in_memory(name, tensor.device)
    if str(getattr(tensor, "layout", "torch.strided")) != "torch.strided":
        raise InvalidArgument(f"array {name!r} has the layout {tensor.layout}; pass a dense tensor")
    if getattr(tensor, "is_nested", False):
        raise InvalidArgument(f"array {name!r} is nested; pass each of its tensors, tensor.unbind()")


def unresolved_marks(tensor: Any) -> list[str]:
    """The methods that copy what is only a mark on the memory of another tensor.

    Conjugates and negatives are such marks.
    """
    marks = (("is_conj", "resolve_conj"), ("is_neg", "resolve_neg"))
    return [resolve for mark, resolve in marks if hasattr(tensor, mark) and getattr(tensor, mark)()]


def require_memory(name: str, tensor: Any) -> None:
    """``InvalidArgument``: not all elements of a dense tensor are in memory.

    FSDP frees the storage of parameters, and some classes wrap other tensors. Both have no address.
    """
    if 0 in tuple(tensor.shape):
        return
    try:
        address = int(tensor.data_ptr())
        held = int(tensor.untyped_storage().nbytes())
        sides = zip(tensor.shape, tensor.stride())
        last = int(tensor.storage_offset()) + sum((int(n) - 1) * int(step) for n, step in sides)
    except (RuntimeError, NotImplementedError):
        raise without_memory(name, tensor) from None
    if address == 0 or (last + 1) * int(tensor.element_size()) > held:
        raise without_memory(name, tensor)


def without_memory(name: str, value: object) -> InvalidArgument:
    return InvalidArgument(
        f"array {name!r}, a {type(value).__name__}, has no memory of its own for its elements: "
        "it wraps other arrays, or its memory was freed; pass a plain array that holds them"
    )
