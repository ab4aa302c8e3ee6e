"""Made-up worlds to learn searching and acting in."""

from __future__ import annotations

import os
from ctypes import byref, c_void_p, sizeof
from dataclasses import dataclass
from typing import Any, Callable, Optional, Sequence, Tuple

from . import _callbacks
from ._lib import lib
from ._structs import (
    ProgramsOptions,
    RoomsOptions,
    RoomsTask,
    WorldOptions,
    WorldProgressFn,
)
from ._text import PathLike, decode, optional, path_bytes, take, terminated
from .errors import InvalidError


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
    force: bool = False,
) -> None:
    """Write tokenizer/, corpus.jsonl, corpus.bm25, sft.jsonl, mix.jsonl, train.jsonl,
    validation.jsonl and test.jsonl into folder. None: the defaults (scale 1
    has 1216 passages; stage_steps are five; protocol is "search-r1", hops 2).
    progress(phase, done, total). A folder that is not empty is refused; force: replace
    files in it."""
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
    _set(options, given)
    _run(lib.sr1_world_write, folder, options, progress, force)


def _set(options: Any, given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            setattr(options, name, value)


def _run(
    function: Any, folder: PathLike, options: Any, progress: Any, force: bool
) -> None:
    if not force and os.path.isdir(folder) and os.listdir(folder):
        raise InvalidError(
            f"{os.fsdecode(folder)} is not empty: name another folder, or replace files in "
            "it with force=True"
        )

    def tell(user: int, phase: bytes, done: int, total: int) -> int:
        return _callbacks.run(progress, decode(phase), done, total)

    thunk = WorldProgressFn(tell) if progress else WorldProgressFn()
    with _callbacks.call():
        function(path_bytes(folder), byref(options), thunk, None)


# ---- rooms ----


@dataclass(frozen=True)
class Rooms:
    """A world of rooms: its question, a shortest plan, and the id that names it."""

    id: str
    question: str
    plan: Tuple[str, ...]


def rooms(split: str, seed: int) -> Rooms:
    """The world of a split ("train", "validation", "test") and seed, for the environment
    "rooms"."""
    task = RoomsTask()
    lib.sr1_rooms_make(terminated(split), seed, byref(task))
    plan = take(c_void_p(task.plan))
    question = take(c_void_p(task.question))
    return Rooms(f"rooms-{split}-{seed}", question, tuple(plan.split("\n")))


def write_rooms(
    folder: PathLike,
    seed: Optional[int] = None,
    train_questions: Optional[int] = None,
    validation_questions: Optional[int] = None,
    test_questions: Optional[int] = None,
    demonstrations: Optional[int] = None,
    progress: Optional[Callable[[str, int, int], Any]] = None,
    small: bool = False,
    force: bool = False,
) -> None:
    """Write tokenizer/, sft.jsonl, train.jsonl, validation.jsonl and test.jsonl into
    folder. None: the defaults (2000, 200 and 200 questions, 4000 demonstrations). small:
    worlds of two rooms without doors to open. progress(phase, done, total). A folder that
    is not empty is refused; force: replace files in it."""
    options = RoomsOptions()
    lib.sr1_rooms_options_init(byref(options))
    options.struct_size = sizeof(options)  # what follows came later
    given = {
        "seed": seed,
        "train_questions": train_questions,
        "validation_questions": validation_questions,
        "test_questions": test_questions,
        "demonstrations": demonstrations,
        "small": int(small),
    }
    _set(options, given)
    _run(lib.sr1_rooms_write, folder, options, progress, force)


# ---- programs ----


def write_programs(
    folder: PathLike,
    seed: Optional[int] = None,
    train_problems: Optional[int] = None,
    validation_problems: Optional[int] = None,
    test_problems: Optional[int] = None,
    copies: Optional[int] = None,
    demonstrations: Optional[int] = None,
    careless: Optional[int] = None,
    correct: Optional[float] = None,
    progress: Optional[Callable[[str, int, int], Any]] = None,
    force: bool = False,
) -> None:
    """Write tokenizer/, train.jsonl, validation.jsonl, test.jsonl (tiny problems with
    solutions, of which the share `correct` has no bug), sft.jsonl and careless.jsonl
    (demonstrations), critique.txt and solve.txt (templates of prompts) into folder. None:
    the defaults.
    progress(phase, done, total). A folder that is not empty is refused; force: replace
    files in it."""
    options = ProgramsOptions()
    lib.sr1_programs_options_init(byref(options))
    given = {
        "seed": seed,
        "train_problems": train_problems,
        "validation_problems": validation_problems,
        "test_problems": test_problems,
        "copies": copies,
        "demonstrations": demonstrations,
        "careless": careless,
        "correct": correct,
    }
    _set(options, given)
    _run(lib.sr1_programs_write, folder, options, progress, force)
