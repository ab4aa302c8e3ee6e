"""A made-up world to learn searching in."""

from __future__ import annotations

from ctypes import byref, sizeof
from typing import Any, Callable, Optional, Sequence

from . import _callbacks
from ._lib import lib
from ._structs import WorldOptions, WorldProgressFn
from ._text import PathLike, decode, optional, path_bytes


def write(
    folder: PathLike,
    seed: Optional[int] = None,
    scale: Optional[float] = None,
    sft_worlds: Optional[int] = None,
    batch: Optional[int] = None,
    stage_steps: Optional[Sequence[int]] = None,
    test_questions: Optional[int] = None,
    protocol: Optional[str] = None,
    hops: Optional[int] = None,
    progress: Optional[Callable[[str, int, int], Any]] = None,
) -> None:
    """Write tokenizer/, corpus.jsonl, corpus.bm25, sft.jsonl, mix.jsonl, train.jsonl,
    validation.jsonl and test.jsonl into folder. None: the defaults (scale 1
    has 1216 passages; stage_steps are five; protocol is "search-r1", hops 2).
    progress(phase, done, total)."""
    options = WorldOptions()
    lib.sr1_world_options_init(byref(options))
    options.struct_size = sizeof(options)
    given = {
        "seed": seed,
        "scale": scale,
        "sft_worlds": sft_worlds,
        "batch": batch,
        "stage_steps": None if stage_steps is None else tuple(stage_steps),
        "test_questions": test_questions,
        "protocol": optional(protocol),
        "hops": hops,
    }
    for name, value in given.items():
        if value is not None:
            setattr(options, name, value)
    carrier = _callbacks.Carrier()

    def tell(user: int, phase: bytes, done: int, total: int) -> int:
        return carrier.run(progress, decode(phase), done, total)

    thunk = WorldProgressFn(tell) if progress else WorldProgressFn()
    with carrier.call():
        lib.sr1_world_write(path_bytes(folder), byref(options), thunk, None)
