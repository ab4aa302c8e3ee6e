"""Messages of the library, which itself never prints.

They go to the logger "searchr1" of the standard library, which writes warnings to stderr.
The environment variable SR1_LOG, or set_level, changes from which level on: debug, info,
warning or off. The logger does not pass messages on to the root logger, as long as it has
the handler of this module; send_to(logging.getLogger("mine")) has them go where your own
messages go.
"""

from __future__ import annotations

import atexit
import logging
import os
from typing import Any, Optional

from ._lib import lib
from ._structs import LogFn
from ._text import decode

LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING)
NAMES = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "off": logging.CRITICAL + 1,
}

logger = logging.getLogger("searchr1")
_logger: Optional[logging.Logger] = None


def _send(user: Any, level: int, text: bytes) -> None:
    if _logger is not None:
        _logger.log(LEVELS[level], "%s", decode(text))


_receive = LogFn(_send)


def tell(note: str) -> None:
    """A line of a run that nobody else takes: what the run warns of is a warning here."""
    word, _, rest = note.partition("warning: ")
    if _logger is not None:
        _logger.log(*(logging.INFO, "%s", note) if word else (logging.WARNING, "%s", rest))


def warn(text: str) -> None:
    """A warning of the package itself."""
    if _logger is not None:
        _logger.warning("%s", text)


def send_to(logger: Optional[logging.Logger]) -> None:
    """Send messages to another logger of the standard library; None: nowhere. Not while
    other calls of the library run."""
    global _logger
    _logger = logger
    lib.sr1_log_set(_receive if logger is not None else LogFn(), None)


def set_level(name: str) -> None:
    """From which level on the package's logger writes: "debug", "info", "warning" or
    "off"."""
    if name not in NAMES:
        raise ValueError(f"a level of messages is one of {', '.join(NAMES)}, not {name!r}")
    logger.setLevel(NAMES[name])


def _begin() -> None:
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("searchr1: %(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
    wanted = os.environ.get("SR1_LOG", "").lower()
    if wanted in NAMES or logger.level == logging.NOTSET:  # else the program set one
        set_level(wanted if wanted in NAMES else "warning")
    if wanted and wanted not in NAMES:
        logger.warning("SR1_LOG is one of %s, not %r", ", ".join(NAMES), wanted)
    send_to(logger)
    atexit.register(send_to, None)  # threads that go on have no interpreter to call


_begin()
