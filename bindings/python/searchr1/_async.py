"""Coroutines in calls that are none: a thread with an event loop of its own runs them, so
that a caller with a running loop, as a notebook is, can make such calls too."""

from __future__ import annotations

import inspect
import os
import threading
from typing import Any, Dict, Tuple

_runners: Dict[int, Tuple[Any, threading.Thread]] = {}  # by process: a fork has no thread
_making = threading.Lock()
os.register_at_fork(
    before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release
)


def _runner() -> Tuple[Any, threading.Thread]:
    """The loop, and the thread that runs it: one for all calls of the process."""
    import asyncio  # which takes a twentieth of importing all else here

    with _making:
        if os.getpid() not in _runners:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, daemon=True)
            thread.start()
            _runners[os.getpid()] = loop, thread
        return _runners[os.getpid()]


def result(call: Any) -> Any:
    """The result of a call, awaited where it is a coroutine."""
    if not inspect.isawaitable(call):
        return call
    import asyncio

    loop, thread = _runner()
    if threading.current_thread() is thread:
        if inspect.iscoroutine(call):
            call.close()
        raise RuntimeError(
            "a coroutine makes a call that would wait for another, which its own thread "
            "runs; make the call in a thread (asyncio.to_thread)"
        )

    async def wait() -> Any:
        return await call

    return asyncio.run_coroutine_threadsafe(wait(), loop).result()
