"""Python functions that the library calls.

The library may call from any of its threads; ctypes takes the GIL for the call. Functions
that live long (engines, rewards, environments) are reached through thunks that are made
once and never go away: `self` is a key of `_owned`, given back by `destroy`.
"""

from __future__ import annotations

import inspect
import itertools
import signal
import threading
import traceback
from collections import deque
from contextlib import contextmanager
from typing import (
    AbstractSet,
    Any,
    Callable,
    Deque,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Tuple,
    Type,
)

from ._address import LEAST_KEY
from ._lib import lib
from ._structs import SearchOpsDestroy
from .errors import CallbackError, CancelledError, DeadlineError, Error

_owned: Dict[int, Any] = {}
_counting = threading.Lock()
_keys = itertools.count(LEAST_KEY)
# What shared functions raised, with the text that the library was told, newest last.
_shared: Deque[Tuple[str, BaseException]] = deque(maxlen=64)


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


def check_call(what: str, function: Any, *arguments: str) -> None:
    """Refuse a function that cannot be called with arguments of these names, before it
    is given to the library. Those that have no signature are believed."""
    if not callable(function):
        raise TypeError(f"{what} is no function: {function!r:.80}")
    signature = signature_of(function)
    if signature is None:
        return
    name = name_of(function)
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise TypeError(
            f"{what} is called as {name}({', '.join(arguments)}), and it is "
            f"{name}{signature}: {error}"
        ) from None


def name_of(function: Any) -> str:
    """Its own name, or that of its class."""
    return str(getattr(function, "__name__", type(function).__name__))


def signature_of(function: Any) -> Optional[inspect.Signature]:
    """None where it has none, as some functions of C."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def is_number(value: Any) -> bool:
    """Of Python, numpy or torch."""
    return hasattr(value, "__float__") or hasattr(value, "__index__")


def check_each(what: str, given: Any, kind: str, n: int, asked: str) -> None:
    """Refuse what a function gave where it is not a list of one for each that was asked.
    Of a mapping the keys would pass for its values, of a text its characters."""
    if inspect.iscoroutine(given):
        given.close()
        raise TypeError(
            f"{what} is async, and nothing awaits it here; give a plain function, such as one "
            "that calls asyncio.run"
        )
    alone = isinstance(given, (str, bytes, Mapping, AbstractSet))
    if alone or not hasattr(given, "__len__"):
        raise TypeError(
            f"{what} gave {given!r:.80}; it must give a list of {kind}, one for each of the "
            f"{n} {asked}, not a {type(given).__name__}"
        )
    if len(given) != n:
        raise ValueError(f"{what}: {len(given)} {kind} were given to {n} {asked}")


destroy = SearchOpsDestroy(disown)  # ops->destroy of everything made here


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


def run_aside(call: Callable[[], Any], cancel: Callable[[], Any]) -> None:
    """A call of the library that calls nothing back: in the main thread, which Ctrl-C
    reaches between its own statements only, it runs in another one. KeyboardInterrupt
    cancels it, waits until it has ended, and comes out."""
    if threading.current_thread() is not threading.main_thread():
        call()
        return
    failed: List[BaseException] = []

    def work() -> None:
        try:
            call()
        except BaseException as error:  # noqa: B902 - raised again below
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:
        while thread.is_alive():
            cancel()
            thread.join(0.1)
        raise
    if failed:
        raise failed[0]


def _tell(text: str, kind: Type[Error]) -> int:
    """Tell the library why a callback failed; returns the status for it."""
    data = text.encode("utf-8", "replace").replace(b"\0", b"?")
    return int(lib.sr1_set_error(kind.status, data))


def describe(error: BaseException) -> str:
    """What is not raised anywhere: with the line that raised it, where one did."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{text_of(error)}{where}"


def text_of(error: BaseException) -> str:
    """Never raises: the error's own __str__ may, and out of a callback nothing comes but
    "it went well"."""
    try:
        said = str(error)
    except BaseException:  # noqa: B902 - whatever it is, the first error is told
        said = "its text cannot be formed"
    return f"{type(error).__name__}: {said}"


def _tell_raised(error: BaseException) -> int:
    failed = isinstance(error, Exception) and not isinstance(error, CancelledError)
    return _tell(text_of(error), CallbackError if failed else CancelledError)


def run_shared(function: Any, *arguments: Any) -> int:
    """In a callback that any call of the process may run, several at a time and in threads
    of the library: call function; 0, or the status for what it raised. That goes back
    through the call whose failure tells of it."""
    try:
        function(*arguments)
    except BaseException as error:  # noqa: B902 - KeyboardInterrupt too goes back
        text = text_of(error)[:200].strip()  # by code of the user's, which may wait for others
        with _counting:
            _shared.append((text, error))
        return _tell_raised(error)
    return 0


def _take_shared(failure: Error) -> Optional[BaseException]:
    """What a shared function raised and this failure tells of."""
    told = str(failure)
    with _counting:
        for held in reversed(_shared):
            if held[0] in told:
                _shared.remove(held)
                return held[1]
    return None


def _tell_rows(error: Exception) -> int:
    """The same to the library."""
    kind = DeadlineError if isinstance(error, TimeoutError) else CallbackError
    return _tell(describe(error), kind)


class Carrier:
    """Brings what a callback raised back to the call that ran it.

    Also when the library went on without the callback's result: an exception is never
    lost. But what an engine or environment raises in a rollout is the failure of the rows
    that asked (`run_rows`), which the library records. Where no call is under way, as in
    a server, it is only told to the library. others: carriers whose callbacks run in it
    too.
    """

    def __init__(self, *others: Optional[Carrier]) -> None:
        self.raised: Optional[BaseException] = None
        self.calls = 0  # under way, through which an exception can go back
        self.rollouts = 0  # of another carrier, that run callbacks of this one
        self.others = [other for other in others if other is not None]

    def fail(self, error: BaseException) -> int:
        """In a callback: keep the exception; returns the status to give the library."""
        self._keep(error)
        return _tell_raised(error)

    def _keep(self, error: BaseException) -> None:
        if self.raised is None and self.calls + self.rollouts > 0:
            self.raised = error

    def run(self, function: Any, *arguments: Any) -> int:
        """In a callback: call function (None: nothing), unless something was raised
        before; 0, or the status for what was raised."""
        before = self.pending()
        if before is not None:
            return self.fail(before)
        return 0 if function is None else self.run_always(function, *arguments)

    def run_always(self, function: Any, *arguments: Any) -> int:
        """As run, also after something was raised: what ends what was begun."""
        try:
            function(*arguments)
        except BaseException as error:  # noqa: B902 - KeyboardInterrupt too goes back
            return self.fail(error)
        return 0

    def run_rows(self, function: Any, *arguments: Any) -> int:
        """As run, for callbacks that answer rows: in a rollout an Exception is told to
        the library alone, with the line that raised it."""
        if self.calls > 0 or self.rollouts == 0:
            return self.run(function, *arguments)
        before = self.pending()
        if before is not None:
            return self.fail(before)
        try:
            function(*arguments)
        except Exception as error:
            return _tell_rows(error)
        except BaseException as error:  # noqa: B902 - KeyboardInterrupt ends the call
            return self.fail(error)
        return 0

    def pending(self) -> Optional[BaseException]:
        """What was raised since the last call, here or in the others."""
        for carrier in self._reached():
            if carrier.raised is not None:
                return carrier.raised
        return None

    def _reached(self) -> List[Carrier]:
        """This one, the others, theirs and so on, each once."""
        found: List[Carrier] = []
        ahead = [self]
        while ahead:
            carrier = ahead.pop(0)
            if carrier not in found:
                found.append(carrier)
                ahead.extend(carrier.others)
        return found

    def _count(self, reached: List[Carrier], more: int, rollout: bool) -> None:
        with _counting:
            for carrier in reached:
                if rollout and carrier is not self:
                    carrier.rollouts += more
                else:
                    carrier.calls += more

    def _take(self, reached: List[Carrier], rollout: bool) -> Optional[BaseException]:
        raised = [carrier.raised for carrier in reached if carrier.raised is not None]
        for carrier in reached:
            carrier.raised = None
        self._count(reached, -1, rollout)
        return raised[0] if raised else None

    @contextmanager
    def call(
        self,
        interrupted: Optional[Callable[[], None]] = None,
        rollout: bool = False,
    ) -> Iterator[None]:
        """Around a call of the library: raises what its callbacks raised. Ctrl-C calls
        `interrupted`, or is a KeyboardInterrupt at the next callback or at the end.
        rollout: the library treats failures of the others' callbacks row by row."""
        reached = self._reached()
        self._count(reached, 1, rollout)
        try:
            with interrupts(interrupted or (lambda: self._keep(KeyboardInterrupt()))):
                yield
        except BaseException as failure:
            raised = self._take(reached, rollout)
            if raised is None and isinstance(failure, Error):
                raised = _take_shared(failure)
            if raised is None or not isinstance(failure, Error):
                raise
            raise raised  # not "from failure": its own cause stays
        raised = self._take(reached, rollout)
        if raised is not None:
            raise raised
