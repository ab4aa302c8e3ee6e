"""Environments of other libraries as environments of this one.

    lake = Gymnasium("FrozenLake-v1", names=["left", "down", "right", "up"])
    with Trainer(config, train=lake.rows(64), env=lake, rewards="environment") as trainer:
        trainer.run()

Neither gymnasium nor verifiers is imported before it is needed, and an object with the same
methods will do in its place.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from .env import Action, Episode, Reply

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
    import gymnasium

    return lambda: gymnasium.make(name, **options)
