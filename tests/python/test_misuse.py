"""Wrong objects raise; handles may be closed by their own callbacks; exit while a thread
trains ends the process in order."""

import copy
import os
import pickle
import subprocess
import sys

import pytest

from searchr1 import Config, Environment, Model, Reply, RewardSet, Rollout, Trainer, errors
from searchr1._lib import lib

import tiny

LEAVING = """
import sys, threading
from searchr1 import Trainer
import tiny

begun = threading.Event()
trainer = Trainer(tiny.config({model!r}, train_file={rows!r}, out={out!r},
                              max_steps=100000, num_epochs=100000), search=tiny.engine)
run = lambda: trainer.run(step=lambda report, planned: begun.set())
threading.Thread(target=run, daemon=True).start()
begun.wait()
sys.exit(0)
"""


@pytest.fixture()
def settings(model_folder, tmp_path):
    return tiny.config(
        model_folder,
        train_file=tiny.questions(tmp_path / "train.jsonl"),
        out=tmp_path / "run",
        max_steps=3,
    )


@pytest.mark.parametrize(
    "use",
    [
        lambda trainer: trainer.run(),
        lambda trainer: trainer.train_step(["Where?"]),
        lambda trainer: trainer.steps_done,
        lambda trainer: trainer.rollout.generate(["Where?"]),
    ],
)
def test_a_closed_trainer_is_not_used(settings, use):
    trainer = Trainer(settings, search=tiny.engine)
    trainer.close()
    trainer.close()
    with pytest.raises(ValueError, match="closed"):
        use(trainer)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_trainer_is_not_copied(settings, again):
    with Trainer(settings, search=tiny.engine) as trainer:
        with pytest.raises(TypeError, match="a Trainer cannot be copied or pickled"):
            again(trainer)
        with pytest.raises(TypeError, match="a Model cannot be copied or pickled"):
            again(trainer.rollout.model)


def test_closing_a_trainer_in_its_reward_ends_the_run(settings):
    def closing(trajectories):
        trainer.close()
        return [float(i) for i, _ in enumerate(trajectories)]

    trainer = Trainer(settings, search=tiny.engine, rewards={"closing": closing})
    with pytest.raises(errors.CancelledError, match="stopped after step 1"):
        trainer.run()


@pytest.mark.parametrize("wrong", ["text", 123, object(), 1.5])
def test_what_is_no_handle_is_refused(wrong):
    with pytest.raises(TypeError):
        lib.sr1_config_validate(wrong)


def test_a_handle_of_another_type_is_refused(settings, model_folder):
    """Not even read: the library would take its memory for what it expects."""
    rewards, model = RewardSet(["answer"]), Model(model_folder)
    for call, given in [
        (lambda: Rollout(settings, model=rewards), "RewardSet"),
        (lambda: Rollout(settings, tokenizer=model), "Model"),
        (lambda: lib.sr1_trajectory_query_id(settings), "Config"),
        (lambda: Config.copy(rewards), "RewardSet"),
    ]:
        with pytest.raises(TypeError, match=rf"wanted here, not a {given} \(sr1_"):
            call()
    with pytest.raises(TypeError, match="a Trajectory is wanted here, not <"):
        rewards.apply([model])


def test_exit_while_a_thread_trains(model_folder, tmp_path):
    code = LEAVING.format(
        model=str(model_folder),
        rows=str(tiny.questions(tmp_path / "train.jsonl")),
        out=str(tmp_path / "run"),
    )
    path = os.pathsep.join([os.path.dirname(tiny.__file__), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()


class Callable:
    def __call__(self, actions):
        return ["" for _ in actions]


class BeginsOnly(Callable):
    def begin(self, episode):
        del episode


@pytest.mark.parametrize(
    "answers, text",
    [
        ([None], "answer 0 is None; it must be a text"),
        ([{"text": "x"}], "answer 0 is {'text': 'x'}; it must be a text"),
        ([Reply(5)], "answer 0 is 5; it must be a text"),
        ([Reply("x", reward="1")], "answer 0: its reward is '1', no number"),
        ("x", "an environment gave 'x'; it must give a list of answers"),
        ({0: "x"}, "it must give a list of answers, .* not a dict"),
    ],
)
def test_what_is_no_answer_of_an_environment_is_told_so(answers, text):
    with Environment(lambda actions: answers) as environment:
        with pytest.raises(TypeError, match=text):
            environment.answer("x")


@pytest.mark.parametrize(
    "given, text",
    [
        ({"tools": len}, r"tools= is a list of functions or Tools, not .*; give \[tool\]"),
        ({"tools": "wiki_search"}, "tools= is a list"),
        ({"tools": ["wiki_search"]}, "a tool is a function, .* not 'wiki_search'"),
        ({"search": object()}, "a method search; object has none"),
    ],
)
def test_what_is_no_tool_or_engine_is_told_so(settings, given, text):
    with pytest.raises(TypeError, match=text):
        Trainer(settings, **given)


@pytest.mark.parametrize(
    "kind, text",
    [
        (object(), "object cannot be called"),
        (Callable, r"give Callable\(...\), not the class"),
        (BeginsOnly(), "BeginsOnly has begin or finish"),
    ],
)
def test_what_is_no_environment_is_told_so(kind, text):
    with pytest.raises(TypeError, match=text):
        Environment(kind)
    with Environment(Callable()):
        pass
