"""Arrays of any library become one safetensors file."""

from __future__ import annotations

import array
import ctypes
import json
import math
import struct
import sys
import unittest
from typing import Any, Optional
from unittest import mock

import holdfast
from holdfast import _dtypes
from holdfast._arrays import find_array
from holdfast._loading import target_view
from holdfast._payload import Payload
from holdfast._reader import writable_bytes
from holdfast._safetensors import Entry, lay_out, parse_header

from .support import optional

np: Any = optional("numpy")
safetensors: Any = optional("safetensors.numpy")


def file_of(arrays: dict[str, Any]) -> bytes:
    """The file that a save would write."""
    sources = {name: find_array(name, value) for name, value in arrays.items()}
    layout = lay_out(sources)
    data = bytearray(layout.size)
    data[: len(layout.header)] = layout.header
    with memoryview(data) as view:
        for entry in layout.entries:
            with view[entry.offset : entry.offset + entry.size] as target:
                sources[entry.name].copy_into(target)
    return bytes(data)


def read(data: bytes) -> dict[str, tuple[str, list[int], bytes]]:
    """The arrays of a file, by the published description of the format alone."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    body = data[8 + length :]
    places = sorted(value["data_offsets"] for value in header.values())
    assert [begin for begin, _ in places] == [0, *[end for _, end in places][:-1]][: len(places)]
    return {
        name: (value["dtype"], value["shape"], body[slice(*value["data_offsets"])])
        for name, value in header.items()
    }


class Tensor:
    """Has what a torch.Tensor has, over memory of its own."""

    def __init__(self, data: bytes, shape: tuple[int, ...], dtype: str, **facts: Any) -> None:
        self._memory = ctypes.create_string_buffer(data, max(1, len(data)))
        self.shape = shape
        self.dtype = f"torch.{dtype}"
        self.layout = facts.get("layout", "torch.strided")
        self.device = type("device", (), {"type": facts.get("device", "cpu")})()
        self._twin: Optional[Tensor] = facts.get("twin")
        self._conjugate: Optional[Tensor] = facts.get("conjugate")

        self._bytes = facts.get("storage_bytes", len(data))
        self.is_nested = facts.get("is_nested", False)

    def data_ptr(self) -> int:
        return 0 if self._bytes == 0 else ctypes.addressof(self._memory)

    def element_size(self) -> int:
        return _dtypes.ITEM_BYTES[_dtypes.of_torch(self.dtype) or "U8"]

    def untyped_storage(self) -> Any:
        return type("storage", (), {"nbytes": lambda _: self._bytes})()

    def storage_offset(self) -> int:
        return 0

    def stride(self) -> tuple[int, ...]:
        return tuple(math.prod(self.shape[dim + 1 :]) for dim in range(len(self.shape)))

    def is_contiguous(self) -> bool:
        return self._twin is None

    def contiguous(self) -> "Tensor":
        assert self._twin is not None
        return self._twin

    def is_conj(self) -> bool:
        return self._conjugate is not None

    def resolve_conj(self) -> "Tensor":
        assert self._conjugate is not None
        return self._conjugate


class _Storage:
    """The memory of a tensor, as ``untyped_storage`` returns it."""

    def data_ptr(self) -> int:
        raise AssertionError("a storage has no type, so its bytes are not looked for")

    def element_size(self) -> int:
        return 1


class _Capsules:
    """An object with __dlpack__, made by hand as in dlpack.h."""

    class Raw(ctypes.Structure):
        _fields_ = [
            ("data", ctypes.c_void_p),
            ("device", ctypes.c_int32 * 2),
            ("ndim", ctypes.c_int32),
            ("code", ctypes.c_uint8),
            ("bits", ctypes.c_uint8),
            ("lanes", ctypes.c_uint16),
            ("shape", ctypes.POINTER(ctypes.c_int64)),
            ("strides", ctypes.POINTER(ctypes.c_int64)),
            ("offset", ctypes.c_uint64),
            ("context", ctypes.c_void_p),
            ("deleter", ctypes.c_void_p),
        ]

    def __init__(self, data: bytes, kind: tuple[int, int, int], device: int = 1, offset: int = 0) -> None:
        self._memory = ctypes.create_string_buffer(b"#" * offset + data)
        self._shape = (ctypes.c_int64 * 1)(len(data) * 8 // kind[1])
        self._device = device
        self._raw = _Capsules.Raw(
            ctypes.addressof(self._memory), (device, 0), 1, *kind, self._shape, None, offset
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device, 0

    def __dlpack__(self) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self._raw), b"dltensor", None)


class Refusals(unittest.TestCase):
    def refused(self, value: Any, kind: type[Exception], words: str) -> None:
        with self.assertRaisesRegex(kind, words):
            Payload(None, None, {"w": value}, "a.safetensors")


class Layout(unittest.TestCase):
    def test_the_buffer_protocol_gives_types_shapes_and_bytes(self) -> None:
        letters = {"b": "I8", "B": "U8", "h": "I16", "H": "U16", "i": "I32", "I": "U32"}
        letters.update({"q": "I64", "Q": "U64", "f": "F32", "d": "F64"})
        arrays: dict[str, Any] = {one: array.array(one, [1, 2, 3]) for one in letters}
        got = read(file_of(arrays))
        for one, dtype in letters.items():
            self.assertEqual(got[one], (dtype, [3], arrays[one].tobytes()))

    def test_bytes_of_two_dimensions_bools_and_numbers_without_dimension(self) -> None:
        grid = memoryview(bytes(range(6))).cast("B", (2, 3))
        flags = memoryview(b"\1\0").cast("?")
        got = read(file_of({"g": grid, "f": flags, "n": ctypes.c_double(2.5)}))
        self.assertEqual(got["g"], ("U8", [2, 3], bytes(range(6))))
        self.assertEqual(got["f"], ("BOOL", [2], b"\1\0"))
        self.assertEqual(got["n"], ("F64", [], struct.pack("<d", 2.5)))

    def test_the_elements_begin_at_a_multiple_of_64_and_are_aligned_to_their_width(self) -> None:
        arrays: dict[str, Any] = {"a": array.array("b", [1]), "b": array.array("d", [2]), "c": array.array("h", [3])}
        layout = lay_out({name: find_array(name, value) for name, value in arrays.items()})
        self.assertEqual(len(layout.header) % 64, 0)
        for entry in layout.entries:
            self.assertEqual(entry.offset % arrays[entry.name].itemsize, 0, entry)

    def test_no_array_and_empty_arrays_are_files_too(self) -> None:
        self.assertEqual(read(file_of({})), {})
        empty = memoryview(bytearray()).cast("f")
        got = read(file_of({"e": empty, "z": array.array("d"), "x": array.array("i", [7])}))
        self.assertEqual(got["e"], ("F32", [0], b""))
        self.assertEqual(got["z"], ("F64", [0], b""))
        self.assertEqual(got["x"][2], struct.pack("<i", 7))

    def test_the_same_arrays_in_another_order_give_the_same_header(self) -> None:
        one, two = array.array("f", [1]), array.array("f", [2])
        self.assertEqual(file_of({"a": one, "b": two}), file_of({"b": two, "a": one}))

    def test_names_of_any_script_are_kept(self) -> None:
        name = 'größe "嵌入" \n'
        self.assertEqual(list(read(file_of({name: b"x"}))), [name])

    def test_a_header_that_describes_no_arrays_is_damaged(self) -> None:
        def of(shape: object, size: int, end: object = None) -> tuple[bytes, int]:
            places = [0, size if end is None else end]
            array = {"dtype": "F32", "shape": shape, "data_offsets": places}
            return json.dumps({"a": array}).encode(), size

        for header, size in (
            (b"[" * 200_000, 4),
            (b'{"a":' * 100_000, 4),
            (b"[]", 0),
            (b'{"a": 1}', 4),
            of([1.0], 4),
            of([True], 4),
            of([1], 4, end="4"),
            of([-1], 0),
            of([1], 8),
            of([1 << 62, 4, 0], 0),
            of([1] * 65, 4),
            of([1 << 70, 0], 0),
        ):
            # Only the header is wrong: the file is as long as it says.
            with self.subTest(header[:80]), self.assertRaisesRegex(holdfast.Corrupt, "no safetensors header"):
                parse_header(header, "f", 8 + len(header) + size)

    def test_a_header_longer_than_the_format_allows_is_refused(self) -> None:
        source = find_array("w", b"")
        with mock.patch("holdfast._safetensors.HEADER_BYTES_MAX", 1000):
            with self.assertRaisesRegex(holdfast.InvalidArgument, "the format allows 1000"):
                lay_out({f"w{number}": source for number in range(100)})


class Tensors(Refusals):
    def test_tensors_of_each_type_are_copied_from_their_address(self) -> None:
        types = {"bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}
        types.update({"float32": "F32", "int64": "I64", "bool": "BOOL", "complex64": "C64"})
        for dtype, name in types.items():
            source = find_array("t", Tensor(bytes(range(16)), (), dtype))
            width = source.size
            tensor = Tensor(bytes(range(16)), (16 // width,), dtype)
            self.assertEqual(read(file_of({"t": tensor}))["t"], (name, [16 // width], bytes(range(16))))

    def test_one_that_is_not_contiguous_or_conjugated_is_resolved_by_its_own_library(self) -> None:
        right = Tensor(b"abcd", (2, 2), "uint8")
        strided = Tensor(b"acbd", (2, 2), "uint8", twin=right)
        self.assertEqual(read(file_of({"t": strided}))["t"][2], b"abcd")
        marked = Tensor(b"????", (2, 2), "uint8", conjugate=strided)
        self.assertEqual(read(file_of({"t": marked}))["t"][2], b"abcd")

    def test_an_empty_tensor_may_have_no_address(self) -> None:
        self.assertEqual(read(file_of({"t": Tensor(b"", (0, 3), "float32")}))["t"], ("F32", [0, 3], b""))

    def test_a_tensor_that_is_elsewhere_sparse_or_distributed_is_refused(self) -> None:
        self.refused(Tensor(b"", (0,), "float32", device="cuda"), holdfast.InvalidArgument, r"tensor.cpu\(\)")
        self.refused(Tensor(b"", (0,), "float32", device="meta"), holdfast.InvalidArgument, "'w' is on")
        sparse = Tensor(b"", (0,), "float32", layout="torch.sparse_coo")
        self.refused(sparse, holdfast.InvalidArgument, "dense")
        parted = Tensor(b"", (0,), "float32")
        parted.to_local = None  # type: ignore[attr-defined]
        self.refused(parted, holdfast.InvalidArgument, "to_local")
        nested = Tensor(b"ab", (2,), "uint8", is_nested=True)
        self.refused(nested, holdfast.InvalidArgument, "'w' is nested.*unbind")

    def test_one_whose_elements_are_not_in_memory_is_refused(self) -> None:
        for data, storage_bytes in ((b"abcd", 0), (b"abcd", 3)):
            freed = Tensor(data, (4,), "uint8", storage_bytes=storage_bytes)
            self.refused(freed, holdfast.InvalidArgument, "'w', a Tensor, has no memory of its own")

        def no_storage() -> None:
            raise NotImplementedError("Cannot access storage of BatchedTensorImpl")

        wrapper = Tensor(b"abcd", (4,), "uint8")
        wrapper.untyped_storage = no_storage  # type: ignore[method-assign]
        self.refused(wrapper, holdfast.InvalidArgument, "'w', a Tensor, has no memory of its own")

    def test_a_type_that_safetensors_does_not_have_is_refused(self) -> None:
        self.refused(Tensor(b"", (0,), "qint8"), holdfast.InvalidArgument, "torch.qint8.*accepted are bool")


class Dlpack(Refusals):
    def test_an_array_on_the_cpu_is_copied_from_its_offset(self) -> None:
        values = struct.pack("<3f", 1, 2, 3)
        got = read(file_of({"d": _Capsules(values, (2, 32, 1), offset=4)}))
        self.assertEqual(got["d"], ("F32", [3], values))
        got = read(file_of({"d": _Capsules(b"abcd", (4, 16, 1), device=3)}))
        self.assertEqual(got["d"], ("BF16", [2], b"abcd"))

    def test_other_devices_and_types_are_refused(self) -> None:
        self.refused(_Capsules(b"", (2, 32, 1), device=2), holdfast.InvalidArgument, "DLPack device 2:0")
        self.refused(_Capsules(b"", (5, 128, 1)), holdfast.InvalidArgument, "128 bits")
        self.refused(_Capsules(b"", (2, 32, 4)), holdfast.InvalidArgument, "4 lanes")

    def test_one_without_an_address_is_refused(self) -> None:
        value = _Capsules(b"abcd", (1, 8, 1))
        value._raw.data = None
        self.refused(value, holdfast.InvalidArgument, "'w', a _Capsules, has no memory of its own")

    def test_one_without_a_capsule_or_a_device_is_refused(self) -> None:
        def fails() -> None:
            raise LookupError("no device")

        for facts, words in (
            ({"__dlpack__": lambda _: 5}, "__dlpack__ gives no capsule"),
            ({"__dlpack__": lambda _: fails()}, "by DLPack: no device"),
            ({"__dlpack_device__": lambda _: "cpu"}, "__dlpack_device__ gives no pair of numbers"),
            ({"__dlpack_device__": None}, "__dlpack_device__ gives no pair of numbers"),
        ):
            plain = {"__dlpack__": lambda _: None, "__dlpack_device__": lambda _: (1, 0)}
            value = type("Odd", (), {**plain, **facts})()
            self.refused(value, holdfast.InvalidArgument, words)

    def test_one_that_is_not_contiguous_without_numpy_is_refused(self) -> None:
        value = _Capsules(b"abcdefgh", (1, 8, 1))
        strides = (ctypes.c_int64 * 1)(2)
        value._shape[0] = 4
        value._raw.strides = strides
        with mock.patch.dict(sys.modules, numpy=None):
            self.refused(value, holdfast.Unsupported, "'w' is not contiguous; install numpy")


class Interfaces(Refusals):
    def test_one_without_an_address_with_a_mask_or_with_a_negative_side_is_refused(self) -> None:
        memory = ctypes.create_string_buffer(b"abcd")
        plain = {"version": 3, "typestr": "|u1", "shape": (4,), "data": (ctypes.addressof(memory), False)}
        for change, words in (
            ({"data": (0, False)}, "'w', a Other, has no memory of its own"),
            ({"data": (None, False)}, "'w', a Other, has no memory of its own"),
            ({"mask": memory}, "'w' is masked"),
            ({"typestr": 3}, "'w': expected an __array_interface__ with a typestr"),
            ({"shape": 4}, "'w': expected an __array_interface__"),
            ({"strides": (1, 1)}, "'w': expected an __array_interface__"),
            ({"data": ("1", False)}, "'w': expected an __array_interface__"),
            ({"shape": (-1,)}, r"'w' has the shape \[-1\]; no side can be negative"),
        ):
            value = type("Other", (), {"__array_interface__": {**plain, **change}})()
            self.refused(value, holdfast.InvalidArgument, words)
        value = type("Other", (), {"__array_interface__": None})()
        self.refused(value, holdfast.InvalidArgument, "'w': expected an __array_interface__")
        same = type("Other", (), {"__array_interface__": plain})()
        self.assertEqual(read(file_of({"w": same}))["w"], ("U8", [4], b"abcd"))


    @unittest.skipIf(np is None, "numpy is not installed")
    def test_one_whose_elements_are_in_a_buffer_is_read_by_numpy_if_there_is_one(self) -> None:
        plain: dict[str, Any] = {"version": 3, "typestr": "|u1", "shape": (4,), "data": None}
        value = type("Other", (), {"__array_interface__": plain})()
        self.refused(value, holdfast.InvalidArgument, "'w' has no address .* NumPy cannot read it")
        plain["data"] = b"abcd"
        self.assertEqual(read(file_of({"w": value}))["w"], ("U8", [4], b"abcd"))


class Objects(Refusals):
    """An array of objects has only their addresses. Read back, they would be of freed memory."""

    def test_objects_are_refused_wherever_a_buffer_is_passed(self) -> None:
        class Member(ctypes.Structure):
            _fields_ = [("number", ctypes.c_int), ("value", ctypes.py_object)]

        class Packed(ctypes.Structure):
            _pack_ = 1
            _layout_ = "ms"
            _fields_ = [("letter", ctypes.c_char), ("members", Member * 2)]

        class Either(ctypes.Union):
            _fields_ = [("number", ctypes.c_int), ("value", ctypes.py_object)]

        pair: Any = ctypes.py_object * 2

        values: list[Any] = [ctypes.py_object(1), pair(), Member(), Packed(), Either()]
        if np is not None:
            values += [
                np.array([{}], dtype=object),
                np.zeros(2, [("a", "i4"), ("b", "O")]),
                np.zeros(2, [("a", [("b", "O", (2,))])]),
                memoryview(np.array([{}], dtype=object)),
            ]
        entry = Entry("w", "U64", (1,), 0, 8)
        for value in values:
            for call in (
                lambda: Payload(buffers={"w": value}),
                lambda: writable_bytes(value),
            ):
                with self.assertRaisesRegex(holdfast.InvalidArgument, "holds Python objects.*pickle"):
                    call()
            with self.assertRaises(holdfast.InvalidArgument):
                find_array("w", value)
            with self.assertRaises(holdfast.InvalidArgument):
                target_view("w", value, entry)

    def test_a_field_whose_name_looks_like_objects_is_no_object(self) -> None:
        class Named(ctypes.Structure):
            _fields_ = [("O", ctypes.c_int), ("Owner", ctypes.c_int)]

        self.assertEqual(Payload(buffers={"w": Named()}).size, 4096)
        self.assertEqual(writable_bytes(Named()).nbytes, 8)


class Buffers(Refusals):
    def test_what_is_no_array_is_refused_by_its_name(self) -> None:
        self.refused(_Storage(), holdfast.InvalidArgument, "_Storage, which is no array")
        self.refused([1.0], holdfast.InvalidArgument, "array 'w' is of type list, which is no array")
        self.refused(None, holdfast.InvalidArgument, "of type NoneType")
        self.refused("text", holdfast.InvalidArgument, "of type str")

    def test_types_of_the_buffer_protocol_that_safetensors_does_not_have(self) -> None:
        class Pair(ctypes.Structure):
            _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_int)]

        self.refused(Pair(), holdfast.InvalidArgument, "which safetensors does not have")
        self.refused(ctypes.c_longdouble(1), holdfast.InvalidArgument, "has the type")
        self.refused((ctypes.py_object * 1)(), holdfast.InvalidArgument, "Python objects")

    def test_big_endian_and_strided_buffers_without_numpy_are_refused(self) -> None:
        big = (ctypes.c_double.__ctype_be__ * 2)(1.5, 2.5)
        with mock.patch.dict(sys.modules, numpy=None):
            self.refused(big, holdfast.Unsupported, "'w' is big-endian; install numpy")
            strided = memoryview(b"abcd")[::2]
            self.refused(strided, holdfast.Unsupported, "'w' is not contiguous; install numpy")

    def test_a_gpu_array_without_dlpack_is_refused(self) -> None:
        value = type("Gpu", (), {"__cuda_array_interface__": {}})()
        self.refused(value, holdfast.InvalidArgument, "is on a GPU")

    def test_the_name_of_the_metadata_is_kept_for_the_format(self) -> None:
        with self.assertRaisesRegex(holdfast.InvalidArgument, "__metadata__"):
            Payload(None, None, {"__metadata__": b""}, "a")


@unittest.skipIf(np is None, "numpy is not installed")
class Numpy(Refusals):
    def test_arrays_of_each_type_are_those_that_numpy_has(self) -> None:
        for kind in ("?", "i1", "u1", "i2", "u2", "f2", "i4", "u4", "f4", "i8", "u8", "f8", "c8"):
            value = np.arange(6).reshape(2, 3).astype(kind)
            self.assertEqual(read(file_of({"n": value}))["n"][1:], ([2, 3], value.tobytes()), kind)

    def test_views_fortran_order_and_big_endian_come_out_in_the_order_of_the_file(self) -> None:
        base = np.arange(24, dtype="f4").reshape(4, 6)
        values = [base[::2], base.T, base[:, ::-1], np.asfortranarray(base), base.astype(">f4")]
        values += [np.broadcast_to(base[0], (3, 6)), base.astype(">f4")[::2], base[:, 2:4]]
        for value in values:
            expected = np.ascontiguousarray(value).astype("<f4")
            got = read(file_of({"n": value}))["n"]
            self.assertEqual(got, ("F32", list(value.shape), expected.tobytes()))

    def test_a_scalar_of_numpy_is_the_number_it_is(self) -> None:
        for value in (np.float64(0.1), np.int64(-7), np.float32(2.5), np.bool_(True)):
            got = read(file_of({"n": value}))["n"]
            self.assertEqual(got[1:], ([], value.tobytes()))

    def test_a_scalar_of_numpy_cannot_be_filled_in_place(self) -> None:
        entry = Entry("w", "F64", (), 0, 8)
        with self.assertRaisesRegex(holdfast.InvalidArgument, "float64, which cannot be filled"):
            target_view("w", np.float64(1), entry)

    def test_big_endian_buffers_and_strided_capsules_go_through_numpy(self) -> None:
        big = (ctypes.c_double.__ctype_be__ * 2)(1.5, 2.5)
        self.assertEqual(read(file_of({"b": big}))["b"], ("F64", [2], struct.pack("<2d", 1.5, 2.5)))

        class OnlyDlpack:
            def __init__(self, value: Any) -> None:
                self.value = value

            def __dlpack__(self, **options: Any) -> Any:
                return self.value.__dlpack__(**options)

            def __dlpack_device__(self) -> Any:
                return self.value.__dlpack_device__()

        value = np.arange(12, dtype="i2").reshape(3, 4)
        self.assertEqual(read(file_of({"d": OnlyDlpack(value)}))["d"][2], value.tobytes())
        self.assertEqual(read(file_of({"d": OnlyDlpack(value.T)}))["d"][2], value.T.tobytes())
        value.flags.writeable = False
        given = OnlyDlpack(value)
        given.__dlpack__ = mock.Mock(side_effect=BufferError("it is read-only"))  # type: ignore
        with self.assertRaisesRegex(holdfast.InvalidArgument, "by DLPack: it is read-only"):
            file_of({"d": given})

    def test_scalars_and_arrays_of_one_row_are_contiguous(self) -> None:
        got = read(file_of({"s": np.float32(3), "r": np.ones((1, 4), "f4")[:, :]}))
        self.assertEqual(got["s"], ("F32", [], np.float32(3).tobytes()))

    def test_each_type_that_cannot_be_saved_has_its_own_error(self) -> None:
        self.refused(np.array([object()]), holdfast.InvalidArgument, "holds Python objects")
        for value in (
            np.zeros(1, "c16"),
            np.zeros(1, "M8[s]"),
            np.array(["text"]),
            np.zeros(1, "S3"),
            np.zeros(1, [("a", "f4")]),
            np.zeros(1, np.longdouble),
        ):
            self.refused(value, holdfast.InvalidArgument, "array 'w' has the type .* accepted are bool")
        self.refused(np.ma.masked_array([1.0], [True]), holdfast.InvalidArgument, "is masked")
        kind = type("Own", (np.ma.MaskedArray,), {})
        self.refused(kind([1.0], mask=[True]), holdfast.InvalidArgument, "is masked")

    def test_an_array_of_a_class_of_its_own_may_have_a_mask_that_is_not_numpys(self) -> None:
        kind = type("Own", (np.ndarray,), {"mask": None})
        self.assertIn(np.ones(2).tobytes(), file_of({"a": np.ones(2).view(kind)}))

    @unittest.skipIf(safetensors is None, "safetensors is not installed")
    def test_the_library_of_safetensors_reads_the_file(self) -> None:
        arrays = {"a": np.arange(5, dtype="f8"), "b": np.ones((2, 0), "f4"), "c": np.array(7, "i1")}
        got = safetensors.load(file_of(arrays))
        self.assertEqual(sorted(got), sorted(arrays))
        for name, value in arrays.items():
            self.assertEqual(got[name].dtype, value.dtype)
            self.assertTrue(np.array_equal(got[name], value))

    @unittest.skipIf(safetensors is None, "safetensors is not installed")
    def test_the_header_that_the_library_writes_is_read(self) -> None:
        data = safetensors.save({"a": np.arange(5, dtype="f8"), "b": np.ones(3, "?")}, {"k": "v"})
        (length,) = struct.unpack("<Q", data[:8])
        entries = parse_header(data[8 : 8 + length], "f", len(data))
        self.assertEqual([(one.name, one.dtype) for one in entries], [("a", "F64"), ("b", "BOOL")])


if __name__ == "__main__":
    unittest.main()
