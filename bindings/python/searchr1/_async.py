"""Coroutines in calls that are none: a thread with an event loop of its own runs them, so
that a caller with a running loop, as a notebook is, can make such calls too."""

from __future__ import annotations

import functools
import inspect
import threading
from typing import Any


@functools.lru_cache(maxsize=None)
def _loop() -> Any:
    import asyncio  # which takes a twentieth of importing all else here

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def result(call: Any) -> Any:
    """The result of a call, awaited where it is a coroutine."""
    if not inspect.isawaitable(call):
        return call
    import asyncio

    async def wait() -> Any:
        return await call

    return asyncio.run_coroutine_threadsafe(wait(), _loop()).result()
