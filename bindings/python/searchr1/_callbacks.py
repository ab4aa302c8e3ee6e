"""Python functions that the library calls.

The library may call from any of its threads; ctypes takes the GIL for the call. Functions
that live long (engines, rewards, environments) are reached through thunks that are made
once and never go away: `self` is a key of `_owned`, given back by `destroy`. What they
raise comes out of the call that caused them (`call`), which the library tells by its mark.
"""

from __future__ import annotations

import inspect
import itertools
import signal
import threading
import traceback
from contextlib import contextmanager
from typing import (
    AbstractSet,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Type,
)

from ._address import LEAST_KEY
from ._lib import lib
from ._structs import SearchOpsDestroy
from .errors import CallbackError, CancelledError, DeadlineError, Error

_owned: Dict[int, Any] = {}
_keys = itertools.count(LEAST_KEY)
_calls: Dict[int, _Call] = {}  # those under way, by their marks
_marks = itertools.count(1)


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
def interrupts(first: Callable[[], None], hold: bool = False) -> Iterator[None]:
    """Ctrl-C calls `first`; only the second one raises KeyboardInterrupt on the spot, and
    with hold none does.

    Raised on the way into a callback, where ctypes drops exceptions, it would be lost.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    seen: List[int] = []

    def handle(number: int, frame: Any) -> None:
        seen.append(number)
        if len(seen) == 1:
            first()
        elif not hold:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def run_aside(call: Callable[[], Any], cancel: Callable[[], Any]) -> None:
    """A call of the library that calls nothing back: in the main thread, which Ctrl-C
    reaches between its own statements only, it runs in another one. KeyboardInterrupt
    cancels it, waits until it has ended, whatever comes meanwhile, and comes out."""
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
    stopped: List[BaseException] = []
    with interrupts(lambda: stopped.append(KeyboardInterrupt()), hold=True):
        thread.start()
        while thread.is_alive():
            try:
                if stopped:
                    cancel()
                thread.join(0.1)
            except BaseException as error:  # noqa: B902 - of the program's own handler
                stopped.append(error)
    for error in (*stopped, *failed):
        raise error


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


def _tell_rows(error: Exception) -> int:
    """The same to the library."""
    kind = DeadlineError if isinstance(error, TimeoutError) else CallbackError
    return _tell(describe(error), kind)


class _Call:
    """A call of the library under way: what its callbacks raised first is its own."""

    def __init__(self, rollout: bool) -> None:
        self.raised: Optional[BaseException] = None
        self.rollout = rollout

    def keep(self, error: BaseException) -> None:
        if self.raised is None:
            self.raised = error

    def take(self) -> BaseException:
        """What was raised, kept no longer: its traceback holds the call."""
        raised, self.raised = self.raised, None
        assert raised is not None
        return raised

    @contextmanager
    def marked(self) -> Iterator[None]:
        """The calls that this thread makes meanwhile, and their callbacks on whichever
        thread, are of this one."""
        mark = next(_marks)
        before = lib.sr1_call_mark()
        try:
            _calls[mark] = self
            lib.sr1_set_call_mark(mark)
            yield
        finally:
            lib.sr1_set_call_mark(before)
            _calls.pop(mark, None)


@contextmanager
def call(
    interrupted: Optional[Callable[[], None]] = None, rollout: bool = False
) -> Iterator[None]:
    """Around a call of the library: raises what its callbacks raised, also when the
    library went on without their results. Ctrl-C calls `interrupted`, or is a
    KeyboardInterrupt at the next callback or at the end. rollout: what answers rows is
    their failure where it raises (`run_rows`)."""
    made = _Call(rollout)
    try:
        with interrupts(interrupted or (lambda: made.keep(KeyboardInterrupt()))):
            with made.marked():
                yield
    except Error:
        if made.raised is None:
            raise
    if made.raised is not None:  # outside of the failure: its own cause and context stay
        raise made.take()


def _call_of_callback() -> Optional[_Call]:
    """None where no call is under way, as in a server, or where it has ended, as that of
    a search that was given up."""
    return _calls.get(lib.sr1_call_mark())


def run(function: Any, *arguments: Any) -> int:
    """In a callback: call function (None: nothing), unless one of the same call has raised
    before; 0, or the status to give the library."""
    of = _call_of_callback()
    if of is not None and of.raised is not None:
        return _tell_raised(of.raised)
    return 0 if function is None else run_always(function, *arguments)


def run_always(function: Any, *arguments: Any) -> int:
    """As run, also after something was raised: what ends what was begun."""
    try:
        function(*arguments)
    except BaseException as error:  # noqa: B902 - KeyboardInterrupt too goes back
        return _fail(error)
    return 0


def run_rows(function: Any, *arguments: Any) -> int:
    """As run, for callbacks that answer rows: in a rollout an Exception is told to the
    library alone, which records it, with the line that raised it."""
    of = _call_of_callback()
    if of is None or not of.rollout or of.raised is not None:
        return run(function, *arguments)
    try:
        function(*arguments)
    except Exception as error:
        return _tell_rows(error)
    except BaseException as error:  # noqa: B902 - KeyboardInterrupt ends the call
        return _fail(error)
    return 0


def _fail(error: BaseException) -> int:
    """Keep the exception for its call; the status to give the library."""
    of = _call_of_callback()
    if of is not None:
        of.keep(error)
    return _tell_raised(error)
