"""Coroutines in calls that are none: a thread with an event loop of its own runs them, so
that a caller with a running loop, as a notebook is, can make such calls too."""

from __future__ import annotations

import functools
import inspect
import threading
from typing import Any, Tuple


@functools.lru_cache(maxsize=None)
def _runner() -> Tuple[Any, threading.Thread]:
    """The loop, and the thread that runs it."""
    import asyncio  # which takes a twentieth of importing all else here

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    return loop, thread


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
