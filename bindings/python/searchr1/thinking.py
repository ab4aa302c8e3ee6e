"""Thinking levels: how much a step of the protocol "rlvcr" thinks."""

from __future__ import annotations

from ctypes import byref, c_char_p
from dataclasses import dataclass
from typing import Tuple

from ._lib import lib
from ._structs import ThinkingStep
from ._text import Text, decode, encode

LEVELS = (1, 2, 3, 4)
FALLBACKS = (
    "level_open",
    "level_guessed",
    "level_unknown",
    "think_open",
    "action_open",
    "no_action",
)


@dataclass(frozen=True)
class Step:
    """A message of the protocol. level 0: unknown. prefix: what an action is scored
    behind, its opening tag included. fallbacks: what was not as it should be."""

    level: int
    think: str
    action: str
    prefix: str
    fallbacks: Tuple[str, ...]


def parse(text: Text) -> Step:
    """Read <level>n</level><think>...</think><action>...</action>, as far as it is so."""
    data, s = encode(text), ThinkingStep()
    lib.sr1_thinking_parse(data, len(data), byref(s))
    return Step(
        level=s.level,
        think=decode(data[s.think_begin : s.think_begin + s.think_len]),
        action=decode(data[s.action_begin : s.action_begin + s.action_len]),
        prefix=decode(data[: s.prefix_len]),
        fallbacks=tuple(f for i, f in enumerate(FALLBACKS) if s.fallbacks >> i & 1),
    )


def level(number: int) -> Tuple[str, str]:
    """The name of a level, and what a prompt says of it."""
    name, text = c_char_p(), c_char_p()
    lib.sr1_thinking_level(number, byref(name), byref(text))
    return decode(name.value or b""), decode(text.value or b"")
