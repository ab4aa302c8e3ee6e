"""One exception class for each status of the library."""

from __future__ import annotations

from typing import Dict, Type


class Error(Exception):
    """A call failed; the text says what, where and what to do. status is the C code."""

    status = 0


class InvalidError(Error, ValueError):
    """An argument is not acceptable."""

    status = -1


class OutOfMemoryError(Error, MemoryError):
    """Out of memory."""

    status = -2


class FileError(Error, OSError):
    """A file or folder could not be read or written."""

    status = -3


class ParseError(Error, ValueError):
    """Input is not well formed."""

    status = -4


class ConfigError(Error, ValueError):
    """A configuration key or value is wrong."""

    status = -5


class NotFoundError(Error, LookupError):
    """The thing named does not exist."""

    status = -6


class UnsupportedError(Error, NotImplementedError):
    """Known, but not supported here."""

    status = -7


class StateError(Error, RuntimeError):
    """The call does not fit the state of the object."""

    status = -8


class LimitError(Error, ValueError):
    """A stated bound was exceeded."""

    status = -9


class CorruptError(Error):
    """Stored data fails its check."""

    status = -10


class NetworkError(Error, ConnectionError):
    """A remote service failed."""

    status = -11


class DeadlineError(Error, TimeoutError):
    """A deadline passed."""

    status = -12


class CancelledError(Error):
    """Stopped on request."""

    status = -13


class DeviceError(Error):
    """The compute device failed or is not there."""

    status = -14


class DeviceMemoryError(DeviceError, MemoryError):
    """The compute device is out of memory."""

    status = -15


class NumericError(Error, ArithmeticError):
    """A value is not finite."""

    status = -16


class CallbackError(Error):
    """A function given by the caller failed without a Python exception."""

    status = -17


class InternalError(Error):
    """A defect in the library."""

    status = -18


BY_STATUS: Dict[int, Type[Error]] = {
    kind.status: kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, Error) and kind is not Error
}


def from_status(status: int, text: str) -> Error:
    """The exception for a failing status."""
    return BY_STATUS.get(status, Error)(text or f"status {status} without a text")
