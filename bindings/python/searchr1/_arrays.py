"""Arrays between Python and C: numpy's where it is there, else array's."""

from __future__ import annotations

import array
import ctypes
from ctypes import c_double, c_float, c_int32, c_int64, c_uint8, c_uint32, c_uint64
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

try:
    import numpy
except ImportError:  # everything works without, on plain Python arrays
    numpy = None  # type: ignore[assignment]

SHOWN = 64  # numbers that repr shows of a longer row

CODES: Dict[Any, Any] = {
    c_double: "d",
    c_float: "f",
    c_int32: "i",
    c_int64: "q",
    c_uint8: "B",
    c_uint32: "I",
    c_uint64: "Q",
}


class Numbers(Sequence[Any]):
    """Numbers that stay where they are, read-only: what stands for a numpy array where
    there is no numpy."""

    __slots__ = ("memory",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, memory: memoryview) -> None:
        self.memory = memory

    def __len__(self) -> int:
        return len(self.memory)

    def __getitem__(self, index: Any) -> Any:
        found = self.memory[index]
        return Numbers(found) if isinstance(index, slice) else found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Iterable) and self.tolist() == list(other)

    def __repr__(self) -> str:
        if len(self) <= SHOWN:
            return repr(self.tolist())
        ends = (*self.memory[: SHOWN // 2], ..., *self.memory[-SHOWN // 2 :])
        return "[" + ", ".join("..." if x is ... else repr(x) for x in ends) + "]"

    def tolist(self) -> List[Any]:
        return self.memory.tolist()


def view(address: Optional[int], kind: Any, n: int, owner: Any) -> Any:
    """The n numbers at an address without a copy, read-only. owner is kept alive."""
    if not address or n == 0:
        return empty(kind, 0)
    buffer = (kind * n).from_address(address)
    buffer.owner = owner
    memory = memoryview(buffer).cast("B").cast(CODES[kind]).toreadonly()
    return Numbers(memory) if numpy is None else numpy.frombuffer(memory, CODES[kind])


def listed(address: Optional[int], kind: Any, n: int) -> List[Any]:
    """The n values at an address as a list of Python's own."""
    return (kind * n).from_address(address)[:] if address and n else []


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
    if found.size and CODES[kind] not in "df":
        _check_whole(found, numpy.iinfo(CODES[kind]))
    return numpy.ascontiguousarray(found, CODES[kind])


def _check_whole(found: Any, limits: Any) -> None:
    """Refuse what would become another number as one of C's."""
    if found.dtype.kind not in "biu":
        raise TypeError(f"whole numbers are needed here, not {found.dtype}")
    if numpy.can_cast(found.dtype, limits.dtype):
        return
    for number in (int(found.min()), int(found.max())):
        if not limits.min <= number <= limits.max:
            raise OverflowError(
                f"{number} is not from {limits.min} to {limits.max}, as is needed here"
            )


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
