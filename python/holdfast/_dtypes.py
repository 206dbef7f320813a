"""Names of data types: those of safetensors, NumPy, the buffer protocol, DLPack and torch."""

from __future__ import annotations

from typing import Mapping, Optional

#: Bytes of one element, by the name in a safetensors file.
ITEM_BYTES: Mapping[str, int] = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "F8_E8M0": 1,
    "U16": 2,
    "I16": 2,
    "F16": 2,
    "BF16": 2,
    "U32": 4,
    "I32": 4,
    "F32": 4,
    "C64": 8,
    "U64": 8,
    "I64": 8,
    "F64": 8,
}

# A kind of NumPy and a size in bytes. Complex numbers of 16 bytes have no name in safetensors.
_BY_KIND: Mapping[str, str] = {
    "b1": "BOOL",
    "u1": "U8",
    "i1": "I8",
    "u2": "U16",
    "i2": "I16",
    "f2": "F16",
    "u4": "U32",
    "i4": "I32",
    "f4": "F32",
    "c8": "C64",
    "u8": "U64",
    "i8": "I64",
    "f8": "F64",
}

#: The NumPy type string of each name that NumPy has.
NUMPY_TYPES: Mapping[str, str] = {name: f"<{kind}" for kind, name in _BY_KIND.items()}

#: Names of the package ``ml_dtypes``, which NumPy calls void.
ML_DTYPES: Mapping[str, str] = {
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
}

_TORCH: Mapping[str, str] = {
    **ML_DTYPES,
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "float16": "F16",
    "uint32": "U32",
    "int32": "I32",
    "float32": "F32",
    "complex64": "C64",
    "uint64": "U64",
    "int64": "I64",
    "float64": "F64",
}

# The code of a DLPack type and its bits.
_DLPACK: Mapping[tuple[int, int], str] = {
    **{(0, bits): f"I{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"U{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"F{bits}" for bits in (16, 32, 64)},
    (4, 16): "BF16",
    (5, 64): "C64",
    (6, 8): "BOOL",
    (10, 8): "F8_E4M3",
    (12, 8): "F8_E5M2",
    (14, 8): "F8_E8M0",
}

_BUFFER_KINDS: Mapping[str, str] = {
    "?": "b",
    "c": "u",
    **{letter: "i" for letter in "bhilqn"},
    **{letter: "u" for letter in "BHILQN"},
    **{letter: "f" for letter in "efd"},
    "Zf": "c",
    "Zd": "c",
}

#: The format of the buffer protocol of each name that it has.
BUFFER_FORMATS: Mapping[str, str] = {
    "BOOL": "?",
    "U8": "B",
    "I8": "b",
    "U16": "H",
    "I16": "h",
    "U32": "I",
    "I32": "i",
    "F32": "f",
    "U64": "Q",
    "I64": "q",
    "F64": "d",
}

ACCEPTED = "bool, int8 to int64, uint8 to uint64, float16, float32, float64, complex64, bfloat16, float8"


def of_numpy(typestr: str, name: str) -> Optional[str]:
    """``typestr`` as in ``__array_interface__``; ``name`` as in ``dtype.name``, or empty."""
    if typestr[1:2] in ("V", "f") and name in ML_DTYPES:
        return ML_DTYPES[name]
    return _BY_KIND.get(typestr[1:])


def of_buffer(letters: str, item_bytes: int) -> Optional[str]:
    """``letters``: the format of a ``memoryview`` without the sign of its byte order."""
    kind = _BUFFER_KINDS.get(letters)
    return _BY_KIND.get(f"{kind}{item_bytes}") if kind else None


def of_dlpack(code: int, bits: int, lanes: int) -> Optional[str]:
    return _DLPACK.get((code, bits)) if lanes == 1 else None


def of_torch(dtype: object) -> Optional[str]:
    """``dtype``: as ``torch.float32``, which prints as its name."""
    return _TORCH.get(str(dtype).rpartition(".")[2])
