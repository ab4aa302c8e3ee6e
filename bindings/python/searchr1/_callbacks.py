"""Python functions that the library calls.

The library may call from any of its threads; ctypes takes the GIL for the call. Functions
that live long (engines, rewards, environments) are reached through thunks that are made
once and never go away: `self` is a key of `_owned`, given back by `destroy`.
"""

from __future__ import annotations

import itertools
import signal
import threading
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional

from ._lib import LEAST_KEY, lib
from ._structs import DestroyFn
from .errors import CallbackError, Error

_owned: Dict[int, Any] = {}
_counting = threading.Lock()
_keys = itertools.count(LEAST_KEY)


def own(thing: Any) -> int:
    """Keep a thing for the library; returns its key."""
    key = next(_keys)
    _owned[key] = thing
    return key


def disown(key: int) -> None:
    """Forget a thing: the library has no more use for it, or did not take it."""
    _owned.pop(key, None)


def owned(key: int) -> Any:
    """The thing of a key."""
    return _owned[key]


destroy = DestroyFn(disown)  # ops->destroy of everything made here


@contextmanager
def interrupts(first: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C calls `first`; only the second one raises KeyboardInterrupt on the spot.

    Raised on the way into a callback, where ctypes drops exceptions, it would be lost.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    seen: List[int] = []

    def handle(number: int, frame: Any) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)
        first()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Carrier:
    """Brings what a callback raised back to the call that ran it.

    Also when the library went on without the callback's result, as it does after a failed
    search: an exception is never lost. Where no call is under way, as in a server, it is
    only told to the library. others: carriers whose callbacks run in it too.
    """

    def __init__(self, *others: Optional[Carrier]) -> None:
        self.raised: Optional[BaseException] = None
        self.calls = 0  # under way, through which an exception can go back
        self.others = [other for other in others if other is not None]

    def fail(self, error: BaseException) -> int:
        """In a callback: keep the exception; returns the status to give the library."""
        self._keep(error)
        text = f"{type(error).__name__}: {error}".encode("utf-8", "replace")
        return int(lib.sr1_set_error(CallbackError.status, text.replace(b"\0", b"?")))

    def _keep(self, error: BaseException) -> None:
        if self.raised is None and self.calls > 0:
            self.raised = error

    def run(self, function: Any, *arguments: Any) -> int:
        """In a callback: call function (None: nothing), unless something was raised
        before; 0, or the status for what was raised."""
        before = self.pending()
        if before is not None:
            return self.fail(before)
        try:
            if function is None:
                return 0
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

    def _count(self, more: int) -> None:
        with _counting:
            for carrier in (self, *self.others):
                carrier.calls += more

    def _take(self) -> Optional[BaseException]:
        error = self.pending()
        for carrier in (self, *self.others):
            carrier.raised = None
        self._count(-1)
        return error

    @contextmanager
    def call(self, interrupted: Optional[Callable[[], None]] = None) -> Iterator[None]:
        """Around a call of the library: raises what its callbacks raised. Ctrl-C calls
        `interrupted`, or is a KeyboardInterrupt at the next callback or at the end."""
        self._count(1)
        try:
            with interrupts(interrupted or (lambda: self._keep(KeyboardInterrupt()))):
                yield
        except BaseException as failure:
            raised = self._take()
            if raised is None or not isinstance(failure, Error):
                raise
            raise raised  # not "from failure": its own cause stays
        raised = self._take()
        if raised is not None:
            raise raised
