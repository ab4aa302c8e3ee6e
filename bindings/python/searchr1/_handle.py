"""Python objects that own, or borrow, an object of the library."""

from __future__ import annotations

import weakref
from ctypes import byref, c_void_p
from typing import Any, Callable, ClassVar, Optional, TypeVar

from ._lib import lib

Self = TypeVar("Self", bound="Handle")


def make(function: Callable[..., Any], *arguments: Any) -> int:
    """Call a function whose first argument receives a new object; returns its address."""
    out = c_void_p()
    function(byref(out), *arguments)
    assert out.value is not None
    return out.value


class Handle:
    """An object of the library: freed by close(), at the end of `with` or when collected.

    ctypes takes it for the C pointer. With an owner the object is borrowed from it.
    """

    _free: ClassVar[str] = ""

    def __init__(self, pointer: int, owner: Optional[Handle] = None) -> None:
        self._pointer: Optional[int] = pointer
        self._owner = owner
        if owner is None:
            self._finalizer = weakref.finalize(self, self._free_function(), pointer)

    @classmethod
    def _free_function(cls) -> Callable[[int], Any]:
        return getattr(lib, cls._free)  # type: ignore[no-any-return]

    @property
    def _as_parameter_(self) -> c_void_p:
        if self._owner is not None:
            self._owner._as_parameter_
        if self._pointer is None:
            raise ValueError(f"this {type(self).__name__} is closed")
        return c_void_p(self._pointer)

    def __reduce__(self) -> Any:
        """Copies would hold one object of the library twice; other processes have none."""
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled: it is an object of the "
            "library in this process; make one where it is used"
        )

    def close(self) -> None:
        """Free the object now; ValueError tells who uses it afterwards."""
        self._pointer = None
        if self._owner is None:
            self._finalizer()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
