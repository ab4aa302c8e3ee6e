"""Text between Python and C, which wants UTF-8."""

from __future__ import annotations

import ctypes
import os
import tempfile
from contextlib import contextmanager
from ctypes import c_char_p, c_void_p
from typing import Any, Iterable, Iterator, List, Optional, Union

from ._lib import lib

Text = Union[str, bytes]
PathLike = Union[str, "os.PathLike[str]"]


def encode(text: Text) -> bytes:
    """UTF-8 for arguments that come with a length; lone surrogates are left to the
    library, which takes them for U+FFFD."""
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise TypeError(f"text is wanted here, not {type(text).__name__}: {text!r:.80}")
    return text.encode("utf-8", "surrogatepass")


def terminated(text: Text) -> bytes:
    """UTF-8 for arguments that end at a NUL byte."""
    data = encode(text)
    if b"\0" in data:
        raise ValueError(f"a NUL character is not allowed here: {text!r:.80}")
    return data


def optional(text: Optional[Text]) -> Optional[bytes]:
    """None stays None (C's NULL)."""
    return None if text is None else terminated(text)


def path_bytes(path: PathLike) -> bytes:
    """A path in the file system's encoding."""
    return terminated(os.fsencode(path))


@contextmanager
def replaced(path: PathLike, force: bool) -> Iterator[str]:
    """The name of a file to write, which becomes that of path if all goes well, and with
    force takes its place. It lies in a new folder beside it, so it is no file of
    anybody's."""
    whole = os.path.abspath(os.fsdecode(path))
    folder, name = os.path.split(whole)
    if os.path.lexists(whole) and not force:
        raise FileExistsError(
            f"{os.fsdecode(path)} exists: name another file, or replace it with force "
            "(--force)"
        )
    try:
        made = tempfile.TemporaryDirectory(prefix=".part-", dir=folder)
    except OSError as error:
        error.filename = folder  # nobody knows the new one
        raise
    with made as place:
        part = os.path.join(place, name)
        yield part
        os.replace(part, whole)


def strings(texts: Iterable[Text]) -> Any:
    """An array of char pointers that keeps its texts alive."""
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"a list of texts is wanted here, not one: {texts!r:.80}")
    texts = list(texts)
    data = _split_at_once(texts) or [terminated(text) for text in texts]
    return (c_char_p * len(data))(*data)


def _split_at_once(texts: List[Text]) -> Optional[List[bytes]]:
    """What terminated gives of each, many times as fast; None where one of them is not a
    str or has a NUL."""
    try:
        data = "\0".join(texts).encode("utf-8", "surrogatepass").split(b"\0")  # type: ignore[arg-type]
    except TypeError:
        return None
    return data if len(data) == len(texts) else None


def decode(data: Optional[bytes]) -> str:
    """Text of the library; NULL is empty."""
    return "" if data is None else data.decode("utf-8", "replace")


def text_at(address: Optional[int], length: int) -> str:
    """The text of so many bytes at an address."""
    return decode(ctypes.string_at(address, length)) if address else ""


def take(memory: c_void_p, length: Optional[int] = None) -> str:
    """Copy text that the caller frees, and free it. length in bytes; None: to NUL."""
    try:
        return decode(ctypes.string_at(memory, -1 if length is None else length))
    finally:
        lib.sr1_free(memory)
