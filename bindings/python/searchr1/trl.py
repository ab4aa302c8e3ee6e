"""Reward functions of TRL as rewards of this library.

    rewards = {"names_city": of_trl(names_city)}

The function sees what GRPOTrainer gives it: prompts, completions, completion_ids, and every
other column of the rows. Where the prompt is a text, completions are texts; else they are
messages, with tool_calls and with what tools answered.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any, Callable, Dict, List, Mapping, Sequence, Union

from . import _async, errors
from .env import parse_call
from .trajectory import SearchRecord, Segment, Trajectory

Messages = List[Dict[str, Any]]

_TAG = re.compile(r"\s*<([^<>/\s]+)>\s*$")  # that opens what follows


def _call(record: SearchRecord) -> Dict[str, Any]:
    """A call as chat templates write it; what cannot be read is its text."""
    try:
        function = parse_call(record.query)
    except errors.Error:
        function = {"name": record.query, "arguments": {}}
    return {"type": "function", "function": function}


def _said(segment: Segment, records: Sequence[SearchRecord]) -> Dict[str, Any]:
    text = segment.text
    at = text.find(records[0].query) if records else -1
    message: Dict[str, Any] = {"role": "assistant", "content": text}
    if at >= 0:
        message["content"] = _TAG.sub("", text[:at])
        message["tool_calls"] = [_call(record) for record in records]
    return message


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


def _answered(segment: Segment, records: Sequence[SearchRecord]) -> Messages:
    """A message for each call; of several the tags stand between their results."""
    tag = _TAG.search(segment.text[: segment.text.find(segment.body)])
    bodies = [segment.body]
    if len(records) > 1 and tag:
        name = re.escape(tag.group(1))
        bodies = re.split(rf"</{name}>\s*<{name}>", segment.body)
    if not records or len(bodies) != len(records):
        return [{"role": "tool", "content": _content(segment.body.strip())}]
    return [
        {
            "role": "tool",
            "name": _call(record)["function"]["name"],
            "content": _content(body.strip()),
        }
        for record, body in zip(records, bodies)
    ]


def messages(trajectory: Trajectory) -> Messages:
    """The turns of a trajectory as messages of the assistant and of tools."""
    found: Messages = []
    searches = trajectory.searches
    for segment in trajectory.segments:
        records = [r for r in searches if r.turn == segment.turn]
        if segment.source == "policy":
            found.append(_said(segment, records))
        elif segment.source == "environment":
            found += _answered(segment, records)
    return found


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
