"""An array whose bytes can be copied into a segment, and what is needed to describe one."""

from __future__ import annotations

from operator import index
from typing import Any, Callable, NamedTuple, Optional

from . import _dtypes
from ._arguments import shown
from ._tensors import without_memory
from .errors import InvalidArgument, Unsupported

CopyInto = Callable[[memoryview], None]


class ArraySource(NamedTuple):
    """An array that can be copied into a segment."""

    #: Its name in a safetensors file.
    dtype: str
    shape: tuple[int, ...]
    #: Copies the elements, little-endian and in C order, to the beginning of a view.
    copy_into: CopyInto

    @property
    def size(self) -> int:
        """Bytes of all elements."""
        return count_of(self.shape) * _dtypes.ITEM_BYTES[self.dtype]


def count_of(shape: tuple[int, ...]) -> int:
    """Elements of an array with this shape."""
    count = 1
    for side in shape:
        count *= side
    return count


def unknown_type(name: str, dtype: object) -> InvalidArgument:
    return InvalidArgument(
        f"array {name!r} has the type {dtype}, which safetensors does not have; "
        f"accepted are {_dtypes.ACCEPTED}"
    )


def with_numpy(name: str, why: str) -> Any:
    """The module ``numpy``. ``Unsupported``: it is not installed; ``why`` tells what needs it."""
    numpy = optional_module("numpy")
    if numpy is None:
        raise Unsupported(
            f"array {name!r} {why}; install numpy, or pass a C-contiguous little-endian array"
        )
    return numpy


def optional_module(name: str) -> Any:
    """A module that this package does not require. ``None``: it is not installed."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        return None


def numpy_array(name: str, value: object, why: str) -> Any:
    """NumPy's view of an array. ``InvalidArgument``: NumPy finds no elements. See ``with_numpy``."""
    numpy = with_numpy(name, why)
    try:
        return numpy.asarray(value)
    except Exception as error:
        raise InvalidArgument(
            f"array {name!r} {why}, and NumPy cannot read it: {error}"
        ) from None


class Interface(NamedTuple):
    """An ``__array_interface__``."""

    typestr: str
    shape: tuple[int, ...]
    #: In bytes. ``None``: C order.
    strides: Optional[tuple[int, ...]]
    #: ``None``: the elements are in a buffer.
    address: Optional[int]
    is_readonly: bool
    has_mask: bool


def interface_of(name: str, value: Any) -> Interface:
    """``InvalidArgument``: it does not follow the protocol."""
    given: Any = value.__array_interface__
    try:
        typestr, shape = given["typestr"], tuple(index(side) for side in given["shape"])
        strides, data = given.get("strides"), given.get("data")
        if strides is not None:
            strides = tuple(index(step) for step in strides)
        is_sound = isinstance(typestr, str) and len(typestr) > 1
        if not is_sound or len(shape if strides is None else strides) != len(shape):
            raise ValueError
        address, is_readonly = data if isinstance(data, tuple) else (None, False)
        if isinstance(data, tuple):
            address = 0 if address is None else index(address)
        has_mask = given.get("mask") is not None
    except (AttributeError, LookupError, TypeError, ValueError):
        raise InvalidArgument(
            f"array {name!r}: expected an __array_interface__ with a typestr, a shape, strides of the "
            f"same length, and data as (address, is_readonly), got {shown(given)}"
        ) from None
    return Interface(typestr, shape, strides, address, bool(is_readonly), has_mask)


def checked_address(name: str, value: object, address: int, size: int) -> int:
    """Returns ``address``. ``InvalidArgument``: the array has elements, but no memory."""
    if size > 0 and address == 0:
        raise without_memory(name, value)
    return address


def raw_copy(owner: object, address: int, size: int) -> CopyInto:
    """Copies from an address that stays valid as long as ``owner`` lives."""

    def copy_into(target: memoryview) -> None:
        from ._memory import copy_from_address

        copy_from_address(target, address, size)
        keep_alive(owner)

    return copy_into


def keep_alive(_owner: object) -> None:
    """Does nothing: as its argument is still in use, the caller's object is alive until here."""


def is_contiguous(
    shape: tuple[int, ...], strides: Optional[tuple[int, ...]], item_bytes: int
) -> bool:
    """Whether the elements are in C order without gaps. ``strides`` in bytes; ``None`` means C order."""
    if strides is None or 0 in shape:
        return True
    expected = item_bytes
    for side, stride in zip(reversed(shape), reversed(strides)):
        if side != 1 and stride != expected:
            return False
        expected *= side
    return True
