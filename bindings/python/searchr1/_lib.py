"""Find libsearchr1.so, load it, and tell ctypes the type of every function.

Looked for, in this order: the file that the environment variable SR1_LIBRARY names,
beside this package and in its folder prefix/lib (a wheel), in the build folders of the checkout this package lies in, and
where the system's loader looks.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any, Iterator, Tuple

from . import errors
from ._address import Address
from ._functions import FUNCTIONS, STATUS

NAME = "libsearchr1.so"
TORCH = (
    " (a library of torch's; the build loads it from where it was then: that folder is "
    "gone, or not for this user to read; build again, or install a copy, bundle_torch)"
)
SONAME = NAME + ".0"


def _candidates() -> Iterator[str]:
    named = os.environ.get("SR1_LIBRARY")
    if named:
        yield named
        return
    here = Path(__file__).resolve().parent
    for folder in (here, here / "prefix/lib"):
        yield from (str(folder / name) for name in (NAME, SONAME) if (folder / name).exists())
    if len(here.parents) > 2 and (here.parents[2] / "meson.build").exists():
        root = here.parents[2]
        built = sorted(
            root.glob(f"build*/lib/abi/{NAME}"), key=os.path.getmtime, reverse=True
        )
        built.sort(key=lambda path: path.parents[2].name != "build")
        yield from map(str, built)
    yield SONAME


def _open() -> ctypes.CDLL:
    # libgomp's threads would spin between operators and starve everything else. It reads
    # this once, when it is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        os.getcwd()
    except FileNotFoundError:  # a part of libtorch would end the process
        raise ImportError("the working folder is gone; change to one that is there") from None
    tried = []
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            cause = TORCH if str(error).startswith(("libtorch", "libc10")) else ""
            tried.append(f"  {path}: {error}{cause}")
    raise ImportError(
        f"{NAME} cannot be loaded; build it (tools/build), install it where the loader "
        "looks, or name the file in SR1_LIBRARY. Tried:\n" + "\n".join(tried)
    )


def _raises_what_arguments_raised(kind: Any) -> Any:
    """The type of functions whose wrong arguments raise TypeError, and closed objects
    ValueError, where ctypes has one exception of its own for both."""

    class Function(kind):  # type: ignore[misc]
        _flags_ = kind._flags_
        _restype_ = kind._restype_

        def __call__(self, *arguments: Any) -> Any:
            try:
                return super().__call__(*arguments)
            except ctypes.ArgumentError as error:
                text = str(error)
                closed = ValueError if ": ValueError: " in text else TypeError
                raise closed(f"{self.__name__}: {text}") from None

    return Function


def _declare(library: ctypes.CDLL) -> None:
    library._FuncPtr = _raises_what_arguments_raised(library._FuncPtr)

    def check(status: int, function: Any, arguments: Tuple[Any, ...]) -> int:
        if status != 0:
            text = library.sr1_last_error().decode("utf-8", "replace")
            raise errors.from_status(status, text)
        return status

    for name, (result, *arguments) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(
                f"{library._name} has no function {name}: it is older than this package; "
                "build or install both from the same sources"
            ) from None
        function.argtypes = [
            Address if kind is ctypes.c_void_p else kind for kind in arguments
        ]
        function.restype = ctypes.c_int32 if result is STATUS else result
        if result is STATUS:
            function.errcheck = check


lib = _open()
_declare(lib)


def version() -> str:
    """Version of the library, "0.1.0"."""
    return str(lib.sr1_version().decode())
