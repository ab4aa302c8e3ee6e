"""A trajectory as messages: what the policy said, the calls that it made, and what answered
each. What a library calls them is the business of its module."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Sequence, Tuple

from .env import parse_call
from .errors import ParseError
from .trajectory import SearchRecord, Segment, Trajectory

Call = Dict[str, Any]  # "name" and "arguments"

_TAG = re.compile(r"<([^<>/\s]+)>\s*$")  # that opens what follows
_OPENING = re.compile(r"(?:<[^<>/\s]+>|\[[A-Z_]+\])\Z")  # of the first call


@dataclass(frozen=True)
class Message:
    """role: "assistant"; "tool", of what answered a call; "user", of what answered none.
    calls: those that an assistant's message makes, or the one that a tool's answers."""

    role: str
    text: str
    calls: Tuple[Call, ...] = ()


def _call(record: SearchRecord) -> Call:
    """What is no call of a tool is a name without arguments."""
    try:
        return parse_call(record.query)
    except ParseError:
        return {"name": record.query, "arguments": {}}


def _last_call(text: str, call: str) -> int:
    """Where this call stands last, between tags if it does anywhere; -1: nowhere."""
    between = re.compile(rf"<([^<>/\s]+)>\s*({re.escape(call)})\s*</\1>")
    places = [match.start(2) for match in between.finditer(text)]
    return places[-1] if places else text.rfind(call) if call else -1


def _before_calls(text: str) -> str:
    """Without what opens the first call: a tag, and the beginning of a list of calls."""
    text = text.rstrip()
    if text.endswith("["):
        text = text[:-1].rstrip()
    opening = _OPENING.search(text)
    return text[: opening.start()].rstrip() if opening else text


def _said(segment: Segment, records: Sequence[SearchRecord]) -> Message:
    """Calls are the last things in a message, in order: what is the same before them is
    none."""
    at = len(segment.text)
    for record in reversed(records):
        found = _last_call(segment.text[:at], record.query)
        at = found if found >= 0 else at
    text = _before_calls(segment.text[:at]) if records else segment.text
    return Message("assistant", text, tuple(map(_call, records)))


def _results(segment: Segment, n: int) -> List[str]:
    """Of several calls the tags stand between the results, with the same white space
    each time: other tags are in a result."""
    tag = _TAG.search(segment.text[: segment.text.find(segment.body)])
    if tag and n > 1:
        name = re.escape(tag.group(1))
        for between in sorted(set(re.findall(rf"</{name}>\s*<{name}>", segment.body))):
            results = segment.body.split(between)
            if len(results) == n:
                return results
    return [segment.body]


def _answered(segment: Segment, records: Sequence[SearchRecord]) -> Iterator[Message]:
    """A message for each call."""
    bodies = _results(segment, len(records))
    if not records:
        yield Message("user", segment.body.strip())
    elif len(bodies) != len(records):
        yield Message("tool", segment.body.strip())
    else:
        for record, body in zip(records, bodies):
            yield Message("tool", body.strip(), (_call(record),))


def messages(trajectory: Trajectory) -> List[Message]:
    """Its turns, without the prompt."""
    found: List[Message] = []
    searches = trajectory.searches
    for segment in trajectory.segments:
        records = [r for r in searches if r.turn == segment.turn]
        if segment.source == "policy":
            found.append(_said(segment, records))
        elif segment.source == "environment":
            found += _answered(segment, records)
    return found
