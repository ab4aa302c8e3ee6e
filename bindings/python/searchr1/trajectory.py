"""One rolled-out attempt at one question.

A trajectory is a sequence of n token ids: the prompt, then what the policy sampled (m
tokens) and what the environment inserted, in order. Text is a view of it. Only its reward
and advantage can be set.
"""

from __future__ import annotations

import ctypes
import json
from ctypes import (
    byref,
    c_char_p,
    c_double,
    c_float,
    c_int32,
    c_size_t,
    c_uint8,
    c_void_p,
)
from dataclasses import dataclass
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from . import _arrays
from ._handle import Handle
from ._lib import lib
from ._structs import ActionEvent, TextSegment, TokenStep
from ._text import PathLike, Text, decode, encode, take, text_at
from .data import read_lines
from .search import STATUSES

SOURCES = ("prompt", "policy", "environment")

# Names for Trajectory.column, by their number in the library.
COLUMNS = (
    "token_advantages",
    "reference_log_probs",
    "token_rewards",
    "values",
    "returns",
    "thinking_level_entropies",
    "thinking_token_costs",
    "old_log_probs",
    "entropies",
    "score_norms",
)


@dataclass(frozen=True)
class Step:
    """One token. text: its piece of the generated text, whole characters only. position:
    in the whole sequence."""

    token_id: int
    text: str
    log_prob: float  # 0 unless the policy's
    position: int
    turn: int
    source: str  # one of SOURCES


@dataclass(frozen=True)
class Segment:
    """A run of tokens of one source in one turn. body: the text without the tags of an
    inserted block."""

    source: str
    turn: int
    token_begin: int
    token_count: int
    text: str
    body: str


@dataclass(frozen=True)
class SearchRecord:
    """A search the policy asked for, or another action. hits: passages found; hit_ids:
    the first of them; reward and success: what the environment gave for it."""

    query: str
    turn: int
    status: str
    hits: int
    hit_ids: Tuple[str, ...]
    reward: float = 0.0
    success: bool = False


@dataclass(frozen=True)
class RewardPart:
    """A named part of the reward, before weighting."""

    name: str
    value: float
    weight: float


class Trajectory(Handle):
    """See the module. Arrays are read-only views without a copy and stay valid, whatever
    becomes of the trajectory."""

    _free = "sr1_trajectory_free"
    _row: Optional[Dict[str, Any]] = None  # once it has been read

    @classmethod
    def _retained(cls, pointer: int) -> Trajectory:
        """One more reference to a borrowed trajectory."""
        return cls(lib.sr1_trajectory_retain(pointer))

    # ---- identity ----

    def _text(self, function: Any, *arguments: Any) -> str:
        n = c_size_t()
        return text_at(function(self, *arguments, byref(n)), n.value)

    @property
    def query(self) -> str:
        return self._text(lib.sr1_trajectory_query)

    @property
    def query_id(self) -> str:
        """Identity of the prompt, the same for a whole group."""
        return decode(lib.sr1_trajectory_query_id(self))

    @property
    def sample(self) -> int:
        """Which sample of its group this is, from 0."""
        return int(lib.sr1_trajectory_sample(self))

    @property
    def copy(self) -> int:
        """How many questions of the same identity its batch had before its own."""
        return int(lib.sr1_trajectory_copy(self))

    @property
    def episode(self) -> int:
        """Episode.number of the environment that played it; 0: without one, or not of this
        process."""
        return int(lib.sr1_trajectory_episode(self))

    @property
    def group_key(self) -> int:
        """Hash of the query's id and copy and the prompt's ids: equal for the samples of a
        query."""
        return int(lib.sr1_trajectory_group_key(self))

    @property
    def data_source(self) -> str:
        return decode(lib.sr1_trajectory_data_source(self))

    @property
    def history(self) -> List[Dict[str, str]]:
        """The conversation before the question, oldest message first."""
        messages = []
        for i in range(lib.sr1_trajectory_history_count(self)):
            role, size = c_char_p(), c_size_t()
            text = lib.sr1_trajectory_history(self, i, byref(role), byref(size))
            messages.append(
                {"role": decode(role.value), "content": text_at(text, size.value)}
            )
        return messages

    @property
    def ground_truths(self) -> List[str]:
        """Gold answers."""
        count = lib.sr1_trajectory_ground_truth_count(self)
        return [self._text(lib.sr1_trajectory_ground_truth, i) for i in range(count)]

    @property
    def row(self) -> Dict[str, Any]:
        """The row of the data set that the question came from, all its columns; empty if
        none was given or it is longer than 1 MiB."""
        if self._row is None:
            self._row = dict(json.loads(self._text(lib.sr1_trajectory_row_json) or "{}"))
        return self._row

    # ---- how it was sampled ----

    @property
    def temperature(self) -> float:
        return float(lib.sr1_trajectory_temperature(self))

    @property
    def top_p(self) -> float:
        return float(lib.sr1_trajectory_top_p(self))

    @property
    def top_k(self) -> int:
        return int(lib.sr1_trajectory_top_k(self))

    @property
    def weights_version(self) -> int:
        """Optimizer steps the sampling weights had seen; -1: not recorded."""
        return int(lib.sr1_trajectory_weights_version(self))

    @property
    def token_weights_versions(self) -> list[int]:
        """The same of each policy token: a server may take new weights meanwhile."""
        n = int(lib.sr1_trajectory_policy_count(self))
        return [int(lib.sr1_trajectory_token_weights_version(self, i)) for i in range(n)]

    @property
    def begins_in_thought(self) -> bool:
        """Whether the prompt opened a thought that the generated text goes on in."""
        return bool(lib.sr1_trajectory_begins_in_thought(self))

    @property
    def stop_reason(self) -> str:
        """Why generation ended: "answer", "eos", "token_limit", ..."""
        return decode(lib.sr1_stop_reason_name(lib.sr1_trajectory_stop_reason(self)))

    # ---- tokens ----

    def __len__(self) -> int:
        """n, all tokens."""
        return int(lib.sr1_trajectory_token_count(self))

    def __bool__(self) -> bool:
        return True

    @property
    def prompt_count(self) -> int:
        return int(lib.sr1_trajectory_prompt_count(self))

    @property
    def policy_count(self) -> int:
        """m, the tokens sampled by the policy."""
        return int(lib.sr1_trajectory_policy_count(self))

    @property
    def environment_count(self) -> int:
        return int(lib.sr1_trajectory_environment_count(self))

    @property
    def turn_count(self) -> int:
        return int(lib.sr1_trajectory_turn_count(self))

    def _view(self, function: Any, kind: Any, n: int) -> Any:
        holder = Trajectory(lib.sr1_trajectory_retain(self))
        return _arrays.view(function(self), kind, n, holder)

    @property
    def ids(self) -> Any:
        """int32 [n]: the whole sequence (full_input_ids)."""
        return self._view(lib.sr1_trajectory_ids, c_int32, len(self))

    full_input_ids = ids

    @property
    def sources(self) -> Any:
        """uint8 [n]: index into SOURCES of each token."""
        return self._view(lib.sr1_trajectory_sources, c_uint8, len(self))

    @property
    def turns(self) -> Any:
        """int32 [n]: turn of each token, from 0; 0 in the prompt."""
        return self._view(lib.sr1_trajectory_turns, c_int32, len(self))

    @property
    def log_probs(self) -> Any:
        """float32 [n]: nats, under the sampling distribution; 0 unless the policy's."""
        return self._view(lib.sr1_trajectory_log_probs, c_float, len(self))

    @property
    def policy_mask(self) -> Any:
        """uint8 [n]: 1 for the policy's tokens, else 0."""
        return self._view(lib.sr1_trajectory_policy_mask, c_uint8, len(self))

    @property
    def policy_positions(self) -> Any:
        """int32 [m]: positions of the policy's tokens (generated_positions)."""
        return self._view(lib.sr1_trajectory_policy_positions, c_int32, self.policy_count)

    generated_positions = policy_positions

    @property
    def policy_log_probs(self) -> Any:
        """float32 [m]: log_probs of the policy's tokens."""
        return self._view(lib.sr1_trajectory_policy_log_probs, c_float, self.policy_count)

    @property
    def text_ends(self) -> Any:
        """uint32 [n - prompt]: byte of the generated text's UTF-8 at which the piece of
        each token ends."""
        n = len(self) - self.prompt_count
        return self._view(lib.sr1_trajectory_text_ends, ctypes.c_uint32, n)

    @property
    def steps(self) -> List[Step]:
        """The policy's tokens in order (token_steps)."""
        return [self._step(lib.sr1_trajectory_step, i) for i in range(self.policy_count)]

    @property
    def tokens(self) -> List[Step]:
        """All tokens, of any source."""
        return [self._step(lib.sr1_trajectory_token, i) for i in range(len(self))]

    def _step(self, function: Any, index: int) -> Step:
        step = TokenStep()
        function(self, index, byref(step))
        return Step(
            token_id=step.token_id,
            text=text_at(step.text, step.text_len),
            log_prob=step.log_prob,
            position=step.position,
            turn=step.turn,
            source=SOURCES[step.source],
        )

    # ---- text ----

    @property
    def generated_text(self) -> str:
        """All text after the prompt: tags and inserted blocks included."""
        return self._text(lib.sr1_trajectory_generated_text)

    @property
    def final_answer(self) -> str:
        """The answer the protocol extracted; may be empty."""
        return self._text(lib.sr1_trajectory_final_answer)

    @property
    def segments(self) -> List[Segment]:
        """They cover the generated text and the tokens after the prompt, in order."""
        n = c_size_t()
        address = lib.sr1_trajectory_generated_text(self, byref(n))
        text = ctypes.string_at(address, n.value)
        count = lib.sr1_trajectory_segment_count(self)
        return [self._segment(i, text) for i in range(count)]

    def _segment(self, index: int, text: bytes) -> Segment:
        s = TextSegment()
        lib.sr1_trajectory_segment(self, index, byref(s))
        return Segment(
            source=SOURCES[s.source],
            turn=s.turn,
            token_begin=s.token_begin,
            token_count=s.token_count,
            text=decode(text[s.text_begin : s.text_begin + s.text_len]),
            body=decode(text[s.body_begin : s.body_begin + s.body_len]),
        )

    @property
    def searches(self) -> List[SearchRecord]:
        """The searches the policy asked for, in order."""
        count = lib.sr1_trajectory_search_count(self)
        return [self._search(i) for i in range(count)]

    def _search(self, index: int) -> SearchRecord:
        event = ActionEvent()
        lib.sr1_trajectory_search(self, index, byref(event))
        n_ids = event.n_hit_ids
        return SearchRecord(
            query=text_at(event.query, event.query_len),
            turn=event.turn,
            status=STATUSES[event.status],
            hits=event.n_hits,
            hit_ids=tuple(map(decode, _arrays.listed(event.hit_ids, c_char_p, n_ids))),
            reward=event.reward,
            success=bool(event.success),
        )

    # ---- reward and advantage ----

    @property
    def has_reward(self) -> bool:
        return bool(lib.sr1_trajectory_has_reward(self))

    @property
    def reward(self) -> float:
        """The total; 0 before it is set. Setting it drops the parts."""
        return float(lib.sr1_trajectory_reward(self))

    @reward.setter
    def reward(self, total: float) -> None:
        lib.sr1_trajectory_set_reward(self, total)

    @property
    def reward_parts(self) -> List[RewardPart]:
        """What the total was made from."""
        count = lib.sr1_trajectory_reward_component_count(self)
        return [self._reward_part(i) for i in range(count)]

    def _reward_part(self, index: int) -> RewardPart:
        name, value, weight = c_char_p(), c_double(), c_double()
        lib.sr1_trajectory_reward_component(
            self, index, byref(name), byref(value), byref(weight)
        )
        return RewardPart(decode(name.value), value.value, weight.value)

    @property
    def has_advantage(self) -> bool:
        return bool(lib.sr1_trajectory_has_advantage(self))

    @property
    def advantage(self) -> float:
        """Of the whole trajectory; 0 before it is set."""
        return float(lib.sr1_trajectory_advantage(self))

    @advantage.setter
    def advantage(self, value: float) -> None:
        lib.sr1_trajectory_set_advantage(self, value)

    @property
    def token_advantages(self) -> Any:
        """float32 [m], a copy, used instead of advantage; empty if none were set."""
        return self.column("token_advantages")

    @token_advantages.setter
    def token_advantages(self, values: Iterable[float]) -> None:
        self.set_column("token_advantages", values)

    def column(self, name: str) -> Any:
        """float32 [m], a copy: one of COLUMNS; empty if it was not set."""
        address = lib.sr1_trajectory_column(self, COLUMNS.index(name))
        return _arrays.copy(address, c_float, self.policy_count if address else 0)

    def set_column(self, name: str, values: Iterable[float]) -> None:
        """One number for each policy token; none removes the column."""
        data, pointer = _arrays.given(values, c_float)
        lib.sr1_trajectory_set_column(self, COLUMNS.index(name), pointer, len(data))

    # ---- storage and exchange ----

    def encode(self) -> bytes:
        """Every field in a checksummed binary form, without loss."""
        memory, n = c_void_p(), c_size_t()
        lib.sr1_trajectory_encode(self, byref(memory), byref(n))
        try:
            return ctypes.string_at(memory, n.value)
        finally:
            lib.sr1_free(memory)

    @classmethod
    def decode(cls, data: bytes) -> Trajectory:
        """Read what encode gave."""
        out = c_void_p()
        lib.sr1_trajectory_decode(byref(out), data, len(data))
        return cls(out.value)  # type: ignore[arg-type]

    def __reduce__(self) -> Any:
        """Pickled as encode gives it, so that processes may score it."""
        return Trajectory.decode, (self.encode(),)

    def to_json(self) -> str:
        """Every field as one line of JSON, without loss."""
        memory, n = c_void_p(), c_size_t()
        lib.sr1_trajectory_to_json(self, byref(memory), byref(n))
        return take(memory, n.value)

    @classmethod
    def from_json(cls, text: Text) -> Trajectory:
        """Read what to_json gave."""
        data = encode(text)
        out = c_void_p()
        lib.sr1_trajectory_from_json(byref(out), data, len(data))
        return cls(out.value)  # type: ignore[arg-type]

    @classmethod
    def read(cls, path: PathLike) -> Iterator[Trajectory]:
        """Those of a file of JSON lines, such as trajectories.jsonl.zst of a run."""
        return map(cls.from_json, read_lines(path))

    def __eq__(self, other: object) -> bool:
        """Whether every field is equal, bit for bit."""
        if not isinstance(other, Trajectory):
            return NotImplemented
        return bool(lib.sr1_trajectory_equal(self, other))

    __hash__ = Handle.__hash__

    def __repr__(self) -> str:
        actions = len(self.searches)
        return (
            f"<Trajectory {self.query!r:.60}: {self.policy_count} tokens, "
            f"{actions} action{'s' * (actions != 1)}, answer {self.final_answer!r:.60}>"
        )


def pointers(trajectories: Sequence[Trajectory]) -> Any:
    """An array of their C pointers."""
    for t in trajectories:
        if not isinstance(t, Trajectory):
            raise TypeError(f"a Trajectory is wanted here, not {t!r:.80}")
    return (c_void_p * len(trajectories))(*(t._as_parameter_.value for t in trajectories))
