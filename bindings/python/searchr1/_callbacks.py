"""Python functions that the library calls.

The library may call from any of its threads; ctypes takes the GIL for the call. Long-lived
functions (engines, rewards, environments) are reached through thunks that are made once
and never go away: `self` is a key of `_owned`, which the library gives back by `destroy`.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import Any, Dict, Iterator, Optional

from ._lib import lib
from ._structs import DestroyFn
from .errors import CallbackError, Error

_owned: Dict[int, Any] = {}
_keys = itertools.count(1)


def own(thing: Any) -> int:
    """Keep a thing for the library; returns its key."""
    key = next(_keys)
    _owned[key] = thing
    return key


def disown(key: int) -> None:
    """Forget a thing that the library did not take."""
    _owned.pop(key, None)


def owned(key: int) -> Any:
    """The thing of a key."""
    return _owned[key]


@DestroyFn
def destroy(key: int) -> None:
    """ops->destroy of everything made here."""
    _owned.pop(key, None)


class Carrier:
    """Brings what a callback raised back to the call that ran it.

    Also when the library went on without the callback's result, as it does after a failed
    search: an exception is never lost. others: carriers whose callbacks run in such calls.
    """

    def __init__(self, *others: Optional[Carrier]) -> None:
        self.raised: Optional[BaseException] = None
        self.others = [other for other in others if other is not None]

    def fail(self, error: BaseException) -> int:
        """In a callback: keep the exception; returns the status to give the library."""
        if self.raised is None:
            self.raised = error
        text = f"{type(error).__name__}: {error}".encode("utf-8", "replace")
        return int(lib.sr1_set_error(CallbackError.status, text.replace(b"\0", b"?")))

    def run(self, function: Any, *arguments: Any) -> int:
        """In a callback: call function; 0, or the status for what it raised."""
        try:
            function(*arguments)
        except BaseException as error:  # noqa: B902 - KeyboardInterrupt too goes back
            return self.fail(error)
        return 0

    def pending(self) -> Optional[BaseException]:
        """What was raised since the last call, here or in the others."""
        for carrier in (self, *self.others):
            if carrier.raised is not None:
                return carrier.raised
        return None

    def _take(self) -> Optional[BaseException]:
        error = self.pending()
        for carrier in (self, *self.others):
            carrier.raised = None
        return error

    @contextmanager
    def call(self) -> Iterator[None]:
        """Around a call of the library: raises what its callbacks raised."""
        try:
            yield
        except Error:
            error = self._take()
            if error is None:
                raise
            raise error
        error = self._take()
        if error is not None:
            raise error
