"""Messages of the library, which itself never prints."""

from __future__ import annotations

import logging
from typing import Any, Optional

from ._lib import lib
from ._structs import LogFn
from ._text import decode

LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING)

_logger: Optional[logging.Logger] = None


def _send(user: Any, level: int, text: bytes) -> None:
    if _logger is not None:
        _logger.log(LEVELS[level], "%s", decode(text))


_receive = LogFn(_send)


def send_to(logger: Optional[logging.Logger]) -> None:
    """Send messages to a logger of the standard library; None: nowhere, as at the start.
    Not while other calls of the library run."""
    global _logger
    _logger = logger
    lib.sr1_log_set(_receive if logger is not None else LogFn(), None)
