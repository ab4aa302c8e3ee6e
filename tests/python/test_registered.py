"""Estimators, losses and metric sinks in Python."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import tiny
from searchr1 import (
    _callbacks,
    Query,
    Trainer,
    advantage,
    errors,
    loss,
    register_adv_est,
    register_policy_loss,
)

TIMES = ("timing_s/", "perf/")


def by_group(groups, values, function):
    made = [0.0] * len(values)
    for key in set(groups):
        members = [i for i, k in enumerate(groups) if k == key]
        for i, v in zip(members, function([values[i] for i in members])):
            made[i] = v
    return made


@pytest.fixture(scope="module", autouse=True)
def registered():
    """Not when this file is read: other tests go through the tables."""

    @register_adv_est("py_grpo", options=["eps", "divide_by_std"])
    def py_grpo(batch, options):
        """grpo once more"""
        return by_group(
            list(batch.groups),
            list(batch.rewards),
            lambda rewards: advantage.group(rewards, options["eps"]),
        )

    @register_policy_loss(
        "py_grpo", options=["clip_low", "clip_high"], zero_without_advantage=True
    )
    def py_loss(batch, options):
        """grpo's once more, by the library's own without its KL"""
        held = loss.compute(
            "grpo",
            batch.new_log_probs,
            batch.old_log_probs,
            batch.advantages,
            weights=[1.0] * batch.n,
            beta=0.0,
            clip_low=options["clip_low"],
            clip_high=options["clip_high"],
        )
        values = [
            loss.compute(
                "grpo",
                batch.new_log_probs[i : i + 1],
                batch.old_log_probs[i : i + 1],
                batch.advantages[i : i + 1],
                beta=0.0,
                clip_low=options["clip_low"],
                clip_high=options["clip_high"],
            ).policy_loss
            for i in range(batch.n)
        ]
        return values, held.gradient


def test_an_estimator_is_given_all_that_there_is():
    seen = []

    @register_adv_est("py_all", needs=["confidences", "components"], options=["eps"])
    def py_all(batch, options):
        """all arrays, and no formula"""
        seen.append(batch)
        return [0.0] * batch.n

    nan = float("nan")
    given = {
        "token_counts": [2, 1], "turn_counts": [1, 1], "token_turns": [0, 0, 0],
        "step_tokens": [1, 0, 1], "bootstrap": [0.5, -0.5],
        "confidences": [[-1.0, -2.0, -3.0, None], [-4.0, -5.0, -6.0, -7.0]],
        "thinking_costs": [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]],
        "components": [[1.0, nan], [2.0, 3.0]], "component_absent": [[0, 1], [0, 0]],
    }  # fmt: skip
    advantage.estimate("py_all", [1.0, 2.0], [7, 7], **given)
    (batch,) = seen
    assert list(batch.step_tokens) == [1, 0, 1] and list(batch.bootstrap) == [0.5, -0.5]
    assert list(batch.thinking_costs) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    told = [str(value) for value in batch.confidences]
    assert told == ["-1.0", "-2.0", "-3.0", "nan", "-4.0", "-5.0", "-6.0", "-7.0"]
    assert list(batch.component_absent) == [0, 1, 0, 0]
    del given["component_absent"], given["components"]
    given.update(components=[[1.0], [2.0]])
    advantage.estimate("py_all", [1.0, 2.0], [7, 7], **given)
    assert seen[1].component_absent is None


def rows(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [
        {k: v for k, v in json.loads(line).items() if not k.startswith(TIMES)}
        for line in lines
    ]


@pytest.fixture
def settings(model_folder, tmp_path):
    return tiny.config(
        model_folder,
        train_file=tiny.questions(tmp_path / "train.jsonl"),
        out=tmp_path / "run",
        max_steps=3,
    )


def brief(trajectories):
    return [-0.1 * t.policy_count for t in trajectories]


def test_a_copy_of_grpo_trains_as_grpo(settings, tmp_path):
    found = []
    for name in ("grpo", "py_grpo"):
        settings.update(advantage=name, loss=name, out=tmp_path / name, update_times=1)
        with Trainer(settings, tiny.engine, {"brief": brief}) as trainer:
            trainer.run()
        found.append(rows(tmp_path / name))
    for a, b in zip(*found):
        assert a.keys() == b.keys()
        for key in a:
            assert b[key] == pytest.approx(a[key], rel=1e-5, abs=1e-6), key
    with Trainer.resume(tmp_path / "py_grpo", tiny.engine, {"brief": brief}) as trainer:
        assert trainer.steps_done == trainer.steps_planned


def test_names():
    with pytest.raises(errors.InvalidError, match="'grpo' is taken"):
        register_adv_est("grpo")(lambda batch, options: batch.rewards)
    with pytest.raises(errors.InvalidError, match="'ppo' is taken"):
        register_policy_loss("ppo")(lambda batch, options: None)
    with pytest.raises(errors.InvalidError, match="'py_grpo' is taken"):

        @register_adv_est("py_grpo")
        def another(batch, options):
            return batch.rewards

    with pytest.raises(ValueError, match="needs: patience; known: tokens, turns"):
        register_adv_est("patient", needs=["patience"])(lambda batch, options: None)
    with pytest.raises(errors.ConfigError, match="register_adv_est"):
        Trainer.check({"advantage": "not_yet"})
    assert "py_grpo" in advantage.names() and "py_grpo" in loss.names()


@pytest.mark.parametrize(
    "register, word",
    [(register_adv_est, "estimator"), (register_policy_loss, "loss")],
)
def test_wrong_uses_are_named(register, word):
    def centred(batch, options):
        return batch.rewards

    with pytest.raises(TypeError, match=rf'@{register.__name__}\("centred"\)'):
        register(centred)
    for options in (["alpha"], "alpha", ["beta", "alpha"]):
        with pytest.raises(ValueError, match=f"{word} 'mine': .* no .*alpha.*; known: "):
            register("mine", options=options)(centred)
    with pytest.raises(
        TypeError,
        match=rf"{word} 'mine' is called as of_trl\(batch, options\), and it is "
        r"of_trl\(completions\): too many",
    ):

        @register("mine")
        def of_trl(completions):
            return completions

    with pytest.raises(TypeError, match=f"{word} 'mine' is no function: 3"):
        register("mine")(3)
    assert "mine" not in advantage.names() + loss.names()


def test_wrong_results_are_named():
    for name, gives, text in (
        ("none", None, "estimator 'none', advantages: 2 numbers are needed, not None"),
        ("one", [1.0], "estimator 'one', advantages: 2 values are needed, not 1"),
        ("two", ([1.0], [1.0]), "estimator 'two' has to return advantages, and gave 2"),
    ):
        register_adv_est(name)(lambda batch, options, gives=gives: gives)
        with pytest.raises((TypeError, ValueError), match=text):
            advantage.estimate(name, [1.0, 2.0], [0, 0])
    register_policy_loss("bare")(lambda batch, options: 0.5)
    with pytest.raises(ValueError, match="loss 'bare' has to return .values, slopes. or"):
        loss.compute("bare", [0.0], [0.0], [1.0], [0.0])


def test_a_function_defined_again_takes_its_place():
    for factor in (1.0, 2.0):

        @register_adv_est("again")
        def again(batch, options, factor=factor):
            return [factor * r for r in batch.rewards]

        made = advantage.estimate("again", [1.0, 2.0], [0, 0])
        assert list(made.advantages) == [factor, 2 * factor]


def changed(batch, options):
    return batch.advantages, batch.advantages


@pytest.mark.parametrize(
    "register, first, then",
    [
        (register_policy_loss, {}, {"aggregation": "seq-mean-token-sum"}),
        (register_policy_loss, {}, {"options": ["clip_low"]}),
        (register_policy_loss, {"clip_low": 0.1}, {"clip_low": 0.3}),
        (register_adv_est, {}, {"needs": ["values"]}),
        (register_adv_est, {"eps": 0.1}, {"eps": 0.3}),
    ],
)
def test_other_settings_are_not_passed_over(register, first, then):
    """The library keeps those it was given first."""
    name = f"{register.__name__}_{'_'.join(then)}"
    register(name, **first)(changed)
    register(name, **first)(changed)
    with pytest.raises(errors.InvalidError, match="is taken"):
        register(name, **then)(changed)


def test_a_text_is_one_name():
    register_adv_est("one_text", gives="tokens", needs="values", options="eps")(changed)
    register_policy_loss("one_text", options="clip_low")(changed)
    (made,) = (one for one in advantage.table() if one.name == "one_text")
    assert (made.gives, made.options) == (("tokens",), ("eps",))
    (described,) = (one for one in loss.describe() if one["name"] == "one_text")
    assert described["options"] == "clip_low"


def test_groups_are_skipped_where_an_estimator_says_that_they_may(settings, tmp_path):
    for gives in ((), "group_relative"):
        register_adv_est(f"centred_{len(gives)}", gives=gives)(
            lambda batch, options: batch.rewards - batch.rewards.mean()
        )
    table = {one.name: one.gives for one in advantage.table()}
    assert table["grpo"] == table["centred_14"] == ("group_relative",)
    settings.update(skip_zero_variance_groups=True, advantage="centred_0")
    with pytest.raises(errors.ConfigError, match="skip_zero_variance_groups does not go"):
        Trainer(settings, tiny.engine, {"brief": brief})
    settings.update(advantage="centred_14", out=tmp_path / "skipped", max_steps=1)
    with Trainer(settings, tiny.engine, {"same": lambda ts: [1.0] * len(ts)}) as trainer:
        trainer.run()
    (row,) = rows(tmp_path / "skipped")
    assert row["training/zero_variance_groups"] > 0


def test_tokens_and_returns():
    @register_adv_est(
        "by_token", gives=["tokens", "returns"], gamma=0.5, options=["gamma"]
    )
    def by_token(batch, options):
        assert batch.turn_begin is None and options["gamma"] == 0.5
        tokens = [float(i) for i in range(int(batch.token_begin[-1]))]
        return tokens, [2 * t for t in tokens]

    made = advantage.estimate("by_token", [1.0, 2.0], [0, 0], token_counts=[2, 1])
    assert list(made.token_advantages) == [0, 1, 2] and list(made.returns) == [0, 2, 4]
    assert list(made.advantages) == [0.5, 2.0]
    assert advantage.table()[-1].needs == ("token_begin",)


class Mine(Exception):
    pass


def test_what_they_raise_comes_out(settings):
    @register_adv_est("raising")
    def raising(batch, options):
        raise Mine

    @register_policy_loss("short")
    def short(batch, options):
        return [0.0], [0.0]

    with pytest.raises(Mine):
        advantage.estimate("raising", [1.0, 2.0], [0, 0])
    with pytest.raises(ValueError, match="loss 'short', values: 2 values are needed, not 1"):
        loss.compute("short", [0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0])
    query = Query("Where?", ["Paris"])
    for more, kind in (({"advantage": "raising"}, Mine), ({"loss": "short"}, ValueError)):
        with Trainer({**settings, **more}, tiny.engine, {"brief": brief}) as trainer:
            with pytest.raises(kind):
                trainer.train_step([query])


def test_an_error_without_a_text_comes_out_too():
    """Its own __str__ raises: the call has failed all the same."""

    class Mute(Exception):
        def __str__(self):
            raise ZeroDivisionError

    @register_policy_loss("mute")
    def mute(batch, options):
        raise Mute

    with pytest.raises(Mute):
        loss.compute("mute", [0.0], [0.0], [1.0], [1.0])
    assert "Mute: its text cannot be formed" in _callbacks.describe(Mute())
    with _callbacks.call(rollout=True):  # rows are told to the library alone
        assert _callbacks.run_rows(mute, None, None) != 0


def test_what_they_raise_goes_to_the_call_that_ran_them(settings, tmp_path):
    """Whatever other calls are under way: here another thread's, begun and ended while
    the text of the exception is asked for."""

    class Slow(Exception):
        def __str__(self):
            if not others:
                others.append(pool.submit(run, "calm"))
                others[0].exception(60)
            return "of the angry one"

    @register_policy_loss("calm")
    def calm(batch, options):
        return [0.0] * batch.n, [0.0] * batch.n

    @register_policy_loss("angry")
    def angry(batch, options):
        raise Slow

    def compute(name):
        return loss.compute(name, [0.0], [0.0], [1.0], [1.0]).policy_loss

    def train(name):
        given = {**settings, "loss": name, "out": tmp_path / name}
        with Trainer(given, tiny.engine, {"brief": brief}) as trainer:
            trainer.train_step([Query("Where?", ["Paris"])])
            return trainer.steps_done

    for run, want in ((compute, 0.0), (train, 1)):
        others = []
        with ThreadPoolExecutor(1) as pool:
            with pytest.raises(Slow):
                run("angry")
            assert others[0].result(60) == want


# ---- metric sinks ----


def test_a_function_and_a_logger(settings):
    heard = []

    class Tracking:
        def log(self, data, step):
            heard.append((step, data))

    with Trainer(settings, tiny.engine, {"brief": brief}) as trainer:
        trainer.set_metric_sink(lambda metrics, step: heard.append((step, metrics)))
        report, _ = trainer.train_step([Query("Where?", ["Paris"])])
        trainer.set_metric_sink(Tracking())
        trainer.train_step([Query("Where?", ["Paris"])])
        trainer.set_metric_sink(None)
        trainer.train_step([Query("Where?", ["Paris"])])
    assert [step for step, _ in heard] == [1, 2]
    assert heard[0][1] == dict(report.metrics)
    assert "rewards/brief/mean" in heard[1][1] and "health/alarms" in heard[1][1]


def test_a_sink_that_raises_ends_a_run(settings):
    def sink(metrics, step):
        if step == 2:
            raise Mine

    with Trainer(settings, tiny.engine, {"brief": brief}) as trainer:
        trainer.set_metric_sink(sink)
        with pytest.raises(Mine):
            trainer.run()
        assert trainer.steps_done == 2
