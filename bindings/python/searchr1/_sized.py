"""What every public struct begins with."""

from __future__ import annotations

import ctypes
from typing import Any, Dict


class Sized(ctypes.Structure):
    """struct_size is set on creation."""

    _fields_ = [("struct_size", ctypes.c_size_t)]

    def __init__(self, **fields: Any) -> None:
        super().__init__(ctypes.sizeof(self), **fields)

    def as_dict(self) -> Dict[str, Any]:
        """The fields after struct_size, text decoded."""
        values = {name: getattr(self, name) for name, *_ in self._fields_}
        return {k: v.decode() if isinstance(v, bytes) else v for k, v in values.items()}
