"""Training: each operation alone, whole runs, resuming, Ctrl-C, exceptions."""

import gc
import json
import os
import signal
import threading

import pytest

from searchr1 import Model, Query, Trainer, advantage, errors, reward

import tiny

SEED_NAMES = ["loss", "kl_div", "avg_reward", "beta", "avg_tokens", "search_trajectories"]


def brief(trajectories):
    return [-float(t.policy_count) for t in trajectories]


@pytest.fixture()
def settings(model_folder, tmp_path):
    return tiny.config(
        model_folder,
        train_file=tiny.questions(tmp_path / "train.jsonl"),
        out=tmp_path / "run",
        max_steps=3,
        save_interval=1,
    )


def test_seed_operations_one_by_one(settings):
    """generate -> check -> total reward -> advantages -> recompute -> K3 -> update."""
    with Trainer(settings, search=tiny.engine) as trainer:
        group = trainer.rollout.generate(
            [Query("Where?", ["Paris"])], group_size=8, seed=2
        )
        for t in group:
            form = reward.check_format(t.generated_text)
            answer = reward.check_answer(t.final_answer, t.ground_truths)
            t.reward = reward.total(t.generated_text, t.ground_truths)
            assert t.reward == form + answer
        for t, value in zip(group, advantage.group([t.reward for t in group])):
            t.advantage = value
        before = trainer.rollout.log_probs(group)
        assert advantage.kl_k3(group[0].policy_log_probs, before[0]) < 1e-6
        report = trainer.update(group)
        after = trainer.rollout.log_probs(group)
        moved = [(b - a).sum() * t.advantage for t, a, b in zip(group, before, after)]
        assert sum(moved) > 0  # what was better than the group is likelier now
        assert report.trained == 8 and report.policy_tokens == sum(
            t.policy_count for t in group
        )


def test_update_wants_advantages(settings):
    with Trainer(settings, search=tiny.engine) as trainer:
        group = trainer.rollout.generate(["Where?"], group_size=2)
        with pytest.raises(errors.StateError, match="advantage"):
            trainer.update(group)


def test_train_step(settings):
    with Trainer(
        settings, search=tiny.engine, rewards={"brief": (brief, 0.1)}
    ) as trainer:
        report, group = trainer.train_step([Query("Where?", ["Paris"])], group_size=6)
        assert all(isinstance(getattr(report, name), float) for name in SEED_NAMES)
        assert len(group) == report.trajectories == 6 and report.step == 1
        assert report.avg_reward == pytest.approx(sum(t.reward for t in group) / 6)
        assert report.search_trajectories == 1.0 and report.beta == settings["beta"]
        assert report.avg_tokens == pytest.approx(sum(t.policy_count for t in group) / 6)
        names = [part.name for part in group[0].reward_parts]
        assert names == ["format", "answer", "brief"]
        wanted = advantage.group([t.reward for t in group])
        assert [t.advantage for t in group] == pytest.approx(wanted)
        assert report.rollout_diff_max < 1e-4 and trainer.steps_done == 1
        assert (
            len(trainer.train_step([Query("Where?", ["Paris"])])[1]) == 4
        )  # as configured
        assert len(trainer.train_step([Query("Where?", ["Paris"])], group_size=0)[1]) == 4


def test_run_and_resume_give_the_same_bits(model_folder, tmp_path):
    questions = tiny.questions(tmp_path / "train.jsonl")
    weights = []
    for name, stop_after in (("whole", None), ("cut", 2)):
        keys = dict(
            train_file=questions, out=tmp_path / name, max_steps=4, save_interval=1
        )
        seen, notes = [], []

        def on_step(report, planned):
            seen.append((report.step, planned))
            if report.step == stop_after:
                trainer.stop()

        trainer = Trainer(
            tiny.config(model_folder, **keys), tiny.engine, {"brief": brief}
        )
        with trainer:
            assert (trainer.steps_done, trainer.steps_planned) == (0, 4)
            if stop_after:
                with pytest.raises(errors.CancelledError):
                    trainer.run(step=on_step)
            else:
                trainer.run(step=on_step, note=notes.append)
                assert any("checkpoint" in line for line in notes)
        if stop_after:
            with Trainer.resume(
                tmp_path / name, tiny.engine, {"brief": brief}
            ) as trainer:
                assert trainer.steps_done == stop_after
                assert os.path.samefile(trainer.run_folder, tmp_path / name)
                trainer.run(step=on_step)
        assert seen == [(i, 4) for i in (1, 2, 3, 4)]
        lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == [1, 2, 3, 4]
        weights.append((tmp_path / name / "model" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


def test_validation(settings, tmp_path):
    settings.update(
        validation_file=tiny.questions(tmp_path / "v.jsonl", 4), validate_interval=2
    )
    seen, phases = [], []
    with Trainer(settings, tiny.engine) as trainer:
        trainer.run(
            validation=lambda *v: seen.append(v), phase=lambda *p: phases.append(p)
        )
    ((step, evaluation),) = seen
    assert step == 2 and evaluation.total.rows == 4
    assert ("validation", 4, 4) in phases
    assert any(p[0] == "rollout" and 0 < p[1] <= p[2] for p in phases)


class Mine(Exception):
    """An exception the package knows nothing of."""


def fails(*arguments):
    raise Mine("no")


@pytest.mark.parametrize("where", ["step", "note", "search", "reward"])
def test_exceptions_end_a_run(settings, where):
    rewards = {"mine": fails if where == "reward" else brief}
    trainer = Trainer(settings, fails if where == "search" else tiny.engine, rewards)
    with trainer, pytest.raises(Mine):
        trainer.run(**({where: fails} if where in ("step", "note") else {}))


@pytest.mark.parametrize("where", ["search", "reward"])
def test_exceptions_end_a_step(settings, where):
    rewards = {"mine": fails} if where == "reward" else None
    with Trainer(
        settings, fails if where == "search" else tiny.engine, rewards
    ) as trainer:
        with pytest.raises(Mine):
            trainer.train_step([Query("Where?", ["Paris"])])


def test_ctrl_c_leaves_a_checkpoint(settings):
    handler = signal.getsignal(signal.SIGINT)
    with Trainer(settings, tiny.engine) as trainer:
        with pytest.raises(KeyboardInterrupt):
            trainer.run(step=lambda report, planned: os.kill(os.getpid(), signal.SIGINT))
        assert trainer.steps_done == 1
        assert signal.getsignal(signal.SIGINT) is handler
        with Trainer.resume(trainer.run_folder, tiny.engine) as again:
            assert again.steps_done == 1


def test_run_in_another_thread(settings):
    with Trainer(settings, tiny.engine) as trainer:
        thread = threading.Thread(target=trainer.run)
        thread.start()
        thread.join()
        assert trainer.steps_done == 3
        with pytest.raises(errors.StateError):
            trainer.run()
        with pytest.raises(errors.StateError):
            trainer.add_reward("late", brief)


def test_save_model(settings, tmp_path):
    with Trainer(settings, tiny.engine) as trainer:
        trainer.save_model(tmp_path / "out")
        rollout = trainer.rollout
        assert (
            Model(tmp_path / "out", device="cpu").parameters == rollout.model.parameters
        )


def test_engine_is_kept_by_the_trainer(settings):
    trainer = Trainer(
        settings, lambda queries, k: ["The tower stands in Paris."] * len(queries)
    )
    gc.collect()
    with trainer:
        _, group = trainer.train_step([Query("Where?", ["Paris"])])
    assert group[0].searches[0].hits == 1  # trajectories outlive the trainer
