"""Environments of other libraries: their interface in any case, themselves where they are
installed."""

import pytest

from searchr1 import Action, Environment, Episode, Trainer, adapters

import tiny

# Searches for one of two towns, reads, and ends.
CHOOSER = [
    ("", "<search>"),
    ("<search>", " Paris"),
    ("<search>", " Rome"),
    (" Paris", "</search>"),
    (" Rome", "</search>"),
]


class Discrete:
    def __init__(self, n, start=0):
        self.n, self.start = n, start


class Towns:
    """An environment with Gymnasium's methods: go to the town that the seed names."""

    closed = 0

    def __init__(self):
        self.action_space = Discrete(3)
        self.seed = None

    def reset(self, seed=None, options=None):
        self.seed = seed
        return {"seed": seed}, {}

    def step(self, action):
        if self.seed == 13:
            raise ConnectionError("the map server is gone")
        right = action == 1
        return {"at": action}, float(right), True, False, {}

    def close(self):
        Towns.closed += 1


@pytest.fixture(scope="module")
def chooser(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chooser")
    tiny.make(folder, CHOOSER)
    return folder


def environment():
    return adapters.Gymnasium(Towns, text=str, names=["Rome", "Paris", "tower"])


def test_actions_become_steps():
    env = Environment(environment(), document_format="plain")
    row = environment().rows(1, seed=5, prompt="Begin: {observation}")[0]
    assert row == {"id": "seed-5", "question": "Begin: {'seed': 5}", "seed": 5}
    episode = env.begin(seed=5)
    wrong = env.step(episode, "London")
    assert not wrong.executed and "the actions are rome, paris, tower" in wrong.text
    right = env.step(episode, " paris ")
    assert (right.reward, right.success, right.done) == (1.0, True, True)
    assert "{'at': 1}" in right.text
    env.finish(episode)
    towns = environment()
    towns.begin(Episode(1, "id", "question", 0, seed=7, row={"seed": 13}))
    (lost,) = towns([Action("Rome", 0, 0, 1)])
    assert isinstance(lost, ConnectionError)  # an outage: the trajectory is left out
    towns.finish(1)


def test_spaces():
    read = adapters._by_space(Discrete(2, start=1), [])
    assert (read("1"), read("2")) == (1, 2)
    with pytest.raises(adapters.WrongAction):
        read("0")
    with pytest.raises(ValueError, match="1 names were given to 2 actions"):
        adapters._by_space(Discrete(2), ["up"])

    class Box:
        pass

    assert adapters._by_space(Box(), [])("[0.5, 1]") == [0.5, 1]
    with pytest.raises(adapters.WrongAction, match="JSON"):
        adapters._by_space(Box(), [])("left")


def learn(folder, out, env):
    config = tiny.config(
        folder, out=out, max_steps=12, batch_size=2, group_size=8, max_turns=1,
        learning_rate=2e-2, update_times=1, answers_optional=True,
    )
    rewards = []
    with Trainer(config, train=env.rows(4), env=env, rewards="environment") as trainer:
        trainer.run(step=lambda report, planned: rewards.append(report.avg_reward))
    return rewards


def test_a_policy_learns_in_one(chooser, tmp_path):
    """Which of two towns is right comes from the environment's rewards alone."""
    closed = Towns.closed
    rewards = learn(chooser, tmp_path / "run", environment())
    assert rewards[0] < 0.8 and min(rewards[-3:]) > 0.9
    assert Towns.closed - closed >= 12 * 16


def test_gymnasium_itself(chooser, tmp_path):
    gymnasium = pytest.importorskip("gymnasium")
    lake = adapters.Gymnasium(
        "FrozenLake-v1", names=["left", "down", "right", "up"], is_slippery=False
    )
    env = Environment(lake, document_format="plain")
    episode = env.begin(seed=0)
    for move in ("right", "right", "down", "down", "down", "right"):
        last = env.step(episode, move)
    assert last.success and last.done and last.reward == 1.0  # the goal of the 4x4 map
    assert "15" in last.text
    env.finish(episode)

    class Real(gymnasium.Env):
        action_space = gymnasium.spaces.Discrete(3)
        observation_space = gymnasium.spaces.Discrete(3)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            return int(action), float(action == 1), True, False, {}

    real = adapters.Gymnasium(Real, names=["Rome", "Paris", "tower"])
    rewards = learn(chooser, tmp_path / "run", real)
    assert rewards[0] < 0.8 and min(rewards[-3:]) > 0.9
