"""Reward functions of TRL as rewards of this library.

    rewards = {"names_city": of_trl(names_city)}

The function sees what GRPOTrainer gives it: prompts, completions, completion_ids, and every
other column of the rows. Where the prompt is a text, completions are texts; else they are
messages, with tool_calls and with what tools answered.
"""

from __future__ import annotations

import ast
import json
from typing import Any, Callable, Dict, List, Mapping, Union

from . import _async, _messages
from .trajectory import Trajectory

Messages = List[Dict[str, Any]]


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


def of_trl(function: Callable[..., Any]) -> Callable[[List[Trajectory]], List[Any]]:
    """A reward function of TRL's GRPOTrainer, async or not, as a reward of a Trainer."""

    def reward(trajectories: List[Trajectory]) -> List[Any]:
        rows = [t.row for t in trajectories]
        prompts = [_prompt(row, t) for row, t in zip(rows, trajectories)]
        columns = {
            name: [row.get(name) for row in rows]
            for name in rows[0]
            if name not in ("prompt", "completion", "completion_ids")
        }
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
            **columns,
        )
        return list(_async.result(scores))

    return reward
