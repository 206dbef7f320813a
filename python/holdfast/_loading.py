"""Reads arrays out of a safetensors file of a checkpoint."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from . import _dtypes
from ._arguments import items_of
from ._array_source import checked_address, interface_of, is_contiguous, optional_module
from ._arrays import is_numpy_scalar
from .checkpoint import Which
from ._reader import Reader, Version
from ._safetensors import LENGTH_BYTES, Entry, header_bytes, parse_header
from ._tensors import require_memory, require_plain_tensor, unresolved_marks
from ._views import holds_objects, view_of
from .errors import InvalidArgument, NotFound

# The header of most models is shorter. Then one request reads it with its length.
_FIRST_BYTES = 64 << 10


def load_arrays(
    reader: Reader,
    version: Optional[Which],
    name: str,
    into: Optional[Mapping[str, Any]],
    deadline: float,
    timeout: float,
) -> dict[str, Any]:
    """See ``Run.load_arrays``. ``deadline``: of the first answers. ``timeout``: of each read."""
    found, file = reader.find(version, name, deadline)
    size = file.size_bytes
    entries = _entries(reader, found, name, size, timeout)
    if into is not None:
        return _fill(reader, found, name, entries, into, timeout)
    start = entries[0].offset if entries else size
    data = memoryview(bytearray(size - start))
    reader.read_ranges(found, name, start, [data], timeout)
    return {
        entry.name: _array_of(entry, data[entry.offset - start :][: entry.size])
        for entry in entries
    }


def _entries(reader: Reader, version: Version, name: str, size: int, timeout: float) -> list[Entry]:
    first = memoryview(bytearray(min(size, _FIRST_BYTES)))
    reader.read_ranges(version, name, 0, [first], timeout)
    length = header_bytes(bytes(first[:LENGTH_BYTES]), name, size)
    header = bytearray(length)
    there = first[LENGTH_BYTES : LENGTH_BYTES + length]
    header[: there.nbytes] = there
    rest = memoryview(header)[there.nbytes :]
    reader.read_ranges(version, name, LENGTH_BYTES + there.nbytes, [rest], timeout)
    rest.release()
    return parse_header(bytes(header), name, size)


def _fill(
    reader: Reader,
    version: Version,
    name: str,
    entries: list[Entry],
    into: Mapping[str, Any],
    timeout: float,
) -> dict[str, Any]:
    """Fills the given arrays in place. Arrays that follow each other share one request."""
    by_name = {entry.name: entry for entry in entries}
    # Taken once and kept: a mapping may make its values when it is asked, as that of ``numpy.load``.
    arrays = dict(items_of("into", into))
    for key in arrays:
        if key not in by_name:
            raise NotFound(f"{name!r} has no array {key!r}", {"file": name, "array": key})
    targets = {key: target_view(key, value, by_name[key]) for key, value in arrays.items()}
    twins = _set_twins_apart(targets)
    wanted = sorted((by_name[key] for key in arrays), key=lambda entry: (entry.offset, entry.size))
    row: list[Entry] = []
    for entry in [*wanted, None]:
        if entry is not None and (not row or row[-1].offset + row[-1].size == entry.offset):
            row.append(entry)
            continue
        views = [targets[one.name] for one in row]
        if row:
            reader.read_ranges(version, name, row[0].offset, views, timeout)
        row = [] if entry is None else [entry]
    for twin, other in twins:
        if targets[twin] != targets[other]:
            raise InvalidArgument(
                f"into: the arrays {other!r} and {twin!r} are the same memory, and {name!r} has other "
                "elements for each"
            )
    return arrays


def _set_twins_apart(targets: dict[str, memoryview]) -> list[tuple[str, str]]:
    """Finds names of the same memory, such as tied weights: each with the name that is read into it.

    The other names get memory of their own, and are compared with it. ``InvalidArgument``: two
    arrays share only a part of their memory, so one would overwrite the other.
    """
    from ._memory import address_of

    places = []
    for key, view in targets.items():
        with address_of(view) as address:
            places.append((address, view.nbytes, key))
    twins: list[tuple[str, str]] = []
    last, size, owner = 0, 0, ""
    for start, length, key in sorted(place for place in places if place[1] > 0):
        if (start, length) == (last, size):
            targets[key] = memoryview(bytearray(length))
            twins.append((key, owner))
        elif start < last + size:
            raise InvalidArgument(
                f"into: the arrays {owner!r} and {key!r} share memory, so one would overwrite the other"
            )
        else:
            last, size, owner = start, length, key
    return twins


def target_view(name: str, value: Any, entry: Entry) -> memoryview:
    """The memory of an array that is to be filled.

    ``InvalidArgument``: it has another type or shape, is not contiguous, or is read-only.
    """
    dtype, shape, address = _described(name, value)
    if dtype != entry.dtype or shape != entry.shape:
        raise InvalidArgument(
            f"into: array {name!r} is {dtype or 'another type'} {list(shape)}, and the file has {entry.dtype} "
            f"{list(entry.shape)}"
        )
    if entry.size == 0:
        return memoryview(bytearray())
    from ._memory import view_at

    return view_at(checked_address(name, value, address, entry.size), entry.size)


def _described(name: str, value: Any) -> tuple[Optional[str], tuple[int, ...], int]:
    """Type, shape and address."""
    if hasattr(value, "data_ptr") and hasattr(value, "element_size"):
        require_plain_tensor(name, value)
        require_memory(name, value)
        if not value.is_contiguous():
            raise _not_in_a_row(name)
        marks = unresolved_marks(value)
        if marks:
            raise InvalidArgument(
                f"into: array {name!r} shows the memory of another tensor with changed signs, "
                f"so it cannot be filled in place; pass tensor.{marks[0]}()"
            )
        return _dtypes.of_torch(value.dtype), tuple(value.shape), int(value.data_ptr())
    if is_numpy_scalar(value):
        raise InvalidArgument(
            f"into: array {name!r} is a {type(value).__name__}, which cannot be filled in place; "
            "pass an array without dimensions, such as numpy.zeros(())"
        )
    if hasattr(value, "__array_interface__"):
        return _of_interface(name, value)
    view = view_of(
        f"into: array {name!r}",
        value,
        f"into: array {name!r} is a {type(value).__name__}, which cannot be filled in place",
    )
    if view.readonly or not view.c_contiguous:
        raise _not_in_a_row(name)
    from ._memory import address_of

    with address_of(view, writable=True) as address:
        letters = view.format.lstrip("@=<")
        return _dtypes.of_buffer(letters, view.itemsize), tuple(view.shape or ()), address


def _of_interface(name: str, value: Any) -> tuple[Optional[str], tuple[int, ...], int]:
    interface = interface_of(name, value)
    typestr, shape = interface.typestr, interface.shape
    if typestr[1:2] == "O":
        raise holds_objects(f"into: array {name!r}")
    dtype = _dtypes.of_numpy(typestr, str(getattr(getattr(value, "dtype", None), "name", "")))
    is_row = dtype is None or is_contiguous(shape, interface.strides, _dtypes.ITEM_BYTES[dtype])
    if interface.address is None or interface.is_readonly or not is_row or typestr[0] == ">":
        raise _not_in_a_row(name)
    return dtype, shape, interface.address


def _not_in_a_row(name: str) -> InvalidArgument:
    return InvalidArgument(
        f"into: array {name!r} must be writable, contiguous and little-endian to be filled in place"
    )


def _array_of(entry: Entry, data: memoryview) -> Any:
    """A NumPy array if NumPy is installed, else a ``memoryview``."""
    numpy = optional_module("numpy")
    if numpy is None:
        return _view_of(entry, data)
    known = _dtypes.NUMPY_TYPES.get(entry.dtype)
    dtype = numpy.dtype(known) if known else _ml_dtype(numpy, entry)
    if dtype is None:
        # Bare bytes: NumPy has no arithmetic for this type, and must not use another type's.
        dtype = numpy.dtype(f"V{_dtypes.ITEM_BYTES.get(entry.dtype, 1)}")
    if entry.dtype not in _dtypes.ITEM_BYTES:
        return numpy.frombuffer(data, dtype)
    return numpy.frombuffer(data, dtype).reshape(entry.shape)


def _ml_dtype(numpy: Any, entry: Entry) -> Any:
    names = {mark: name for name, mark in _dtypes.ML_DTYPES.items()}
    kind = getattr(optional_module("ml_dtypes"), names.get(entry.dtype, ""), None)
    return None if kind is None else numpy.dtype(kind)


def _view_of(entry: Entry, data: memoryview) -> memoryview:
    letter = _dtypes.BUFFER_FORMATS.get(entry.dtype)
    if letter is None or entry.size == 0:
        return data
    typed: Any = data
    view: memoryview = typed.cast(letter, entry.shape) if entry.shape else typed.cast(letter)
    return view
