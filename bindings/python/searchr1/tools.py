"""Tools: Python functions that a policy calls by name with JSON arguments.

    def population(city: str, year: int = 2020) -> int:
        \"\"\"How many people live in a city.

        Args:
            city: its name
        \"\"\"
        return ask_a_database(city, year)

    env = Environment("tools", tools=[population], protocol="mt-grpo")

A function may be async. The policy reads what it returns as a text, a dict as JSON. What a
tool raises is told to the policy as an error of its own making; Unavailable, TimeoutError
and ConnectionError are not: the trajectory is left out, as after a failed search.
"""

from __future__ import annotations

import collections.abc
import inspect
import json
import re
import types
import typing
from typing import Any, Callable, Dict, List, Literal, Mapping, Optional, Tuple, Union

from . import _async, _callbacks
from ._lib import lib
from ._structs import ToolOps, ToolOpsCall
from ._text import encode, optional, terminated, text_at

FAILED, TIMEOUT, BROKEN = 1, 2, 3  # SR1_TOOL_*
WAITS, CONCURRENT = 1, 2

# Of Optional[int] and, since Python 3.10, of int | None.
_UNIONS = (Union, getattr(types, "UnionType", Union))
_NAMES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


class Unavailable(Exception):
    """Raised in a tool: it, or the way to it, is broken, which says nothing about the
    policy."""


class Tool:
    """A tool: something to call, and how it is described.

    The name, the description (the docstring's first paragraph) and the schema (from
    annotations, defaults and the docstring's list of arguments) are the function's own
    unless given. An object with a method `call` is fine too.
    """

    def __init__(
        self,
        function: Any,
        name: Optional[str] = None,
        description: Optional[str] = None,
        schema: Optional[Mapping[str, Any]] = None,
        deadline: float = 0.0,
        waits: bool = False,
        concurrent: bool = False,
    ) -> None:
        """deadline: seconds after which a call is given up; 0: never. waits: it takes
        long but little work here. concurrent: several threads may call it at a time."""
        if inspect.isclass(function):
            raise TypeError(
                f"a tool is an object: give {function.__name__}(...), not the class"
            )
        called = function if callable(function) else getattr(function, "call", None)
        if called is None:
            raise TypeError(
                "a tool is a function, an object with a method call, or a Tool, not "
                f"{function!r:.80}"
            )
        text = inspect.getdoc(called) or inspect.getdoc(function) or ""
        own_name = getattr(function, "name", None) or getattr(called, "__name__", "")
        self.function: Callable[..., Any] = called
        self.name = name or own_name or type(function).__name__
        self.description = description or text.split("\n\n")[0].replace("\n", " ")
        self.schema = dict(schema) if schema is not None else schema_of(called)
        self.deadline = float(deadline)
        self.flags = (WAITS if waits else 0) | (CONCURRENT if concurrent else 0)


def as_tool(tool: Any) -> Tool:
    """A Tool of a function or object, or the Tool itself."""
    return tool if isinstance(tool, Tool) else Tool(tool)


def as_tools(tools: Any) -> List[Tool]:
    """A Tool of each; None has none."""
    one = callable(tools) or isinstance(tools, (str, bytes, Mapping))
    if tools is not None and (one or not hasattr(tools, "__iter__")):
        raise TypeError(
            f"tools= is a list of functions or Tools, not {tools!r:.80}; give [tool] for one"
        )
    return [as_tool(tool) for tool in tools or ()]


# ---- schemas ----


def schema_of(function: Callable[..., Any]) -> Dict[str, Any]:
    """The JSON schema of a function's arguments."""
    hints = typing.get_type_hints(function)
    texts = _argument_texts(inspect.getdoc(function) or "")
    properties, required = {}, []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(
                f"the argument {parameter.name!r} of a tool cannot be given by name"
            )
        schema = _schema_of_type(hints.get(parameter.name, Any), parameter.name)
        if parameter.name in texts:
            schema["description"] = texts[parameter.name]
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        elif parameter.default is not None:
            schema["default"] = parameter.default
        properties[parameter.name] = schema
    return {"type": "object", "properties": properties, "required": required}


def _schema_of_type(hint: Any, name: str) -> Dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return {}
    if hint in _NAMES:
        return {"type": _NAMES[hint]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in _UNIONS:
        return _schema_of_union([_schema_of_type(a, name) for a in arguments])
    if hint is list or origin in (list, collections.abc.Sequence):
        items = _schema_of_type(arguments[0], name) if arguments else {}
        return {"type": "array", "items": items}
    if hint is dict or origin in (dict, collections.abc.Mapping):
        return {"type": "object", "additionalProperties": True}
    raise TypeError(f"no schema is known for {name}: {hint}; give the tool a schema")


def _schema_of_union(parts: List[Dict[str, Any]]) -> Dict[str, Any]:
    """What fits any of the schemas."""
    if {} in parts:
        return {}
    if all(part.keys() == {"type"} for part in parts):
        return {"type": [part["type"] for part in parts]}
    return {"anyOf": parts}


def _argument_texts(doc: str) -> Dict[str, str]:
    """The lines "name: text" under "Args:"."""
    heading = r"^(?:Args|Arguments|Parameters):\n((?:[ \t]+.*\n?)+)"
    found = re.search(heading, doc, re.M | re.I)
    lines = found.group(1).splitlines() if found else []
    pairs = [re.match(r"\s+(\w+)(?: \([^)]*\))?: (.+)", line) for line in lines]
    return {pair.group(1): pair.group(2).strip() for pair in pairs if pair}


# ---- calls ----


def add(env: Any, tool: Tool) -> None:
    """Add a tool to an environment of the library."""
    ops = ToolOps(
        name=terminated(tool.name),
        description=optional(tool.description or None),
        schema=terminated(json.dumps(tool.schema, ensure_ascii=False)),
        call=_call,
        destroy=_callbacks.destroy,
        flags=tool.flags,
        deadline_s=tool.deadline,
    )
    key = _callbacks.own(tool.function)
    try:
        lib.sr1_env_add_tool(env, ops, key)
    except Exception:
        _callbacks.disown(key)
        raise


def _called(key: int, args: int, n: int, sink: int) -> int:
    function = _callbacks.owned(key)
    return int(_callbacks.run(_answer, function, text_at(args, n), sink))


_call = ToolOpsCall(_called)


def _shown(result: Any) -> str:
    """What a policy reads of a result: an object as JSON, where it has that form."""
    if isinstance(result, dict):
        try:
            return json.dumps(result, ensure_ascii=False)
        except (TypeError, ValueError):
            pass
    return "" if result is None else str(result)


def _outcome(function: Callable[..., Any], args: str) -> Tuple[int, str]:
    try:
        result = _async.result(function(**json.loads(args)))
    except TimeoutError as error:
        return TIMEOUT, str(error)
    except (Unavailable, ConnectionError) as error:
        return BROKEN, str(error)
    except Exception as error:
        return FAILED, str(error) or type(error).__name__
    return 0, _shown(result)


def _answer(function: Callable[..., Any], args: str, sink: int) -> None:
    status, text = _outcome(function, args)
    data = encode(text)
    lib.sr1_tool_sink_text(sink, data, len(data))
    lib.sr1_tool_sink_status(sink, status)

