"""Training: each operation alone, whole runs, resuming, Ctrl-C, exceptions."""

import gc
import json
import logging
import math
import os
import signal
import threading

import pytest

import searchr1.log
from searchr1 import (
    Config,
    Dataset,
    Model,
    Query,
    Rollout,
    Trainer,
    advantage,
    alarms,
    errors,
    reward,
)

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
        tokens = sum(t.policy_count for t in group)
        assert report.trained == 8
        assert report.metrics["training/policy_tokens"] == tokens


def test_update_wants_advantages(settings):
    with Trainer(settings, search=tiny.engine) as trainer:
        group = trainer.rollout.generate(["Where?"], group_size=2)
        with pytest.raises(errors.StateError, match="advantage"):
            trainer.update(group)


def test_plan_and_steps_saved(settings):
    with Trainer(settings, search=tiny.engine) as trainer:
        plan = trainer.plan
        assert (plan.device, plan.dtype, plan.steps) == ("cpu", "fp32", 3)
        assert plan.parameters == trainer.rollout.model.parameters
        # weights, and the two means of AdamW
        assert plan.checkpoint_bytes == 3 * plan.model_bytes == 12 * plan.parameters
        assert plan.disk_free == -1 or plan.disk_free > 0
        assert trainer.steps_saved == -1 and not os.path.exists(trainer.run_folder)
        trainer.run()
        assert trainer.steps_saved == 3


def test_check_before_anything_is_opened(settings):
    settings["model_name_or_path"] = "/nowhere"
    settings["search_engine"] = "mock"
    Trainer.check(settings)
    os.makedirs(settings["out"])
    with open(os.path.join(settings["out"], "metrics.jsonl"), "w") as file:
        file.write("{}\n")
    with pytest.raises(errors.ConfigError, match="metrics.jsonl, which no run there wrote"):
        Trainer.check(settings)


def test_resume_by_other_keys(settings):
    settings["max_steps"] = 2
    with Trainer(settings, search=tiny.engine) as trainer:
        trainer.run()
        folder = trainer.run_folder
    with pytest.raises(errors.ConfigError, match="'seed' cannot change"):
        Trainer.resume(folder, tiny.engine, seed=4)
    with Trainer.resume(folder, tiny.engine, max_steps=3, tensorboard=False) as trainer:
        assert (trainer.steps_done, trainer.steps_planned) == (2, 3)
        assert trainer.config["max_steps"] == 3
        with pytest.raises(errors.ConfigError, match=f"process {os.getpid()} on"):
            Trainer.resume(folder, tiny.engine)
        trainer.run()
    with open(os.path.join(folder, "config-changes.jsonl")) as lines:
        (change,) = map(json.loads, lines)
    assert (change["step"], change["key"], change["to"]) == (2, "max_steps", "3")
    with open(os.path.join(folder, "run.json")) as record:
        starts = json.load(record)["starts"]
    assert [(s["from_step"], s["to_step"], s["outcome"]) for s in starts] == [
        (0, 2, "done"),
        (2, 3, "done"),
    ]


def test_the_best_checkpoint(settings):
    settings.update(validation_split=0.3, validate_interval=1, lr_schedule="linear",
                    metric_for_best_model="learning_rate", early_stopping_patience=1,
                    load_best_model_at_end=True, max_steps=5)
    with Trainer(settings, search=tiny.engine) as trainer:
        assert (trainer.plan.best_step, trainer.plan.stopped_by) == (0, "")
        summary = trainer.run()
        plan, folder = trainer.plan, trainer.run_folder
    assert (summary.steps, plan.best_step) == (2, 1) and plan.best_value > 0
    assert plan.stopped_by == "early_stopping_patience"
    assert plan.stopped_why.endswith(" 1 reached early_stopping_patience")
    assert any(plan.stopped_why in note for note in summary.notes)
    assert os.readlink(os.path.join(folder, "best")) == "checkpoints/step-1"
    for path in (folder, os.path.join(folder, "best")):
        config = Config()
        config.load_run(path)
        assert config["model_name_or_path"] == os.path.join(path, "model")
    with Trainer.resume(folder, tiny.engine, early_stopping_patience=0) as trainer:
        assert trainer.steps_planned == 5


def test_several_files(settings, tmp_path):
    parts = [tiny.questions(tmp_path / f"{name}.jsonl", n) for name, n in zip("ab", (3, 5))]
    settings["train_file"] = parts
    assert settings["train_file"] == [str(part) for part in parts]
    with Trainer(settings, tiny.engine) as trainer:
        assert trainer.plan.rows == 8
    settings["train_file"] = [*parts, tmp_path / "none.jsonl"]
    with pytest.raises(errors.FileError, match="none.jsonl"):
        Trainer(settings, tiny.engine)


def test_a_checkpoint_is_a_policy(settings):
    with Trainer(settings, search=tiny.engine) as trainer:
        trainer.run()
        folder = trainer.run_folder
    config = Config()
    config.load_run(os.path.join(folder, "checkpoints", "step-2"))
    assert config["model_name_or_path"].endswith("step-2/model")
    config["search_engine"] = "mock"
    config.load_run(folder)
    assert config["model_name_or_path"] == os.path.join(folder, "model")
    with pytest.raises(errors.NotFoundError):
        config.load_run(os.path.join(folder, "checkpoints"))


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
        assert report.metrics["critic/score/mean"] == report.avg_reward
        assert report.metrics["training/trajectories"] == 6.0
        assert [part.name for part in group[0].reward_parts] == ["brief"]
        wanted = advantage.group([t.reward for t in group])
        assert [t.advantage for t in group] == pytest.approx(wanted)
        assert report.metrics["sampling/sampling_logp_difference/max"] < 1e-4
        mean = report.metrics["rewards/brief/mean"]  # before its weight
        assert 0.1 * mean == pytest.approx(report.avg_reward)
        assert trainer.steps_done == 1
        assert (
            len(trainer.train_step([Query("Where?", ["Paris"])])[1]) == 4
        )  # as configured
        assert len(trainer.train_step([Query("Where?", ["Paris"])], group_size=0)[1]) == 4


class Scorer:
    def __call__(self, trajectories):
        return [float(t.policy_count) for t in trajectories]


def test_rewards_without_names(settings):
    def parts(rewards):
        with Trainer(settings, tiny.engine, rewards) as trainer:
            _, (t, *_) = trainer.train_step([Query("Where?", ["Paris"])])
            return {part.name: part.weight for part in t.reward_parts}

    assert parts(brief) == parts([brief]) == {"brief": 1.0}
    assert parts([brief, "answer"]) == {"answer": 1.0, "brief": 1.0}
    assert parts("answer, format") == {"answer": 1.0, "format": 1.0}  # as the key has them
    assert parts("answer") == {"answer": 1.0} and parts(Scorer()) == {"Scorer": 1.0}
    assert parts(lambda ts: [1.0] * len(ts)) == {"reward": 1.0}
    with pytest.raises(ValueError, match="two rewards have the name 'brief'"):
        parts([brief, brief])
    with pytest.raises(TypeError, match="a reward is a function .* not 7"):
        parts([brief, 7])
    with pytest.warns(UserWarning, match="every reward has the weight 0"):
        parts({"brief": (brief, 0), "answer": 0})


@pytest.mark.parametrize(
    "gives, text",
    [
        (None, "reward 'mine' gave None; it must give a list"),
        ([1.0, [], 1.0, 1.0], r"gave \[\], .* trajectory 1 \(row 'q7', sample 1\)"),
        ([1.0, 1.0, "good", 1.0], r"'mine' gave 'good', .* sample 2\)"),
        (0.5, "gave 0.5; it must give a list"),
    ],
)
def test_a_reward_that_is_no_number_is_named(settings, gives, text):
    with Trainer(settings, tiny.engine, {"mine": lambda ts: gives}) as trainer:
        with pytest.raises(TypeError, match=text):
            trainer.train_step([Query("Where?", ["Paris"], id="q7")])


def test_a_reward_need_not_apply(settings):
    """None is no part of the total, as in TRL (nansum); an exception leaves one out."""
    def mine(trajectories):
        return [None, 3.0, TimeoutError("late"), 1.0]

    def other(trajectories):
        return [1.0, 1.0, 1.0, None]

    with Trainer(settings, tiny.engine, {"mine": (mine, 0.5), "other": other}) as trainer:
        report, group = trainer.train_step([Query("Where?", ["Paris"])])
        assert [t.reward for t in group] == [1.0, 2.5, 0.0, 0.5]
        assert [t.stop_reason == "unscored" for t in group] == [False, False, True, False]
        assert report.metrics["rewards/mine/mean"] == 2.0  # as TRL's nanmean
        assert report.metrics["rewards/other/mean"] == 1.0
        assert report.metrics["training/excluded_trajectories"] == 1
        (absent,) = [p for p in group[0].reward_parts if p.name == "mine"]
        assert math.isnan(absent.value) and absent.weight == 0
    with Trainer(settings, tiny.engine, {"mine": lambda ts: [float("nan")] * 4}) as trainer:
        with pytest.raises(errors.NumericError, match="'mine'.*not finite.*None"):
            trainer.train_step([Query("Where?", ["Paris"])])


def test_a_run_has_a_summary(settings):
    with Trainer(settings, tiny.engine, "answer") as trainer:
        summary = trainer.run()
        assert summary.run_folder == trainer.run_folder
    assert (summary.steps, summary.report.step, summary.verdict) == (3, 3, "")
    assert summary.validation is None
    with Trainer.resume(summary.run_folder, tiny.engine) as trainer:
        again = trainer.run()
        assert (again.steps, again.report) == (3, None)
    settings["out"] += "-flat"
    with Trainer(settings, tiny.engine, lambda ts: [1.0] * len(ts)) as trainer:
        flat = trainer.run()
    assert "nothing was learned in 3 steps" in flat.verdict and flat.verdict in flat.notes


def test_given_rewards_are_the_whole_set(settings):
    query = [Query("Where?", ["Paris"])]

    def parts(trainer):
        _, group = trainer.train_step(query)
        return {part.name: part.weight for part in group[0].reward_parts}

    whole = {"brief": (brief, 0.1), "answer": 2.0}
    with Trainer(settings, tiny.engine, whole) as trainer:
        assert parts(trainer) == {"answer": 2.0, "brief": 0.1}
        trainer.add_reward("more", brief)
        assert parts(trainer) == {"answer": 2.0, "brief": 0.1, "more": 1.0}
    with Trainer(settings, tiny.engine) as trainer:
        trainer.add_reward("brief", brief)
        assert list(parts(trainer)) == ["format", "answer", "brief"]
    assert settings["rewards"] == ["format", "answer"]  # the caller's is left alone
    settings["rewards"] = "none"
    with Trainer(settings, tiny.engine) as trainer:
        with pytest.raises(errors.ConfigError, match="no reward was given"):
            trainer.run()
        assert not os.path.exists(trainer.run_folder)
        trainer.add_reward("brief", brief)
        assert parts(trainer) == {"brief": 1.0}


def test_configured_rewards_are_not_lost_silently(settings):
    settings["rewards"] = "exact_match,f1"
    with pytest.warns(UserWarning, match="exact_match of the configuration is left out"):
        Trainer(settings, tiny.engine, {"brief": brief, "f1": 0.5})


def test_resume_keeps_the_builtin_rewards(settings):
    rewards = {"brief": brief, "answer": 0.5}
    with Trainer(settings, tiny.engine, rewards) as trainer:
        trainer.run()
        folder = trainer.run_folder
    with pytest.raises(ValueError, match="'answer': 0.5"):
        Trainer.resume(folder, tiny.engine, {"brief": brief, "answer": 1.0})
    for given in (rewards, {"brief": brief}):
        with Trainer.resume(folder, tiny.engine, given) as trainer:
            assert trainer.steps_done == 3


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


@pytest.mark.parametrize("where", ["step", "note", "reward"])
def test_exceptions_end_a_run(settings, where):
    rewards = {"mine": fails if where == "reward" else brief}
    trainer = Trainer(settings, tiny.engine, rewards)
    with trainer, pytest.raises(Mine):
        trainer.run(**({where: fails} if where in ("step", "note") else {}))


def test_a_reward_that_raises_ends_a_step(settings):
    with Trainer(settings, tiny.engine, {"mine": fails}) as trainer:
        with pytest.raises(Mine):
            trainer.train_step([Query("Where?", ["Paris"])])


@pytest.mark.parametrize("failure", ["exclude", "continue"])
def test_an_engine_that_raises_fails_its_searches_alone(settings, failure):
    calls = []

    def engine(queries, top_k):
        calls.append(queries)
        return fails() if len(calls) % 2 else tiny.engine(queries, top_k)

    settings.update(search_failure=failure, max_rows=1)  # a row at a time
    rows = []
    with Trainer(settings, engine, {"brief": brief}) as trainer:
        trainer.run(step=lambda report, planned: rows.append(report))
    assert len(rows) == 3
    for report in rows:
        failed = report.metrics["env/number_of_failed_searches"]
        searches = report.metrics["env/number_of_searches"]
        excluded = report.metrics["training/excluded_trajectories"]
        assert 2 * failed == searches == report.trajectories
        assert excluded == (0 if failure == "continue" else failed)


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


def test_a_run_of_an_engine_in_python_is_not_used_without_it(settings):
    del settings["mock_knowledge"], settings["search_engine"]
    with Trainer(settings, tiny.engine, {"brief": brief}) as trainer:
        trainer.run()
    config = Config()
    config.load_run(settings["out"])
    data = Dataset(settings["train_file"][0])
    with Rollout(config) as rollout:
        with pytest.raises(errors.ConfigError, match="program gave it the search engine "):
            rollout.evaluate(data)
        with pytest.raises(errors.ConfigError, match="program gave it the search engine "):
            rollout.generate([Query("Where?", ["Paris"])])
    with Rollout(config, search=tiny.engine) as rollout:
        assert rollout.evaluate(data).total.rows == 8


def test_a_run_that_cannot_learn_says_so(settings):
    settings["rewards"] = "answer"
    settings["reward_weights"] = "0"
    notes = []
    with Trainer(settings, search=tiny.engine) as trainer:
        trainer.run(note=notes.append)
    assert any(n.startswith("warning: nothing was learned") for n in notes)
    (alarm,) = [n for n in notes if "all advantages are 0" in n]
    assert alarms()["zero_advantage"] in alarm


def test_alarms_that_nobody_takes_are_logged(settings, caplog):
    settings["rewards"] = "answer"
    settings["reward_weights"] = "0"
    searchr1.log.send_to(logging.getLogger("mine"))
    try:
        with Trainer(settings, search=tiny.engine) as trainer:
            trainer.run()
    finally:
        searchr1.log.send_to(searchr1.log.logger)
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert any(alarms()["zero_advantage"] in line for line in told)
    assert any(line.startswith("nothing was learned") for line in told)


def test_a_folder_without_a_run_is_told(tmp_path):
    for rewards in (None, {"answer": 1.0}):
        with pytest.raises(errors.NotFoundError, match="holds no run"):
            Trainer.resume(tmp_path, rewards=rewards)


def test_an_adapter_is_trained_saved_and_merged(settings, model_folder, tmp_path):
    base = Model(model_folder)
    settings["lora_rank"] = 2
    with Trainer(settings, search=tiny.engine) as trainer:
        plan = trainer.plan
        assert 0 < plan.trained < plan.parameters == base.parameters
        trainer.run()
    with Model(tmp_path / "run" / "model") as model:
        assert model.lora_rank == 2 and model.trained == plan.trained
        model.save_merged(tmp_path / "merged")
        with Model(tmp_path / "merged", dtype="stored") as merged:
            assert merged.lora_rank == 0 and merged.trained == merged.parameters
            gap = max(abs(a - b) for a, b in zip(model.logits([3, 5])[1], merged.logits([3, 5])[1]))
            assert gap < 1e-4
    assert base.lora_rank == 0
    base.close()
