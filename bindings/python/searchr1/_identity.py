"""What tells a function from others: where it stands, and what it does."""

from __future__ import annotations

import dis
import functools
import hashlib
import types
from typing import Any, Callable, Iterator, Optional, Set

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))
_MOST = 1 << 20  # bytes that are read for one
_MOST_SORTED = 1 << 15  # members of a set


_READS = ("LOAD_GLOBAL", "LOAD_NAME")  # the latter in the body of a class


class _Unknown(Exception):
    """Nothing tells this value from others."""


def identity_of(function: Callable[..., Any]) -> Optional[str]:
    """Module, name and a hash of the code, of what it has closed over, of its defaults and
    of the globals that it reads, of which functions of its own module are looked into as
    well. Those of other modules are known by module, name and code, and if they were made
    by a function, by what they have closed over; a module that is read by its name. None
    where that is not all: of methods, of objects, of a function that reads an object."""
    digest, size = hashlib.sha256(), 0
    try:
        for part in _of_value(function, function.__module__, set()):
            digest.update(b"%d " % len(part) + part)
            size += len(part)
            if size > _MOST:
                return None
    except (_Unknown, AttributeError, RuntimeError, ValueError):
        return None  # too deep, changed meanwhile or too long a number among them
    return f"{function.__module__}.{function.__qualname__} {digest.hexdigest()[:32]}"


def _of_value(value: Any, module: str, within: Set[int]) -> Iterator[bytes]:
    """In parts. module: that of the function which all begins with; within: the values
    that this one is read for."""
    kind = type(value)
    yield kind.__name__.encode()
    if kind in (str, bytes, tuple, list, dict, set, frozenset):
        if len(value) > _MOST:
            raise _Unknown
        yield b"%d" % len(value)
    if kind in _PLAIN:
        yield repr(value).encode("utf-8", "surrogatepass")
    elif kind is types.ModuleType:
        yield value.__name__.encode()
    elif id(value) not in within:  # it may call itself
        within.add(id(value))
        yield from _of_parts(value, kind, module, within)
        within.remove(id(value))


def _of_parts(value: Any, kind: type, module: str, within: Set[int]) -> Iterator[bytes]:
    if kind in (tuple, list):
        for item in value:
            yield from _of_value(item, module, within)
    elif kind is dict:
        for pair in value.items():
            yield from _of_value(pair, module, within)
    elif kind in (set, frozenset):  # in an order of its own in each process
        if len(value) > _MOST_SORTED:
            raise _Unknown
        yield from sorted(b" ".join(_of_value(item, module, within)) for item in value)
    elif kind is types.CodeType:
        yield value.co_code
        yield repr((value.co_names, value.co_varnames)).encode()
        yield from _of_value(value.co_consts, module, within)
    elif kind is functools.partial:
        yield from _of_value((value.func, value.args, value.keywords), module, within)
    elif kind is types.FunctionType:
        yield from _of_function(value, module, within)
    elif isinstance(value, (type, types.BuiltinFunctionType)) and value.__module__ not in (
        module,
        "__main__",
        None,
    ):
        yield f"{value.__module__}.{value.__qualname__}".encode()
    else:
        raise _Unknown


def _of_function(
    function: types.FunctionType, module: str, within: Set[int]
) -> Iterator[bytes]:
    yield f"{function.__module__}.{function.__qualname__}".encode()
    yield from _of_value(function.__code__, module, within)
    foreign = function.__module__ not in (module, "__main__")
    if foreign and not function.__closure__ and "<locals>" not in function.__qualname__:
        return
    for part in (function.__defaults__, function.__kwdefaults__):
        yield from _of_value(part, module, within)
    for cell in function.__closure__ or ():
        yield from _of_value(_content(cell), module, within)
    if foreign:
        return
    for name in sorted(_globals_of(function.__code__)):
        if name in function.__globals__:
            yield name.encode()
            yield from _of_value(function.__globals__[name], module, within)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is not filled yet
        raise _Unknown from None


def _globals_of(code: types.CodeType) -> Set[str]:
    """The names of globals that it reads, and those of functions inside it."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname in _READS}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _globals_of(constant)
    return names
