"""Arrays between Python and C: numpy's where it is there, else array's."""

from __future__ import annotations

import array
import ctypes
from ctypes import c_double, c_float, c_int32, c_int64, c_uint8, c_uint32, c_uint64
from typing import Any, Dict, Iterable, Optional, Tuple

try:
    import numpy
except ImportError:  # everything works without, on plain Python arrays
    numpy = None  # type: ignore[assignment]

CODES: Dict[Any, Any] = {
    c_double: "d",
    c_float: "f",
    c_int32: "i",
    c_int64: "q",
    c_uint8: "B",
    c_uint32: "I",
    c_uint64: "Q",
}


def view(address: Optional[int], kind: Any, n: int, owner: Any) -> Any:
    """The n numbers at an address without a copy, read-only. owner is kept alive."""
    if not address or n == 0:
        return empty(kind, 0)
    buffer = (kind * n).from_address(address)
    buffer.owner = owner
    memory = memoryview(buffer).cast("B").cast(CODES[kind]).toreadonly()
    return memory if numpy is None else numpy.frombuffer(memory, CODES[kind])


def copy(address: Optional[int], kind: Any, n: int) -> Any:
    """A copy of the n numbers at an address."""
    result = empty(kind, n)
    if address and n:
        ctypes.memmove(pointer(result, kind), address, n * ctypes.sizeof(kind))
    return result


def empty(kind: Any, n: int, columns: Optional[int] = None) -> Any:
    """A new array of n numbers, or of n rows; rows are end to end without numpy."""
    if numpy is None:
        return array.array(CODES[kind], bytes(ctypes.sizeof(kind) * n * (columns or 1)))
    return numpy.zeros(n if columns is None else (n, columns), CODES[kind])


def as_array(values: Iterable[Any], kind: Any) -> Any:
    """values as an array of one dimension that C can read; itself where it fits."""
    if numpy is None:
        return array.array(CODES[kind], values)
    if not isinstance(values, numpy.ndarray) and CODES[kind] not in "df":
        # Of a list with large numbers numpy would make floats.
        values = numpy.array(array.array(CODES[kind], values))
    found = numpy.asarray(values if hasattr(values, "__len__") else list(values))
    if found.ndim != 1:
        raise ValueError(f"an array of one dimension is needed, not of {found.ndim}")
    if found.size and found.dtype.kind == "f" and CODES[kind] not in "df":
        raise TypeError("whole numbers are needed here")
    return numpy.ascontiguousarray(found, CODES[kind])


def pointer(values: Any, kind: Any) -> Any:
    """The address of an array made here, for ctypes; the array must stay alive."""
    address = (
        values.buffer_info()[0] if isinstance(values, array.array) else values.ctypes.data
    )
    return ctypes.cast(address, ctypes.POINTER(kind))


def given(values: Iterable[Any], kind: Any, n: Optional[int] = None) -> Tuple[Any, Any]:
    """(array, pointer) of an argument; n: the length it must have."""
    data = as_array(values, kind)
    if n is not None and len(data) != n:
        raise ValueError(f"{n} numbers are needed, not {len(data)}")
    return data, pointer(data, kind)
