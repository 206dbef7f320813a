"""Copies bytes between addresses without holding the interpreter's lock.

A copy of 1 GiB takes a quarter of a second. ``ctypes`` releases the lock meanwhile, so the other
threads of the trainer continue. A slice assignment of ``memoryview`` would stop them.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import TYPE_CHECKING, Iterator

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

# A copy is made in slices, because Python handles signals between two of them.
_SLICE_BYTES = 256 << 20
_PYBUF_SIMPLE = 0
_PYBUF_WRITABLE = 1
_PYBUF_WRITE = 0x200


class _PyBuffer(ctypes.Structure):
    """``Py_buffer`` of CPython's stable ABI."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_get_buffer.restype = ctypes.c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_PyBuffer)]
_release_buffer.restype = None
_view_of_memory = ctypes.pythonapi.PyMemoryView_FromMemory
_view_of_memory.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]
_view_of_memory.restype = ctypes.py_object


@contextmanager
def address_of(buffer: ReadableBuffer, writable: bool = False) -> Iterator[int]:
    """The address of a C-contiguous buffer. It stays valid inside the ``with`` block.

    ``BufferError``: the buffer is not contiguous, or not writable if that is required.
    """
    held = _PyBuffer()
    try:
        # Inside the `try`, because a signal handler may raise right after it. The release of a
        # buffer that is not held does nothing.
        _get_buffer(buffer, held, _PYBUF_WRITABLE if writable else _PYBUF_SIMPLE)
        yield held.buf or 0
    finally:
        _release_buffer(held)


def view_at(address: int, size: int) -> memoryview:
    """A writable view of ``size`` bytes at ``address``. The caller keeps their owner alive."""
    view: memoryview = _view_of_memory(address, size, _PYBUF_WRITE)
    return view


def copy_from_address(target: WriteableBuffer, address: int, size: int) -> None:
    """Copies ``size`` bytes from ``address`` to the beginning of ``target``."""
    if memoryview(target).nbytes < size:
        raise ValueError(f"{size} bytes do not fit into {memoryview(target).nbytes}")
    held = _PyBuffer()
    # Not by `address_of`: a signal handler that raises could end the context manager before it
    # releases the buffer.
    try:
        _get_buffer(target, held, _PYBUF_WRITABLE)
        start = held.buf or 0
        for done in range(0, size, _SLICE_BYTES):
            ctypes.memmove(start + done, address + done, min(_SLICE_BYTES, size - done))
    finally:
        _release_buffer(held)


def copy_buffer(target: WriteableBuffer, source: ReadableBuffer) -> None:
    """Copies a C-contiguous buffer to the beginning of ``target``."""
    held = _PyBuffer()
    try:
        _get_buffer(source, held, _PYBUF_SIMPLE)
        copy_from_address(target, held.buf or 0, memoryview(source).nbytes)
    finally:
        _release_buffer(held)
