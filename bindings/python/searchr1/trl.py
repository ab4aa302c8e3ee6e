"""Reward functions of TRL as rewards of this library.

    rewards = {"names_city": of_trl(names_city)}

The function sees what GRPOTrainer gives it: prompts, completions, completion_ids, and every
other column of the rows. Where the prompt is a text, completions are texts; else they are
messages, with tool_calls and with what tools answered.
"""

from __future__ import annotations

import ast
import json
from typing import Any, Callable, Dict, List, Mapping, Sequence, Set, Union

from . import _async, _callbacks, _messages, log
from .trajectory import Trajectory

Messages = List[Dict[str, Any]]

# No columns of a function's: it is given these, or what was made of them.
_GIVEN = (
    "prompt", "prompts", "completion", "completions", "completion_ids", "trainer_state",
    "log_extra", "log_metric",
)  # fmt: skip


def _content(body: str) -> Union[str, List[Any]]:
    """What a tool returned: a list is one again, as TRL passes it on."""
    for read in (json.loads, ast.literal_eval) if body.startswith("[") else ():
        try:
            value = read(body)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(value, list):
            return value
    return body


def _message(message: _messages.Message) -> Dict[str, Any]:
    if message.role == "tool":
        named = {"name": call["name"] for call in message.calls}
        return {"role": "tool", **named, "content": _content(message.text)}
    made: Dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls:
        made["tool_calls"] = [{"type": "function", "function": c} for c in message.calls]
    return made


def messages(trajectory: Trajectory) -> Messages:
    """The turns of a trajectory as messages of the assistant, of tools, and, where nothing
    was called, of the user."""
    return [_message(message) for message in _messages.messages(trajectory)]


def _prompt(row: Mapping[str, Any], trajectory: Trajectory) -> Any:
    asked = [{"role": "user", "content": trajectory.query}]
    return row.get("prompt", [*trajectory.history, *asked])


def _ignore(*_: Any, **__: Any) -> None:
    """log_extra and log_metric: a reward's own figures are rewards of weight 0 here."""


class _Columns:
    """The columns of a batch as datasets has them: those that any row has, and those that
    the function cannot be called without; None in gaps."""

    def __init__(self, function: Callable[..., Any]) -> None:
        signature = _callbacks.signature_of(function)
        self.name = _callbacks.name_of(function)
        self.needed = [
            parameter.name
            for parameter in (signature.parameters.values() if signature else ())
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            and parameter.name not in _GIVEN
        ]
        self.told: Set[str] = set()

    def of(self, rows: Sequence[Mapping[str, Any]]) -> Dict[str, List[Any]]:
        there = dict.fromkeys(name for row in rows for name in row if name not in _GIVEN)
        missing = [name for name in self.needed if name not in there]
        for name in missing:
            if name not in self.told:
                log.warn(f"no row of a batch has '{name}', which {self.name} needs: it is None")
        self.told.update(missing)
        return {name: [row.get(name) for row in rows] for name in [*there, *missing]}


def of_trl(function: Callable[..., Any]) -> Callable[[List[Trajectory]], List[Any]]:
    """A reward function of TRL's GRPOTrainer, async or not, as a reward of a Trainer. A
    column that a row does not have is None there."""
    columns = _Columns(function)

    def reward(trajectories: List[Trajectory]) -> List[Any]:
        rows = [t.row for t in trajectories]
        prompts = [_prompt(row, t) for row, t in zip(rows, trajectories)]
        scores = function(
            prompts=prompts,
            completions=[
                t.generated_text if isinstance(prompt, str) else messages(t)
                for prompt, t in zip(prompts, trajectories)
            ],
            completion_ids=[[int(i) for i in t.ids[t.prompt_count :]] for t in trajectories],
            trainer_state=None,
            log_extra=_ignore,
            log_metric=_ignore,
            **columns.of(rows),
        )
        given: List[Any] = _async.result(scores)
        return given if hasattr(given, "__len__") else list(given)  # an iterator's

    return reward
