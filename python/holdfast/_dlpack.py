"""Reads the DLPack capsule of an array: https://dmlc.github.io/dlpack/latest/."""

from __future__ import annotations

import ctypes
from typing import Any

from . import _dtypes
from ._array_source import (
    ArraySource,
    CopyInto,
    checked_address,
    count_of,
    is_contiguous,
    raw_copy,
    unknown_type,
    with_numpy,
)
from ._tensors import not_in_memory
from .errors import InvalidArgument

# CPU, and host memory that CUDA or ROCm has pinned.
_HOST_DEVICES = (1, 3, 11)


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
_pointer_of.restype = ctypes.c_void_p


def dlpack_array(name: str, value: Any) -> ArraySource:
    """Describes an array that has ``__dlpack__``.

    The capsule is never renamed, so its own destructor frees the array at its end.
    """
    try:
        kind, number = (int(part) for part in value.__dlpack_device__())
    except Exception as error:
        raise _not_shared(name, f"__dlpack_device__ gives no pair of numbers: {error}") from None
    if kind not in _HOST_DEVICES:
        raise not_in_memory(name, f"the DLPack device {kind}:{number}")
    try:
        capsule = value.__dlpack__()
    except Exception as error:
        # Such as a read-only array, or a tensor that requires a gradient.
        raise _not_shared(name, error) from None
    try:
        address = _pointer_of(capsule, b"dltensor")
    except ValueError as error:
        raise _not_shared(name, f"__dlpack__ gives no capsule \"dltensor\": {error}") from None
    tensor = ctypes.cast(address, ctypes.POINTER(_DLTensor)).contents
    dtype = _dtypes.of_dlpack(tensor.code, tensor.bits, tensor.lanes)
    if dtype is None:
        what = f"DLPack code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes"
        raise unknown_type(name, what)
    shape = tuple(tensor.shape[index] for index in range(tensor.ndim))
    item_bytes = _dtypes.ITEM_BYTES[dtype]
    strides = (
        tuple(tensor.strides[index] * item_bytes for index in range(tensor.ndim))
        if tensor.strides
        else None
    )
    if not is_contiguous(shape, strides, item_bytes):
        return ArraySource(dtype, shape, _strided(name, value, dtype))
    size = count_of(shape) * item_bytes
    address = checked_address(name, value, tensor.data or 0, size) + tensor.byte_offset
    return ArraySource(dtype, shape, raw_copy(capsule, address, size))


def _not_shared(name: str, why: object) -> InvalidArgument:
    return InvalidArgument(f"array {name!r} cannot be shared by DLPack: {why}")


def _strided(name: str, value: Any, dtype: str) -> CopyInto:
    numpy = with_numpy(name, "is not contiguous")
    if dtype not in _dtypes.NUMPY_TYPES:
        raise unknown_type(name, f"{dtype} and is not contiguous")
    source = numpy.from_dlpack(value)

    def copy_into(target: memoryview) -> None:
        numpy.copyto(numpy.ndarray(source.shape, source.dtype, buffer=target), source)

    return copy_into
