"""Finds the type, shape and bytes of an array of any library, without importing that library.

Only arrays whose elements must be reordered need NumPy.
"""

from __future__ import annotations

import sys
from typing import Any

from . import _dtypes
from ._array_source import (
    ArraySource,
    CopyInto,
    checked_address,
    count_of,
    interface_of,
    is_contiguous,
    numpy_array,
    raw_copy,
    unknown_type,
    with_numpy,
)
from ._tensors import not_in_memory, require_memory, require_plain_tensor, unresolved_marks
from ._views import holds_objects, view_of
from .errors import InvalidArgument

def find_array(name: str, value: Any) -> ArraySource:
    """Describes ``value``, which is not copied yet.

    ``InvalidArgument``: it is not an array, is not in this machine's memory, or has a type that
    safetensors does not have. ``Unsupported``: it needs NumPy, which is not installed.
    """
    if _is_tensor(name, value):
        return _tensor(name, value)
    if is_numpy_scalar(value):
        # Its ``__array_interface__`` describes a temporary array, which is freed once that was read.
        return _numpy_like(name, with_numpy(name, "is a scalar").array(value))
    if hasattr(value, "__array_interface__"):
        return _numpy_like(name, value)
    if hasattr(value, "__dlpack__"):
        from ._dlpack import dlpack_array

        return dlpack_array(name, value)
    if hasattr(value, "__cuda_array_interface__"):
        raise not_in_memory(name, "a GPU")
    view = view_of(
        f"array {name!r}",
        value,
        f"array {name!r} is of type {_type_name(value)}, which is no array; accepted are NumPy "
        "arrays, CPU tensors, and objects with __dlpack__ or the buffer protocol",
    )
    return _buffer(name, view)


def _is_tensor(name: str, value: Any) -> bool:
    try:
        # The storage of a tensor has both of these too, and no shape.
        return (
            hasattr(value, "data_ptr") and hasattr(value, "element_size") and hasattr(value, "shape")
        )
    except RuntimeError:
        raise InvalidArgument(
            f"array {name!r}, a {_type_name(value)}, has no shape: it is nested, or was not "
            "initialized; pass plain tensors"
        ) from None


def is_numpy_scalar(value: object) -> bool:
    """A NumPy number that is not an array, such as ``numpy.float64(1)``."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic)


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".replace("builtins.", "")


def _tensor(name: str, tensor: Any) -> ArraySource:
    """A ``torch.Tensor``, or an object with the same methods."""
    require_plain_tensor(name, tensor)
    dtype = _dtypes.of_torch(tensor.dtype)
    if dtype is None:
        raise unknown_type(name, tensor.dtype)
    shape = tuple(int(side) for side in tensor.shape)
    require_memory(name, tensor)

    def copy_into(target: memoryview) -> None:
        whole = tensor
        for resolve in unresolved_marks(tensor):
            whole = getattr(whole, resolve)()
        if not whole.is_contiguous():
            whole = whole.contiguous()
        size = count_of(shape) * _dtypes.ITEM_BYTES[dtype]
        raw_copy(whole, int(whole.data_ptr()) if size else 0, size)(target)

    return ArraySource(dtype, shape, copy_into)


def _is_masked_class(kind: type) -> bool:
    return kind.__name__ == "MaskedArray" and kind.__module__.partition(".")[0] == "numpy"


def _numpy_like(name: str, value: Any) -> ArraySource:
    interface = interface_of(name, value)
    if interface.has_mask or any(map(_is_masked_class, type(value).__mro__)):
        raise InvalidArgument(f"array {name!r} is masked; pass value.filled(…) or value.data")
    typestr, shape = interface.typestr, interface.shape
    if typestr[1:2] == "O":
        raise holds_objects(f"array {name!r}")
    dtype_name = str(getattr(getattr(value, "dtype", None), "name", ""))
    dtype = _dtypes.of_numpy(typestr, dtype_name)
    if dtype is None:
        raise unknown_type(name, dtype_name or typestr)
    if min(shape, default=0) < 0:
        raise InvalidArgument(f"array {name!r} has the shape {list(shape)}; no side can be negative")
    if interface.address is None:
        # NumPy takes its elements from a buffer. Its array of them has an address.
        return _numpy_like(name, numpy_array(name, value, "has no address in __array_interface__"))
    item_bytes = _dtypes.ITEM_BYTES[dtype]
    is_little = item_bytes == 1 or typestr[0] in "<|"
    if is_little and is_contiguous(shape, interface.strides, item_bytes):
        size = count_of(shape) * item_bytes
        address = checked_address(name, value, interface.address, size)
        return ArraySource(dtype, shape, raw_copy(value, address, size))
    why = "is big-endian" if not is_little else "is not contiguous"
    return ArraySource(dtype, shape, _by_numpy(name, value, dtype, why))


def _by_numpy(name: str, value: Any, dtype: str, why: str) -> CopyInto:
    """Copies elements that are not in the order or byte order of the file, in one pass."""
    numpy = with_numpy(name, why)
    source = numpy_array(name, value, why)

    def copy_into(target: memoryview) -> None:
        known = _dtypes.NUMPY_TYPES.get(dtype)
        there = numpy.dtype(known) if known else source.dtype
        numpy.copyto(numpy.ndarray(source.shape, there, buffer=target), source, casting="equiv")

    return copy_into


def _buffer(name: str, view: memoryview) -> ArraySource:
    order, letters = _split_format(view.format)
    dtype = _dtypes.of_buffer(letters, view.itemsize)
    if dtype is None:
        raise unknown_type(name, view.format)
    shape = tuple(view.shape or ())
    if view.itemsize > 1 and order == "big":
        return ArraySource(dtype, shape, _by_numpy(name, view, dtype, "is big-endian"))
    if not view.c_contiguous:
        return ArraySource(dtype, shape, _by_numpy(name, view, dtype, "is not contiguous"))

    def copy_into(target: memoryview) -> None:
        from ._memory import copy_buffer

        copy_buffer(target, view)

    return ArraySource(dtype, shape, copy_into)


def _split_format(text: str) -> tuple[str, str]:
    """The byte order of a buffer's format, and its letters."""
    if text[:1] in ("<", ">", "!", "=", "@"):
        return {"<": "little", ">": "big", "!": "big"}.get(text[0], sys.byteorder), text[1:]
    return sys.byteorder, text
