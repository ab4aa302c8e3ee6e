"""Pointer arguments: a wrong object raises before it reaches the library."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, Type

LEAST_KEY = 1 << 20  # of things kept for the library: smaller numbers are no addresses


class Address(ctypes.c_void_p):
    """A pointer argument: what can only be a mistake would crash the process."""

    struct = ""  # the C type that it points to; "": any

    @classmethod
    def from_param(cls, value: Any) -> Any:
        if isinstance(value, str) or (isinstance(value, int) and 0 < value < LEAST_KEY):
            raise TypeError(f"an object of searchr1 is wanted here, not {value!r:.80}")
        given = struct_of(value)
        if cls.struct and given and given != cls.struct:
            raise TypeError(
                f"an object of the library's type {cls.struct} is wanted here, not a "
                f"{type(value).__name__} ({given})"
            )
        return ctypes.c_void_p.from_param(value)


def struct_of(value: Any) -> str:
    """The C type of an object of this package; "" for anything else."""
    return str(getattr(type(value), "_free", "")).replace("_free", "")


HANDLES: Dict[str, Type[Address]] = {}


def handle(struct: str) -> Type[Address]:
    """The type of arguments that point to this C type."""
    if struct not in HANDLES:
        HANDLES[struct] = type(struct, (Address,), {"struct": struct})
    return HANDLES[struct]
