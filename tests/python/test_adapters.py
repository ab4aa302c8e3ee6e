"""Environments of other libraries: their interface in any case, themselves where they are
installed."""

import functools
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from searchr1 import Action, Dataset, Environment, Episode, Rollout, Trainer, adapters

import tiny
from conftest import SOURCE

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


def test_environments_are_closed_after_an_exception(chooser):
    made, closed = [], Towns.closed

    def make():
        if len(made) == 4:
            raise KeyError("no more towns")
        made.append(Towns())
        return made[-1]

    towns = adapters.Gymnasium(make, names=["Rome", "Paris", "tower"])
    with Rollout(tiny.config(chooser), env=towns) as rollout:
        with pytest.raises(KeyError, match="no more towns"):
            rollout.generate(["Where?"], group_size=8)
    assert Towns.closed - closed == 4 and not towns._states


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
    assert rewards[0] < 0.8 and sum(rewards[-3:]) > 2.7  # one of 16 may still explore


def run_port(name, folder, out):
    """A program of the guide, as it stands there: the rewards of its steps."""
    done = subprocess.run(
        [sys.executable, SOURCE / "examples/python" / name, folder, out],
        capture_output=True, text=True,
        env=dict(os.environ, PYTHONPATH=str(SOURCE / "bindings/python")),
    )
    assert done.returncode == 0, done.stderr
    return [float(line.split()[-1]) for line in done.stdout.splitlines()]


def test_the_port_of_a_lake_itself(tmp_path):
    pytest.importorskip("gymnasium")
    moves = [" right", " down"]
    rules = [("", "<move>"), *[("<move>", m) for m in moves], *[(m, "</move>") for m in moves]]
    words = ["<move>", "</move>", "<seen>", "</seen>", *moves]
    tiny.make(tmp_path / "model", rules, gain=24.0, words=words, max_position_embeddings=2048)
    mine = tmp_path / "lake-move.yaml"
    mine.write_text("mine")
    rewards = run_port("from_gymnasium.py", tmp_path / "model", f"{tmp_path / 'lake'}/")
    assert mine.read_text() == "mine"
    assert len(rewards) == 8 and max(rewards) > 0  # the goal was reached


# ---- verifiers ----

WHERE = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where?"}]


class Rubric:
    """What is used of a rubric."""

    def __init__(self, funcs, weights):
        self.funcs, self.weights, self.parser = funcs, weights, None
        self.class_objects = {"words": {"Paris"}}


class Guess:
    """An environment with the methods of verifiers before 0.2: two guesses at a town."""

    def __init__(self, rubric):
        self.rubric = rubric

    def get_dataset(self, n):
        rows = [{"prompt": WHERE, "question": "Where?", "answer": "Paris", "example_id": i}
                for i in range(6)]
        return rows[: n if n > 0 else 6]

    async def setup_state(self, state):
        state["right"] = False

    async def is_completed(self, state):
        said = state["trajectory"][-1]["completion"][-1]["content"]
        state["right"] = state["answer"] in said
        return state["right"] or len(state["trajectory"]) == 2

    async def env_response(self, messages, state):
        assert messages[0]["content"] == "Be brief."
        return [{"role": "user", "content": "No, guess again."}]


async def right(state, words):
    assert words == {"Paris"}
    return float(state["right"])


def named(completion, answer, **rest):
    return answer in completion[-1]["content"] + completion[0]["content"]


def plain(monkeypatch):
    """As if verifiers were not installed."""
    for name in ("verifiers", "verifiers.types", "verifiers.utils.message_utils"):
        monkeypatch.setitem(sys.modules, name, None)


def test_turns_and_rubrics_of_verifiers(chooser, tmp_path, monkeypatch):
    plain(monkeypatch)
    guess = adapters.Verifiers(
        Guess(Rubric([right, named, named], [1.0, 0.5, 0.0])), "<search>{action}</search>"
    )
    row = guess.rows(1)[0]
    assert (row["id"], row["golden_answers"], "question" in row) == ("0", ["Paris"], False)
    config = tiny.config(
        chooser, out=tmp_path / "run", max_steps=16, batch_size=2, group_size=8,
        max_turns=2, learning_rate=4e-3, update_times=1,
    )
    reports, seen = [], []
    with Trainer(config, train=guess.rows(), env=guess, rewards=guess.rewards()) as trainer:
        _, group = trainer.train_step([trainer_query(guess)])
        for t in group:
            seen.append("guess again" in t.generated_text)
            assert t.reward == (1.5 if "Paris" in t.generated_text else 0.0)
        trainer.run(step=lambda report, planned: reports.append(report.avg_reward))
    assert True in seen and reports[0] < 1.1 and min(reports[-3:]) > 1.3, reports

    def whole(completions, answers):
        return [0.0]

    with pytest.raises(TypeError, match="whole compares a whole group"):
        adapters.Verifiers(Guess(Rubric([whole], [1.0]))).rewards()


CHATTER = [
    ("", "<tool>"), ("<tool>", " Paris"), ("<tool>", " Rome"), (" Paris", "</tool>"),
    (" Rome", "</tool>"),
]


def test_what_answers_is_the_users_message_alone(tmp_path, monkeypatch):
    """Where answers are messages, the words of the chat template are none of theirs."""
    plain(monkeypatch)
    tiny.make(tmp_path / "model", CHATTER, words=["<tool>", "</tool>"])
    seen = []

    def users(completion, prompt):
        seen.append(completion)
        return 0.0

    guess = adapters.Verifiers(Guess(Rubric([users], [1.0])), "<tool>{action}</tool>")
    config = tiny.config(
        tmp_path / "model", out=tmp_path / "run", group_size=8, max_turns=2,
        protocol="mt-grpo", max_tokens=40,
    )
    with Trainer(config, train=guess.rows(), env=guess, rewards=guess.rewards()) as trainer:
        trainer.train_step([trainer_query(guess)])
    answered = [m for completion in seen for m in completion if m["role"] == "user"]
    assert len(seen) == 8 and {m["content"] for m in answered} == {"No, guess again."}
    said = {m["content"] for completion in seen for m in completion if m not in answered}
    assert "<tool> Rome</tool>" in said
    # What ended an episode had no words, and is no message.
    assert any(completion[-1]["content"] == "<tool> Paris</tool>" for completion in seen)


class Judge:
    """A reward that is an object, as those with clients are."""

    def __call__(self, answer):
        return 1.0


def test_functions_of_one_name_all_count(monkeypatch):
    plain(monkeypatch)

    def named(completion):
        return 0.0

    group = SimpleNamespace(rubrics=[
        Rubric([right, Judge(), functools.partial(named)], [1.0, 2.0, 3.0]),
        Rubric([right, Judge(), Judge()], [0.5, 0.25, 0.0]),  # 0: measured only
        Rubric([lambda completions: [0.0]], [0.0]),  # of a group, and no reward
    ])
    weights = {n: w for n, (_, w) in adapters.Verifiers(Guess(group)).rewards().items()}
    assert weights == {
        "right": 1.0, "Judge": 2.0, "partial": 3.0, "right_2": 0.5, "Judge_2": 0.25,
        "Judge_3": 0.0,
    }


def test_a_state_is_as_verifiers_makes_it(monkeypatch):
    """info as a value where a row has it as JSON text, and the name of the task."""
    plain(monkeypatch)
    guess, seen = adapters.Verifiers(Guess(Rubric([right], [1.0]))), []
    row = guess.rows(1)[0]
    for info in ('{"town": "Paris"}', {"town": "Paris"}):
        for named, task in (({}, "default"), ({"task": "towns"}, "towns")):
            episode = Episode(len(seen) + 1, "0", "Where?", 0, 0, {**row, "info": info, **named})
            state, _ = guess.open(episode)
            seen.append((state["info"]["town"], state["input"]["info"], state["task"] == task))
    assert seen == [("Paris", {"town": "Paris"}, True)] * 4


@pytest.mark.parametrize("advantage", ["grpo", "remax"])
def test_a_trajectory_has_its_own_state(chooser, tmp_path, monkeypatch, advantage):
    """Also beside the greedy one that it is compared with, and those of a copy."""
    plain(monkeypatch)
    guess = adapters.Verifiers(Guess(Rubric([right], [1.0])), "<search>{action}</search>")
    config = tiny.config(
        chooser, out=tmp_path / "run", group_size=8, max_turns=2, update_times=1,
        advantage=advantage,
    )
    with Trainer(config, train=guess.rows(), env=guess, rewards=guess.rewards()) as trainer:
        query = trainer_query(guess)
        _, group = trainer.train_step([query, query])
    assert [t.copy for t in group] == 8 * [0] + 8 * [1]
    assert len({t.episode for t in group}) == 16
    assert [t.reward for t in group] == ["Paris" in t.generated_text for t in group]
    assert True in [t.reward for t in group] and not guess._played


def test_states_of_dropped_trajectories_are_bounded(monkeypatch):
    plain(monkeypatch)
    guess = adapters.Verifiers(Guess(Rubric([right], [1.0])))
    guess.rewards()
    guess.kept = 3
    for number in range(1, 6):
        guess.begin(Episode(number, "id", "Where?", 0, seed=0, row=guess.rows(1)[0]))
        guess.finish(number)
    assert list(guess._played) == [3, 4, 5]


def test_what_is_no_environment_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ImportError, match="'FrozenLake-v1'.*pip install gymnasium"):
        adapters.Gymnasium("FrozenLake-v1")
    with pytest.raises(TypeError, match="vf.load_environment.*, not object"):
        adapters.Verifiers(object())


def trainer_query(guess):
    return Dataset.from_rows(guess.rows(1))[0]


def test_what_fails_is_no_score(chooser, tmp_path, monkeypatch):
    plain(monkeypatch)

    def broken(completion):
        raise ConnectionError("no judge")

    guess = adapters.Verifiers(Guess(Rubric([broken], [1.0])))
    config = tiny.config(chooser, out=tmp_path / "run", environment="none")
    with Trainer(config, train=guess.rows(), rewards=guess.rewards()) as trainer:
        _, group = trainer.train_step([trainer_query(guess)])
        assert {t.stop_reason for t in group} == {"unscored"}


def test_verifiers_itself(chooser, tmp_path):
    """The program of the guide, as it stands there."""
    if hasattr(pytest.importorskip("verifiers"), "MultiTurnEnv"):
        pytest.skip("verifiers before 0.2 is installed")
    rewards = run_port("from_verifiers.py", chooser, tmp_path / "run")
    assert rewards[-1] > rewards[0] + 0.2


def test_verifiers_before_0_2(chooser, tmp_path):
    """Turns, state, stop conditions and rubric of a MultiTurnEnv as published."""
    vf = pytest.importorskip("verifiers")
    if not hasattr(vf, "MultiTurnEnv"):
        pytest.skip("verifiers since 0.2 is installed")
    from datasets import Dataset as Rows

    class TwoGuesses(vf.MultiTurnEnv):
        async def setup_state(self, state):
            state["right"] = False

        async def env_response(self, messages, state, **kwargs):
            said = messages[-1].content if hasattr(messages[-1], "content") else ""
            state["right"] = state["answer"] in said
            reply = [{"role": "user", "content": "Yes." if state["right"] else "No."}]
            if state["right"]:
                state["final_env_response"] = reply
            return reply

    def right(state):
        return float(state["right"])

    rows = Rows.from_list([{"question": f"Where is it? {i}", "answer": "Paris"} for i in range(6)])
    env = TwoGuesses(
        dataset=rows, system_prompt="Be brief.", max_turns=3, rubric=vf.Rubric([right], [2.0])
    )
    guess = adapters.Verifiers(env, "<search>{action}</search>")
    assert [m["role"] for m in guess.rows(1)[0]["prompt"]] == ["system", "user"]
    config = tiny.config(
        chooser, out=tmp_path / "run", max_steps=16, batch_size=2, group_size=8,
        max_turns=2, learning_rate=4e-3, update_times=1,
    )
    rewards = []
    with Trainer(config, train=guess.rows(), env=guess, rewards=guess.rewards()) as trainer:
        trainer.run(step=lambda report, planned: rewards.append(report.avg_reward))
    assert rewards[0] < 1.5 and min(rewards[-3:]) > 1.7, rewards


def test_tools_of_verifiers_before_0_2(tmp_path):
    """A ToolEnv as published ones are: async tools, a rubric that reads the completion."""
    vf = pytest.importorskip("verifiers")
    if not hasattr(vf, "ToolEnv"):
        pytest.skip("verifiers since 0.2 is installed")
    from datasets import Dataset as Rows
    from verifiers.envs.tool_env import ToolMonitorRubric

    call = '{"name": "search_pages", "arguments": {"query": "tower"}}'
    rules = [
        ("", "<tool_call>"), ("", "<answer>"), ("<tool_call>", call), (call, "</tool_call>"),
        ("<answer>", " Paris"), ("<answer>", " Rome"), (" Paris", "</answer>"),
        (" Rome", "</answer>"),
    ]
    words = ["<tool_call>", "</tool_call>", call]
    tiny.make(tmp_path / "model", rules, words=words, max_position_embeddings=2048)

    async def search_pages(query: str) -> list[dict]:
        """Search for relevant articles.

        args:
            query (str): The query to search for.
        """
        return [{"page_id": "p1", "title": "The tower of " + query}]

    async def names_town(completion, answer, **kwargs):
        last = completion[-1]
        text = last["content"] if isinstance(last, dict) else last.content
        return float(answer in text)

    async def answers_calls(completion):
        calls = [call for m in completion for call in getattr(m, "tool_calls", None) or []]
        results = [m for m in completion if m.role == "tool"]
        assert [m.tool_call_id for m in results] == [c.id for c in calls[: len(results)]]
        assert all(call.name == "search_pages" for call in calls)
        assert all(json.loads(call.arguments) == {"query": "tower"} for call in calls)
        assert all("'title': 'The tower of tower'" in m.content for m in results)
        counted.append((await monitor.total_tool_calls(completion), len(calls)))
        return float(len(results))

    counted, monitor = [], ToolMonitorRubric(tool_names=["search_pages"])  # verifiers' own
    rows = Rows.from_list([{"question": f"Where is it? {i}", "answer": "Paris"} for i in range(6)])
    rubric = vf.Rubric([names_town, answers_calls], [1.0, 1e-9])
    ported = adapters.Verifiers(vf.ToolEnv(dataset=rows, tools=[search_pages], rubric=rubric))
    config = tiny.config(
        tmp_path / "model", out=tmp_path / "run", protocol="hermes", environment="tools",
        search_engine="none", max_parallel_calls=1, max_steps=2, group_size=8, max_tokens=60,
        max_prompt_tokens=2000, log_trajectories=-1,
    )
    seen = []
    rewards = {**ported.rewards(), "seen": (lambda ts: [seen.append(t) or 0.0 for t in ts], 0.0)}
    with Trainer(config, train=ported.rows(), tools=ported.tools, rewards=rewards) as trainer:
        trainer.run()
    assert any("'title': 'The tower of tower'" in t.generated_text for t in seen)
    assert {round(t.reward) for t in seen} == {0, 1}
    assert len(counted) == len(seen) and all(a == b for a, b in counted)
    assert max(counted) > (0, 0)
