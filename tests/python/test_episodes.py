"""States of environments, thinking levels and the world of rooms from Python."""

import json

import pytest

import searchr1
from searchr1 import Environment, Reply, errors, thinking, world

import tiny


class Counter:
    """Counts the actions of each trajectory; the third is its goal."""

    def __init__(self):
        self.count, self.begun = {}, []

    def begin(self, episode):
        if episode.query_id == "bad":
            raise LookupError("no such world")
        self.begun.append(episode)
        self.count[episode.number] = 0

    def finish(self, number):
        del self.count[number]

    def __call__(self, actions):
        return [self.one(action) for action in actions]

    def one(self, action):
        self.count[action.episode] += 1
        n = self.count[action.episode]
        if action.text == "oops":
            return Reply("what?", executed=False)
        return Reply(f"so {n}", reward=n, success=n == 3, done=n == 3) if n > 1 else "so 1"


def test_states_are_apart():
    counter = Counter()
    env = Environment(counter, document_format="plain")
    a, b = env.begin("x", "Why?", 7), env.begin()
    assert a != b and counter.begun[0].query == "Why?" and counter.begun[0].seed == 7
    assert counter.begun[0].query_id == "x" and counter.begun[0].row == {}
    assert env.step(a, "x").text == "<information> so 1 </information>"
    assert env.step(b, "oops").executed is False
    assert env.step(a, "x") == Reply("<information> so 2 </information>", reward=2.0)
    last = env.step(a, "x")
    assert last.reward == 3.0 and last.success and last.done and last.executed
    with pytest.raises(LookupError, match="no such world"):
        env.begin("bad")
    env.finish(a)
    env.finish(b)
    assert counter.count == {}
    env.close()


def test_an_outage_is_no_answer(model_folder):
    def act(actions):
        return [TimeoutError("late") if a.row == 0 else "It is in Paris." for a in actions]

    with searchr1.Rollout(tiny.config(model_folder)) as rollout:
        rollout.set_env(Environment(act, document_format="plain"))
        late, answered = rollout.generate(["Where is it?"], group_size=2, seed=5)
    assert (late.stop_reason, answered.stop_reason) == ("search_failed", "answer")
    assert "Paris" in answered.generated_text


def test_steps_are_read():
    step = thinking.parse("<level>2</level><think> Check </think><action> look </action>")
    assert step == thinking.Step(
        2, "Check", "look", "<level>2</level><think> Check </think><action>", ()
    )
    assert thinking.parse("<level>2<action>go").fallbacks == ("level_open", "action_open")
    assert thinking.parse("hm").fallbacks == ("level_unknown", "no_action")
    assert [thinking.level(n)[0] for n in thinking.LEVELS] == [
        "instinctive", "situational", "experienced", "strategic",
    ]
    with pytest.raises(errors.InvalidError):
        thinking.level(5)


def test_a_room_is_solved_by_its_plan():
    task = world.rooms("test", 12)
    env = Environment("rooms", protocol="rlvcr")
    episode = env.begin(task.id, task.question)
    replies = [env.step(episode, action) for action in task.plan]
    assert [r.reward for r in replies] == [0.0] * (len(task.plan) - 1) + [1.0]
    assert replies[-1].success and replies[-1].done
    env.finish(episode)
    assert "Your task: put " in task.question
    with pytest.raises(errors.InvalidError, match="names no world"):
        env.begin("q-1")
    with pytest.raises(errors.NotFoundError):
        world.rooms("dev", 1)


def test_rooms_are_written(tmp_path):
    told = []
    world.write_rooms(tmp_path, seed=2, train_questions=4, validation_questions=3,
                      test_questions=2, demonstrations=5,
                      progress=lambda *a: told.append(a))
    data = searchr1.Dataset(tmp_path / "train.jsonl")
    assert [row.id for row in data] == [f"rooms-train-{2000000 + i}" for i in range(4)]
    assert data[0].question == world.rooms("train", 2000000).question
    assert {phase for phase, _, _ in told} >= {"train", "demonstrations"}


@pytest.mark.parametrize("write", [world.write, world.write_rooms, world.write_programs])
def test_a_folder_with_files_is_replaced_with_force_alone(tmp_path, write):
    kept = tmp_path / "train.jsonl"
    kept.write_text("mine\n")
    with pytest.raises(errors.InvalidError, match=f"{tmp_path} is not empty.*force=True"):
        write(tmp_path)
    assert kept.read_text() == "mine\n" and list(tmp_path.iterdir()) == [kept]
    few = ({"scale": 0.05} if write is world.write else
           {"demonstrations": 2, **{f"{split}_{rows}": 2
            for rows in ["questions" if write is world.write_rooms else "problems"]
            for split in ("train", "validation", "test")}})
    write(tmp_path, seed=2, force=True, **few)
    assert kept.read_text() != "mine\n"


def test_programs_are_written(tmp_path):
    told = []
    world.write_programs(tmp_path, seed=2, train_problems=4, validation_problems=3,
                         test_problems=2, copies=5, demonstrations=6, careless=7,
                         correct=1.0, progress=lambda *a: told.append(a))
    data = searchr1.Dataset(tmp_path / "train.jsonl")
    assert [row.id for row in data] == [f"programs-train-{i}" for i in range(4)]
    for name, rows in (("test", 2), ("sft", 17), ("careless", 7)):
        lines = (tmp_path / f"{name}.jsonl").read_text().splitlines()
        assert len(lines) == rows
    with open(tmp_path / "validation.jsonl") as lines:
        for row in map(json.loads, lines):
            assert row["solution"] == row["reference"]
            names = {}
            exec(row["solution"].strip("`").removeprefix("python"), names)
            for test in row["tests"]:
                exec(test, names)
    assert {phase for phase, _, _ in told} >= {"train", "careless"}
