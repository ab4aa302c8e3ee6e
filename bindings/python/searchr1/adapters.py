"""Environments of other libraries as environments of this one, and reward functions of TRL
(of_trl) as rewards.

    lake = Gymnasium("FrozenLake-v1", names=["left", "down", "right", "up"])
    config["answers_optional"] = True  # its rows have none
    with Trainer(config, train=lake.rows(64), env=lake, rewards="environment") as trainer:
        trainer.run()

Neither gymnasium nor verifiers is imported before it is needed, and an object with the same
methods will do in its place.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import json
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _async, _messages
from ._callbacks import name_of
from .env import Action, Episode, Reply
from .trajectory import Trajectory
from .trl import of_trl

__all__ = ["Gymnasium", "Verifiers", "WrongAction", "of_trl"]

Answer = Union[Reply, Exception]


class _Episodes:
    """One state for each trajectory, and an answer to each action by it."""

    def __init__(self) -> None:
        self._states: Dict[int, Any] = {}

    def open(self, episode: Episode) -> Any:
        raise NotImplementedError

    def shut(self, state: Any) -> None:
        pass

    def act(self, state: Any, text: str) -> Reply:
        raise NotImplementedError

    def begin(self, episode: Episode) -> None:
        self._states[episode.number] = self.open(episode)

    def finish(self, number: int) -> None:
        self.shut(self._states.pop(number))

    def __call__(self, actions: List[Action]) -> List[Answer]:
        return [self._answer(action) for action in actions]

    def _answer(self, action: Action) -> Answer:
        try:
            return self.act(self._states[action.episode], action.text.strip())
        except Exception as error:  # of the environment: nothing the policy did
            return error


class WrongAction(ValueError):
    """What the policy wrote is no action; the text is what it reads."""


def _by_space(space: Any, names: Sequence[str]) -> Callable[[str], Any]:
    """How the text of an action becomes an action of this space."""
    kind = type(space).__name__
    if kind == "Text":
        return str
    if kind == "Discrete":
        words = list(names) or [str(i + int(space.start)) for i in range(int(space.n))]
        if len(words) != int(space.n):
            raise ValueError(f"{len(words)} names were given to {int(space.n)} actions")

        def choose(text: str) -> Any:
            if text.lower() not in words:
                raise WrongAction(f"the actions are {', '.join(words)}")
            return words.index(text.lower()) + int(space.start)

        words = [word.lower() for word in words]
        return choose

    def read(text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise WrongAction(f"an action is written as JSON: {error}") from None

    return read


class Gymnasium(_Episodes):
    """Environments of Gymnasium's API, one for each trajectory.

    make: an id of Gymnasium's registry, or a function that makes an environment. text: an
    observation as the policy reads it. names: words for the actions of a Discrete space, in
    order. action: in place of names, from what the policy wrote to an action; it raises
    WrongAction for what is none. options: of gymnasium.make."""

    def __init__(
        self,
        make: Union[str, Callable[[], Any]],
        text: Callable[[Any], str] = str,
        names: Sequence[str] = (),
        action: Optional[Callable[[str], Any]] = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self._make = _registered(make, options) if isinstance(make, str) else make
        self._text = text
        env = self._make()
        self._action = action or _by_space(env.action_space, names)
        env.close()

    def rows(
        self, n: int, seed: int = 0, prompt: str = "{observation}"
    ) -> List[Dict[str, Any]]:
        """n rows to train on: the question is the first observation after a reset by a
        seed of the row's own, {observation} in prompt."""
        rows = []
        for i in range(seed, seed + n):
            env = self._make()
            observation, _ = env.reset(seed=i)
            env.close()
            question = prompt.replace("{observation}", self._text(observation))
            rows.append({"id": f"seed-{i}", "question": question, "seed": i})
        return rows

    def open(self, episode: Episode) -> Any:
        env = self._make()
        env.reset(seed=int(episode.row.get("seed", episode.seed % 2**31)))
        return env

    def shut(self, state: Any) -> None:
        state.close()

    def act(self, state: Any, text: str) -> Reply:
        try:
            action = self._action(text)
        except WrongAction as error:
            return Reply(f"Error: {error}", executed=False)
        observation, reward, terminated, truncated, info = state.step(action)
        success = info.get("is_success", terminated and float(reward) > 0)
        return Reply(
            self._text(observation),
            reward=float(reward),
            success=bool(success),
            done=bool(terminated or truncated),
        )


def _registered(name: str, options: Dict[str, Any]) -> Callable[[], Any]:
    try:
        import gymnasium
    except ImportError as error:
        raise ImportError(
            f"Gymnasium({name!r}) needs the package gymnasium (pip install gymnasium); a "
            "function that makes an environment needs none"
        ) from error

    return lambda: gymnasium.make(name, **options)


# ---- verifiers ----


def _as_installed(texts: Sequence[Mapping[str, Any]]) -> Any:
    """Messages as the installed version has them: objects since 0.1.10, or mappings."""
    try:
        from verifiers.utils.message_utils import normalize_messages
    except ImportError:
        return [dict(text) for text in texts]
    return normalize_messages([dict(text) for text in texts], field_name="completion")


def _state_type() -> Any:
    try:
        from verifiers.types import State
    except ImportError:
        return dict
    return State


def _turns(trajectory: Trajectory) -> List[Dict[str, Any]]:
    """The completion of an environment that reads texts: the policy's with its tags, and
    what answered them."""
    roles = {"policy": "assistant", "environment": "user"}
    turns = [
        {"role": roles[s.source], "content": s.body.strip() if s.source != "policy" else s.text}
        for s in trajectory.segments
        if s.source in roles
    ]
    # What ended the episode may have no words.
    ended = bool(turns) and turns[-1] == {"role": "user", "content": ""}
    return turns[:-1] if ended else turns


def _tool_turns(trajectory: Trajectory) -> List[Dict[str, Any]]:
    """The completion of an environment of tools: their calls are apart from the text, and
    what answers a call names it."""
    turns: List[Dict[str, Any]] = []
    owed: List[str] = []  # calls that have no answer yet
    for number, message in enumerate(_messages.messages(trajectory)):
        turn: Dict[str, Any] = {"role": message.role, "content": message.text}
        if message.role == "tool":
            turn["tool_call_id"] = owed.pop(0)
        elif message.calls:
            owed = [f"call_{number}_{i}" for i in range(len(message.calls))]
            turn["tool_calls"] = [_tool_call(*call) for call in zip(owed, message.calls)]
        turns.append(turn)
    return turns


def _tool_call(number: str, call: _messages.Call) -> Dict[str, Any]:
    """In OpenAI's form, whose arguments are a text."""
    arguments = json.dumps(call["arguments"], ensure_ascii=False)
    function = {"name": call["name"], "arguments": arguments}
    return {"id": number, "type": "function", "function": function}


def _content(message: Any) -> str:
    content = message["content"] if isinstance(message, Mapping) else message.content
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if part.get("type") == "text")
    return str(content)


def _takes(function: Any, given: Mapping[str, Any]) -> Dict[str, Any]:
    """Of what there is, the arguments that a function names."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind == p.VAR_KEYWORD for p in parameters):
        return dict(given)
    return {p.name: given[p.name] for p in parameters if p.name in given}


_OF_GROUPS = {"states", "prompts", "completions", "answers", "tasks", "infos"}


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    """The name, numbered where several functions have it: all of them count."""
    numbered = (name if i == 1 else f"{name}_{i}" for i in itertools.count(1))
    return next(one for one in numbered if one not in taken)


def _functions(rubric: Any) -> List[Tuple[Any, Any, float]]:
    """(rubric, function, weight) of a rubric and those in it. Those of weight 0 only
    measure; of these the ones that compare a whole group are left out."""
    if hasattr(rubric, "rubrics"):
        return [one for inner in rubric.rubrics for one in _functions(inner)]
    functions = getattr(rubric, "funcs", None) or getattr(rubric, "reward_funcs", [])
    weights = getattr(rubric, "weights", None) or getattr(rubric, "reward_weights", [])
    found: List[Tuple[Any, Any, float]] = []
    for function, weight in zip(functions, weights):
        if not _OF_GROUPS & set(inspect.signature(function).parameters):
            found.append((rubric, function, float(weight)))
        elif weight:
            raise TypeError(
                f"the reward {name_of(function)} compares a whole group, which has no "
                "place here: write it as an advantage (searchr1.register_adv_est)"
            )
    return found


def _score_all(score: Callable[[Trajectory], Any]) -> Callable[[List[Trajectory]], List[Any]]:
    """A reward of the score of one trajectory; what it raises is of that one alone."""

    def reward(trajectories: List[Trajectory]) -> List[Any]:
        scores: List[Any] = []
        for trajectory in trajectories:
            try:
                scores.append(float(score(trajectory)))
            except Exception as error:
                scores.append(error)
        return scores

    return reward


class Verifiers(_Episodes):
    """An environment of the library verifiers: its rows, its rubric, its turns, its tools.

    ported = Verifiers(vf.load_environment("gsm8k"))
    Trainer(config, train=ported.rows(), rewards=ported.rewards())  # one message, a score
    Trainer(..., env=ported)                # it answers: protocol with the tag of an action
    Trainer(..., tools=ported.tools)        # a ToolEnv

    environment: an Environment (verifiers before 0.2), or a Taskset (since), whose tasks
    and rewards are taken. message: what the policy said, around the {action} of a tag."""

    kept = 1 << 16  # states of trajectories that no reward has read: some are dropped

    def __init__(self, environment: Any, message: str = "{action}") -> None:
        super().__init__()
        if not (hasattr(environment, "get_dataset") or hasattr(environment, "__iter__")):
            raise TypeError(
                "an Environment or a Taskset of verifiers is wanted "
                f"(vf.load_environment), not {type(environment).__name__}"
            )
        self._environment, self._message = environment, message
        # By episode its state, and how many rewards have yet to read it.
        self._played: Dict[int, Tuple[Any, int]] = {}
        self._rewards = 0
        self._tasks: List[Any] = []
        self.tools: List[Any] = list(getattr(environment, "tools", None) or [])

    # ---- rows ----

    def rows(self, n: int = -1) -> List[Dict[str, Any]]:
        """Its rows, the first n of them; all of a finite set without n."""
        if not hasattr(self._environment, "get_dataset"):
            return [self._task_row(i) for i in range(self._load_tasks(n))]
        rows = []
        for i, row in enumerate(self._environment.get_dataset(n)):
            row = {"id": str(row.get("example_id", i)), **row}
            row.pop("question", None)  # it is in the prompt
            if row.get("answer"):
                row["golden_answers"] = [row["answer"]]
            rows.append(row)
        return rows

    def _load_tasks(self, n: int) -> int:
        tasks = iter(self._environment)
        self._tasks = list(tasks if n < 0 else itertools.islice(tasks, n))
        return len(self._tasks)

    def _task_row(self, i: int) -> Dict[str, Any]:
        data = self._tasks[i].data
        prompt = data.prompt
        if not isinstance(prompt, str):
            prompt = [message.model_dump(exclude_none=True) for message in prompt or []]
        elif data.system_prompt:
            prompt = [
                {"role": "system", "content": data.system_prompt},
                {"role": "user", "content": prompt},
            ]
        return {"id": str(data.id or data.idx), "prompt": prompt, "task": i}

    # ---- rewards ----

    def rewards(self) -> Dict[str, Any]:
        """{name: (function, weight)} for a trainer. What fails leaves a trajectory out."""
        if not hasattr(self._environment, "rubric"):
            return {"verifiers": (_score_all(self._score_task), 1.0)}
        found: Dict[str, Any] = {}
        for rubric, function, weight in _functions(self._environment.rubric):
            score = functools.partial(self._score_state, rubric, function)
            found[_free_name(name_of(function), found)] = (_score_all(score), weight)
        self._rewards = len(found)
        return found

    def _score_state(self, rubric: Any, function: Any, trajectory: Trajectory) -> Any:
        episode = trajectory.episode
        if episode in self._played:
            state, left = self._played[episode]
            self._played[episode] = (state, left - 1)
            if left == 1:
                del self._played[episode]
        else:
            state = self._new_state(trajectory.row)
        turns = _tool_turns if self.tools else _turns
        state["completion"] = _as_installed(turns(trajectory))
        given = {
            "prompt": state.get("prompt"),
            "completion": state["completion"],
            "answer": state.get("answer", ""),
            "state": state,
            "info": state.get("info", {}),
            "task": state.get("task"),
            "parser": getattr(rubric, "parser", None),
            **getattr(rubric, "class_objects", {}),
        }
        return _async.result(function(**_takes(function, given)))

    def _score_task(self, trajectory: Trajectory) -> Any:
        """By a trace of the conversation, as its own runs make it."""
        import verifiers.v1 as vf

        at = int(trajectory.row["task"])
        if at >= len(self._tasks):
            self._load_tasks(at + 1)
        task, nodes = self._tasks[at], []
        prompt = trajectory.row["prompt"]
        asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        for text in [*asked, *_turns(trajectory)]:
            node = {"message": text, "sampled": text["role"] == "assistant"}
            nodes.append(
                vf.MessageNode(parent=len(nodes) - 1 if nodes else None, **node)
            )
        trace = vf.Trace.model_construct(
            task=vf.TraceTask.model_construct(data=task.data), nodes=nodes, ok=True
        )
        _async.result(task.score(trace))
        return trace.reward

    # ---- turns ----

    def _new_state(self, row: Mapping[str, Any]) -> Any:
        task = getattr(self._environment, "env_id", None) or "default"
        given: Dict[str, Any] = {"task": task, **row}
        if isinstance(given.get("info"), str):  # rows that differ have it as JSON
            given["info"] = json.loads(given["info"])
        state = _state_type()(input=dict(given))
        state.update(given, answer=row.get("answer", ""), prompt=_as_installed(row["prompt"]))
        state.update(trajectory=[], turn=0, completion=[], error=None, tool_defs=[])
        state.update(is_completed=False, is_truncated=False, final_env_response=None)
        made = _async.result(self._environment.setup_state(state))
        return state if made is None else made

    def open(self, episode: Episode) -> Any:
        state = self._new_state(episode.row)
        if self._rewards:
            self._played[episode.number] = (state, self._rewards)
        if len(self._played) > self.kept:
            del self._played[next(iter(self._played))]
        return state, list(state["prompt"])

    def act(self, state: Any, text: str) -> Reply:
        state, messages = state
        content = self._message.replace("{action}", text)
        said = _as_installed([{"role": "assistant", "content": content}])
        step = {"prompt": list(messages), "completion": said, "response": None}
        state["trajectory"].append({**step, "tokens": None, "reward": None, "extras": {}})
        messages.extend(said)
        if _async.result(self._environment.is_completed(state)):
            return Reply("", done=True)
        answer = _async.result(self._environment.env_response(messages, state))
        messages.extend(answer)
        done = state.get("final_env_response") is not None
        return Reply("\n".join(map(_content, answer)), done=done)
