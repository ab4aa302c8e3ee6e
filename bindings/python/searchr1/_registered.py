"""Functions of the program's own that the library knows by a name for the life of the
process: estimators of advantages and losses. What they raise comes out of the call that
ran them."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Callable, ContextManager, Dict, Iterable, Sequence, Tuple

from . import _arrays, _callbacks


class Registered:
    """The functions of one kind, by name."""

    def __init__(self, what: str, decorator: str, call: Callable[..., None]) -> None:
        """what: one of them, in words; decorator: what registers it. call: runs a
        function of this kind on the C arguments of its callback, and is told its name
        for messages before these."""
        self.what, self.decorator, self.call = what, decorator, call
        self.functions: Dict[str, Tuple[Callable[..., Any], Any]] = {}

    def check_name(self, name: Any) -> None:
        """The decorator without its parentheses has the function for a name."""
        if not isinstance(name, str):
            given = getattr(name, "__name__", repr(name))
            raise TypeError(
                f'{self.decorator} takes a name first: @{self.decorator}("{given:.80}")'
            )

    def check_options(
        self, name: str, options: Sequence[str], known: Sequence[str]
    ) -> None:
        """An option that the library does not have would never come."""
        unknown = sorted({*options} - {*known})
        if unknown:
            raise ValueError(
                f"{self.what} '{name}': options= is a list of the library's options that "
                f"it reads, and there is no {', '.join(unknown)}; known: "
                f"{', '.join(known)}; numbers of its own stand in the function"
            )

    def add(self, name: str, function: Any, how: Any, register: Any) -> None:
        """Register by register(key), or put the function in the place of one that was
        written in the same place under the same name, as a notebook's cell run again. how:
        all else that register gives to the library, which keeps what it was given first:
        where that differs it is asked, and refuses."""
        _callbacks.check_call(f"{self.what} '{name}'", function, "batch", "options")
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
        name = _callbacks.owned(key)
        function, how = self.functions[name]
        what = f"{self.what} '{name}'"
        return _callbacks.run(self.call, what, function, how, *arguments)

    def around(self, name: str) -> ContextManager[None]:
        """Around a call of the library that runs one by name."""
        if name not in self.functions:
            return contextlib.nullcontext()
        return _callbacks.call()


def _place(function: Any) -> Tuple[Any, Any]:
    name = getattr(function, "__qualname__", id(function))
    return getattr(function, "__module__", None), name


def names_of(given: Iterable[str]) -> Tuple[str, ...]:
    """Those of a list; a text is one name, not its letters."""
    return (given,) if isinstance(given, str) else tuple(given)


def taken(address: Any, kind: Any, n: int) -> Any:
    """A copy of n numbers, None where the pointer is NULL."""
    if not address:
        return None
    return _arrays.copy(ctypes.cast(address, ctypes.c_void_p).value, kind, n)


def put(what: str, target: Any, kind: Any, values: Any, n: int) -> None:
    """Write n numbers where C wants them; what: whose and which they are."""
    try:
        data = _arrays.as_array(values, kind)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what}: {n} numbers are needed, not {values!r:.80}") from error
    if len(data) != n:
        raise ValueError(f"{what}: {n} values are needed, not {len(data)}")
    ctypes.memmove(target, _arrays.pointer(data, kind), n * ctypes.sizeof(kind))


def bits(names: Sequence[str], known: Dict[str, int], what: str) -> int:
    """Names as the flags of a C interface."""
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ValueError(f"{what}: {', '.join(unknown)}; known: {', '.join(known)}")
    return sum(known[name] for name in set(names))
