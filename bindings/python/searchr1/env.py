"""What answers a policy's actions, and the tags of its protocol."""

from __future__ import annotations

import json
import os
from ctypes import POINTER, byref, c_int32, c_int64, c_size_t, c_void_p, cast
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _callbacks, log
from ._handle import Handle, make
from ._lib import lib
from ._structs import (
    EnvAction,
    EnvOps,
    EnvOpsAct,
    EnvOpsBegin,
    EnvOpsFinish,
    EnvOptions,
    EnvReply,
    ExternalOptions,
    McpOptions,
)
from ._text import Text, decode, encode, optional, take, terminated, text_at
from .config import Config
from .search import as_search, open_search
from .tools import add, as_tool, as_tools
from .trajectory import Trajectory

EVENTS = ("none", "action", "answer")


@dataclass(frozen=True)
class Action:
    """A closed action tag: its content, the trajectory of the batch, its turn from 0, and
    the number of the trajectory's episode (0: none)."""

    text: str
    row: int
    turn: int
    episode: int = 0


@dataclass(frozen=True)
class Episode:
    """A trajectory that begins."""

    number: int
    query_id: str
    query: str
    sample: int
    seed: int
    row: Mapping[str, Any] = field(default_factory=dict)  # of the data set


@dataclass(frozen=True)
class Reply:
    """An answer to an action with what it earned. done ends the trajectory; executed is
    False when the action itself was wrong and nothing was done."""

    text: str
    reward: float = 0.0
    success: bool = False
    done: bool = False
    executed: bool = True


ActFunction = Callable[[List[Action]], Sequence[Union[str, Reply, Exception]]]


def _check_kind(kind: Any) -> None:
    """A name, or what can be called; told here, where it is known what was given."""
    if isinstance(kind, type):
        raise TypeError(
            f"an environment is an object: give {kind.__name__}(...), not the class"
        )
    if not callable(kind) and not isinstance(kind, (str, bytes)):
        raise TypeError(
            'an environment is a name ("search", "tools", "rooms", "none"), or a function '
            "or an object that can be called with the actions of a turn (__call__), which "
            f"may have begin and finish; {type(kind).__name__} cannot be called"
        )
    if hasattr(kind, "begin") != hasattr(kind, "finish"):
        raise TypeError(
            f"{type(kind).__name__} has begin or finish; an environment has both, or none"
        )


class Environment(Handle):
    """What answers actions: "search" (each is a query to an engine), "tools" (each calls
    a tool: wiki_search on the engine, if there is one, and your own), "rooms" (a text
    world, see searchr1.world), "none", or a Python function from the actions of a turn to
    the answer to each, a text or a Reply; an exception object in its place is an outage,
    and that trajectory is left out of training (key search_failure), and so are those of a
    call that raises. An object that can be called so may also have begin(Episode) and
    finish(number), to keep a state for each trajectory."""

    _free = "sr1_env_free"

    def __init__(
        self,
        kind: Any = "search",
        search: Any = None,
        protocol: Optional[str] = None,
        document_format: Optional[str] = None,
        top_k: int = 3,
        name: str = "python",
        tools: Sequence[Any] = (),
        max_parallel_calls: int = 0,
    ) -> None:
        """document_format: "titled", "numbered" or "plain". tools: functions or Tools, of
        the kind "tools". protocol: a name, or the path of a file that describes one.
        max_parallel_calls: of one message, in protocols of several (hermes); 0: 8."""
        options = EnvOptions(
            protocol=optional(protocol),
            document_format=optional(document_format),
            top_k=top_k,
            max_parallel_calls=max_parallel_calls,
        )
        engine = as_search(search)
        _check_kind(kind)
        if not callable(kind):
            super().__init__(
                make(lib.sr1_rooms_env_open, byref(options))
                if kind == "rooms"
                else make(lib.sr1_env_open, terminated(kind), engine, byref(options))
            )
            for tool in as_tools(tools):
                self.add_tool(tool)
            return
        ops = EnvOps(name=terminated(name), act=_act, destroy=_callbacks.destroy)
        if hasattr(kind, "begin"):
            ops.begin, ops.finish = _begin, _finish
        key = _callbacks.own(kind)
        try:
            super().__init__(make(lib.sr1_env_new, byref(ops), key, byref(options)))
        except Exception:
            _callbacks.disown(key)
            raise

    @classmethod
    def program(
        cls,
        path: Any,
        protocol: Optional[str] = None,
        timeout: float = 600.0,
    ) -> Environment:
        """A program of yours, in any language, that answers actions by lines of JSON
        (docs/formats.md). timeout: seconds of one request."""
        options = EnvOptions(protocol=optional(protocol))
        limits = ExternalOptions(timeout_s=timeout)
        self = cls.__new__(cls)
        Handle.__init__(
            self,
            make(
                lib.sr1_env_open_external,
                terminated(os.fspath(path)),
                byref(options),
                byref(limits),
            ),
        )
        return self

    def add_tool(self, tool: Any) -> None:
        """Add a function or a Tool, before anything else uses the environment."""
        add(self, as_tool(tool))

    def add_mcp(self, path: Any, timeout: float = 60.0, start_timeout: float = 60.0) -> None:
        """Start the MCP servers that a file names (mcp.json, as other clients read it), and
        add their tools, before anything else uses the environment. timeout: seconds of one
        call."""
        options = McpOptions(timeout_s=timeout, start_timeout_s=start_timeout)
        lib.sr1_env_add_mcp(self, terminated(os.fspath(path)), byref(options))

    @property
    def tools(self) -> str:
        """The tools as a prompt shows them."""
        return decode(lib.sr1_env_tools(self))

    @property
    def name(self) -> str:
        return decode(lib.sr1_env_name(self))

    def answer(self, action: Text) -> str:
        """The block that would be inserted after this action, tags included."""
        data = encode(action)
        text, n = c_void_p(), c_size_t()
        try:
            with _callbacks.call():
                lib.sr1_env_answer(self, data, len(data), byref(text), byref(n))
            return text_at(text.value, n.value)
        finally:
            lib.sr1_free(text)

    def begin(self, query_id: str = "", query: Text = "", seed: int = 0) -> int:
        """Begin a trajectory of one's own; its number (0: no state is kept)."""
        data, episode = encode(query), c_int64()
        with _callbacks.call():
            lib.sr1_env_begin(
                self, terminated(query_id), data, len(data), seed, byref(episode)
            )
        return episode.value

    def step(self, episode: int, action: Text) -> Reply:
        """The block that would be inserted after this action of the episode."""
        data, reply = encode(action), EnvReply()
        text, n = c_void_p(), c_size_t()
        try:
            with _callbacks.call():
                lib.sr1_env_step(
                    self, episode, data, len(data), byref(reply), byref(text), byref(n)
                )
            block = text_at(text.value, n.value)
        finally:
            lib.sr1_free(text)
        return Reply(
            text=block,
            reward=reply.reward,
            success=bool(reply.success),
            done=bool(reply.done),
            executed=not reply.flags & UNEXECUTED,
        )

    def finish(self, episode: int) -> None:
        """End an episode, once."""
        with _callbacks.call():
            lib.sr1_env_finish(self, episode)


def own_environment(
    config: Config, env: Any, tools: Sequence[Any], engine: Any
) -> Tuple[Config, Optional[Environment]]:
    """What env= and tools= mean: a configuration without an environment of its own, and
    the environment; the configuration itself and None where neither is given. Tools have
    the protocol hermes unless one is set. An engine is one more tool, and the MCP servers
    of the key tools have others."""
    tools = as_tools(tools)
    if env is None and not tools:
        return config, None
    if env is not None and tools:
        raise TypeError("env= and tools= exclude each other; add tools to the environment")
    if isinstance(env, Environment) and config["tools"]:
        raise ValueError(
            f"env= takes the place of the MCP servers of {config['tools']} (key tools); "
            "add them by env.add_mcp, and leave the key empty"
        )
    config = config.copy()
    if tools and not config.is_set("protocol") and not config["protocol_file"]:
        config["protocol"] = "hermes"
    if tools and engine is None and config.is_set("search_engine"):
        engine = open_search(config) if config["search_engine"] != "none" else None
    if not isinstance(env, Environment):
        env = Environment(
            env or "tools",
            engine,
            protocol=str(config["protocol_file"] or config["protocol"]),
            document_format=str(config["document_format"]),
            top_k=int(config["search_top_k"]),  # type: ignore[arg-type]
            tools=tools,
            max_parallel_calls=int(config["max_parallel_calls"]),  # type: ignore
        )
        if config["tools"]:
            seconds = float(config["tools_timeout"])  # type: ignore[arg-type]
            env.add_mcp(config["tools"], timeout=seconds, start_timeout=seconds)
            config["tools"] = ""
    config["environment"] = "none"  # the one above takes its place
    return config, env


UNEXECUTED = 2  # SR1_ANSWER_UNEXECUTED
TIMEOUT, ERROR = 2, 3  # SR1_ACTION_*


def _begun(key: int, given: Any) -> int:
    function = _callbacks.owned(key)
    e = given.contents
    episode = Episode(
        number=e.episode,
        query_id=decode(e.query_id),
        query=text_at(e.query, e.query_len),
        sample=e.sample,
        seed=e.seed,
        row=json.loads(text_at(e.row, e.row_len) or "{}"),
    )
    return int(_callbacks.run(function.begin, episode))


def _finished(key: int, episode: int) -> None:
    function = _callbacks.owned(key)
    _callbacks.run_always(function.finish, episode)


_begin = EnvOpsBegin(_begun)
_finish = EnvOpsFinish(_finished)


def _called(key: int, actions: Any, n: int, sink: int) -> int:
    function = _callbacks.owned(key)
    return int(_callbacks.run_rows(_answer, function, actions[:n], sink))


_act = EnvOpsAct(_called)


def _check_reply(i: int, reply: Reply) -> None:
    if not isinstance(reply.text, (str, bytes)):
        raise TypeError(
            f"the environment's answer {i} is {reply.text!r:.80}; it must be a text, a "
            "Reply with a text, or an exception object"
        )
    if not _callbacks.is_number(reply.reward):
        raise TypeError(
            f"the environment's answer {i}: its reward is {reply.reward!r:.80}, no number"
        )


def _answer(function: ActFunction, addresses: List[int], sink: int) -> None:
    actions = [cast(address, POINTER(EnvAction)).contents for address in addresses]
    answers = function(
        [Action(text_at(a.text, a.len), a.row, a.turn, a.episode) for a in actions]
    )
    _callbacks.check_each("an environment", answers, "answers", len(actions), "actions")
    failed = [answer for answer in answers if isinstance(answer, Exception)]
    if failed:
        log.warn(
            f"{len(failed)} of {len(actions)} actions could not be done; search_failure "
            f"decides about their trajectories: {_callbacks.describe(failed[0])}"
        )
    for i, answer in enumerate(answers):
        if isinstance(answer, Exception):
            late = isinstance(answer, TimeoutError)
            lib.sr1_env_sink_status(sink, i, TIMEOUT if late else ERROR)
            answer = Reply("", executed=False)
        reply = answer if isinstance(answer, Reply) else Reply(answer)
        _check_reply(i, reply)
        data = encode(reply.text)
        lib.sr1_env_sink_text(sink, i, data, len(data))
        lib.sr1_env_sink_reward(sink, i, reply.reward)
        if reply.success:
            lib.sr1_env_sink_success(sink, i)
        if reply.done:
            lib.sr1_env_sink_done(sink, i)
        if not reply.executed:
            lib.sr1_env_sink_flags(sink, i, UNEXECUTED)


def parse(text: Text, protocol: Optional[str] = None) -> Tuple[str, str]:
    """The first event in a policy's text, ("none" | "action" | "answer", content)."""
    data = encode(text)
    event, begin, n = c_int32(), c_size_t(), c_size_t()
    lib.sr1_protocol_parse(
        optional(protocol), data, len(data), byref(event), byref(begin), byref(n)
    )
    return EVENTS[event.value], decode(data[begin.value : begin.value + n.value])


def parse_call(text: Text) -> Dict[str, Any]:
    """The call of a tool, {"name", "arguments"}, in any form that policies write. What is
    no call raises errors.ParseError. Arguments in tags (qwen3-coder) are the JSON that they
    are, else texts."""
    data, call = encode(text), c_void_p()
    lib.sr1_tool_call_parse(data, len(data), byref(call))
    return dict(json.loads(take(call)))


def result_turn(trajectory: Trajectory, protocol: Optional[str] = None) -> Optional[int]:
    """The first turn that a result follows, None without one."""
    turn = c_int32()
    lib.sr1_protocol_result_turn(optional(protocol), trajectory, byref(turn))
    return turn.value if turn.value >= 0 else None
