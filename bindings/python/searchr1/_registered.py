"""Functions of the program's own that the library knows by a name for the life of the
process: estimators of advantages and losses. What they raise comes out of the call that
ran them."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Callable, ContextManager, Dict, Sequence, Tuple

from . import _arrays, _callbacks

carrier = _callbacks.Carrier()


class Registered:
    """The functions of one kind, by name."""

    def __init__(self, call: Callable[..., None]) -> None:
        """call: runs a function of this kind on the C arguments of its callback."""
        self.call = call
        self.functions: Dict[str, Tuple[Callable[..., Any], Any]] = {}
        self.keys: Dict[int, str] = {}

    def add(self, name: str, function: Any, how: Any, register: Any) -> None:
        """Register by register(key), or put the function in the place of one that was
        written in the same place under the same name, as a notebook's cell run again."""
        old, old_how = self.functions.get(name, (None, None))
        if old is None or _place(old) != _place(function) or old_how != how:
            key = _callbacks.own(name)
            try:
                register(key)
            except Exception:
                _callbacks.disown(key)
                raise
        self.functions[name] = (function, how)

    def called(self, key: int, *arguments: Any) -> int:
        """The callback of all of them."""
        function, how = self.functions[_callbacks.owned(key)]
        return carrier.run(self.call, function, how, *arguments)

    def around(self, name: str) -> ContextManager[None]:
        """Around a call of the library that runs one by name."""
        return carrier.call() if name in self.functions else contextlib.nullcontext()


def _place(function: Any) -> Tuple[Any, Any]:
    name = getattr(function, "__qualname__", id(function))
    return getattr(function, "__module__", None), name


def taken(address: Any, kind: Any, n: int) -> Any:
    """A copy of n numbers, None where the pointer is NULL."""
    if not address:
        return None
    return _arrays.copy(ctypes.cast(address, ctypes.c_void_p).value, kind, n)


def put(what: str, target: Any, kind: Any, values: Any, n: int) -> None:
    """Write n numbers where C wants them."""
    data = _arrays.as_array(values, kind)
    if len(data) != n:
        raise ValueError(f"{n} {what} are needed, not {len(data)}")
    ctypes.memmove(target, _arrays.pointer(data, kind), n * ctypes.sizeof(kind))


def bits(names: Sequence[str], known: Dict[str, int], what: str) -> int:
    """Names as the flags of a C interface."""
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ValueError(f"{what}: {', '.join(unknown)}; known: {', '.join(known)}")
    return sum(known[name] for name in set(names))
