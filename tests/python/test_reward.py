"""Rewards of texts against Python's own, and sets with Python rewards."""

import asyncio
import difflib
import json
import math
import random
import warnings

import numpy as np
import pytest

import searchr1
import tiny
from searchr1 import RewardSet, Scales, errors, reward
from searchr1.adapters import of_trl

GOOD = (
    "<think>so</think><search>x</search><information>y</information>"
    "<answer> Paris </answer>"
)


def test_seed_rewards():
    assert reward.check_format(GOOD) == 0.5 and reward.check_format("Paris") == -1.0
    assert reward.check_answer("Paris", "Paris") == 2.0
    assert reward.check_answer("paris!", ["Rome", "Paris"]) == 1.0
    assert (
        reward.check_answer("\u672a\u627e\u5230\u76f8\u5173\u5185\u5bb9", "Paris") == 0.5
    )
    assert reward.check_answer("", "Paris") == 0.0
    assert reward.total(GOOD, "Paris") == 2.5 and reward.total("x", "Paris") == -1.0
    assert reward.find_answer(GOOD) == ("Paris", True)
    assert reward.find_answer("\u672a<answer>\u672a") == ("\u672a", False)


def test_scales():
    scales = Scales(
        format_reward=3.0,
        exact_match_bonus=7.0,
        no_content_text="none",
        no_content_reward=0.25,
    )
    assert reward.total(GOOD, "Paris", scales) == 10.0
    assert reward.check_answer("none", "Paris", scales) == 0.25
    left_open = "<think>x<answer>Paris</answer>"
    assert reward.check_format(left_open) == 0.5
    assert reward.check_format(left_open, Scales(closed_thoughts=True)) == -1.0


def test_similarity_is_difflibs():
    rng = random.Random(4)
    for _ in range(200):
        a, b = (
            "".join(rng.choices("ab \u672a\U0001f600", k=rng.randrange(40))) for _ in "ab"
        )
        wanted = difflib.SequenceMatcher(None, a, b).ratio()
        assert reward.similarity_ratio(a, b) == pytest.approx(wanted, abs=1e-12)
    with pytest.raises(errors.LimitError):
        reward.similarity_ratio("a" * 3000, "b")


def test_search_r1_rewards_and_metrics():
    assert reward.normalize("The  U.S. an Apple!") == "us apple"
    assert reward.exact_match("the Paris.", ["Rome", "paris"]) == 1.0
    assert reward.sub_match("in Paris, France", "Paris") == 1.0
    assert reward.f1("in Paris", "Paris") == pytest.approx(2 / 3)
    assert reward.bleu("a b c d", "a b c d") == pytest.approx(1.0)
    assert reward.rouge_n("a b x", "a b c", 1) == pytest.approx(2 / 3)
    assert reward.rouge_n("a b x", "a b c", 2) == pytest.approx(1 / 2)
    assert reward.rouge_l("a x b", "a b") == pytest.approx(4 / 5)
    with pytest.raises(errors.InvalidError):
        reward.check_answer("x", [])


def test_scores_of_solutions():
    assert reward.gsm8k("6 * 3 = 18\n#### 1,080", ["17", "1080"]) == 1.0
    assert reward.gsm8k("It is 18", "18") == 0.0
    assert reward.math_reward("So \\boxed{\\dfrac12}.", "1/2") == 1.0
    assert reward.math_reward("So \\boxed{0.25}.", "1/4") == 0.0
    assert reward.math_dapo("Answer: $x = 18$", "18") == 1.0
    assert reward.math_dapo("It is 18", "18") == -1.0


def test_a_whole_message_is_a_solution(model_folder):
    config = tiny.config(
        model_folder,
        protocol="chat",
        environment="none",
        search_engine="none",
        rewards="gsm8k,math_reward,math_dapo",
    )
    with searchr1.Rollout(config) as rollout:
        said = rollout.generate([searchr1.Query("How many?", ["18"])], group_size=4, seed=3)
    for t, scores in zip(said, RewardSet.open(config).score(said)[0]):
        assert t.final_answer
        assert list(scores) == [
            score(t.final_answer, "18")
            for score in (reward.gsm8k, reward.math_reward, reward.math_dapo)
        ]


def test_rewards_of_data_sources(trajectories):
    both = ["format", "exact_match"]
    rewards = RewardSet(both, data_source_rewards={"tow*": both, "*": "format"})
    parts, totals = rewards.score(trajectories)
    plain, _ = RewardSet(both).score(trajectories)
    for t, (form, match), total, wanted in zip(trajectories, parts, totals, plain):
        assert form == wanted[0]
        if t.data_source == "towers":
            assert match == wanted[1] and total == form + match
        else:
            assert math.isnan(match) and total == form
    with pytest.raises(errors.ConfigError, match="no entry for the data source ''"):
        RewardSet("format", data_source_rewards={"towers": "format"}).score(trajectories)


def test_set(trajectories):
    rewards = RewardSet(["format", "answer", "exact_match"], [1.0, 0.5, 0.0])
    rewards.add("brief", lambda ts: [-t.policy_count for t in ts], weight=0.01)
    assert rewards.names == ["format", "answer", "exact_match", "brief"]
    parts, totals = rewards.score(trajectories)
    assert parts.shape == (8, 4) and totals.shape == (8,)
    assert totals == pytest.approx(parts @ [1.0, 0.5, 0.0, 0.01])
    for t, (form, answer, match, brief) in zip(trajectories, parts):
        assert form == reward.check_format(t.generated_text)
        assert answer == reward.check_answer(t.final_answer, t.ground_truths)
        assert match == reward.exact_match(t.final_answer, t.ground_truths)
        assert brief == -t.policy_count


def test_apply(trajectories):
    rewards = RewardSet([])
    rewards.add("one", lambda ts: np.arange(len(ts)), weight=2.0)
    rewards.apply(trajectories)
    assert [t.reward for t in trajectories] == [2.0 * i for i in range(8)]
    part = trajectories[3].reward_parts[0]
    assert (part.name, part.value, part.weight) == ("one", 3.0, 2.0)
    assert json.loads(trajectories[3].to_json())["reward"] == 6.0


def test_failing_rewards(trajectories):
    class Mine(Exception):
        pass

    def fails(ts):
        raise Mine("no")

    rewards = RewardSet([])
    rewards.add("fails", fails)
    trajectories[0].reward = -7.0
    with pytest.raises(Mine, match="no") as caught:
        rewards.apply(trajectories)
    assert "fails" in str(caught.value.__context__) and trajectories[0].reward == -7.0
    with pytest.raises(errors.InvalidError, match="fails"):
        rewards.add("fails", fails)
    short = RewardSet([])
    short.add("short", lambda ts: [1.0])
    with pytest.raises(ValueError, match="1 rewards"):
        short.score(trajectories)
    with pytest.raises(errors.NotFoundError):
        RewardSet(["no such"])
    with pytest.raises(errors.NumericError, match="nan"):
        bad = RewardSet([])
        bad.add("nan", lambda ts: [float("nan")] * len(ts))
        bad.score(trajectories)


def test_weights_of_numpy():
    rewards = RewardSet(["format", "answer"], np.array([0.5, 2], np.float32))
    assert rewards.names == ["format", "answer"]


def test_one_name():
    assert RewardSet("exact_match").names == ["exact_match"]


def test_a_function_that_cannot_be_called_is_refused():
    rewards = RewardSet("format")

    def of_two(questions, answers, **kwargs):
        return [0.0] * len(answers)

    with pytest.raises(
        TypeError,
        match=r"reward 'mine' is called as of_two\(trajectories\), and it is "
        r"of_two\(questions, answers, \*\*kwargs\): missing a required argument",
    ):
        rewards.add("mine", of_two)
    with pytest.raises(TypeError, match="reward 'mine' is no function: 0.5"):
        rewards.add("mine", 0.5)
    with pytest.raises(TypeError, match="reward 'mine', turns is called as of_two"):
        rewards.add("mine", len, turns=of_two)
    with pytest.raises(TypeError, match="reward 'mine': the weight is a number, not 'a'"):
        rewards.add("mine", len, weight="a")
    assert rewards.names == ["format"]


def test_a_function_of_trl_is_refused_with_the_remedy():
    """That of TRL's own example could be called: with trajectories for completions."""

    def reward_len(completions, **kwargs):
        return [-abs(20 - len(completion)) for completion in completions]

    def reward_both(prompts, completions, **kwargs):
        return [0.0] * len(completions)

    rewards = RewardSet("format")
    for function in (reward_len, reward_both):
        with pytest.raises(TypeError, match=rf"wrap it: .*of_trl\({function.__name__}\)"):
            rewards.add("mine", function)
    rewards.add("mine", of_trl(reward_len))
    assert rewards.names == ["format", "mine"]


def test_a_reward_may_be_async(trajectories):
    async def mine(ts):
        await asyncio.sleep(0)
        return [0.25] * len(ts)

    rewards = RewardSet([])
    rewards.add("mine", mine)
    _, totals = rewards.score(trajectories[:2])
    assert list(totals) == [0.25, 0.25]


@pytest.mark.parametrize(
    "given", [{0: 1.0, 1: 1.0}, "11", b"11", {0.5, 1.0}, (x for x in (1.0, 1.0))]
)
def test_what_is_no_list_of_rewards_is_refused(trajectories, given):
    rewards = RewardSet([])
    rewards.add("mine", lambda ts: given)
    with pytest.raises(TypeError, match="'mine' gave .*; it must give a list of rewards"):
        rewards.score(trajectories[:2])


@pytest.mark.parametrize("given", [{0: 1.0, 1: 1.0}, "11", {0.5, 1.0}])
def test_what_is_no_list_of_a_function_of_trl_is_refused(trajectories, given):
    rewards = RewardSet([])
    rewards.add("mine", of_trl(lambda completions, **kwargs: given))
    with pytest.raises(TypeError, match="'mine' gave .*; it must give a list of rewards"):
        rewards.score(trajectories[:2])


@pytest.mark.parametrize("name", ["", "a,b", ",", "x" * 300])
def test_names_that_are_refused(name):
    with pytest.raises(errors.InvalidError, match="1 to 200 bytes without a comma"):
        RewardSet("format").add(name, lambda trajectories: [0.0] * len(trajectories))


def test_a_builtin_reward_is_not_shadowed_silently():
    def mine(trajectories):
        return [0.0] * len(trajectories)

    for name in ("answer", "embedding", "execution"):
        with pytest.warns(UserWarning, match=f"the reward '{name}' is now your function"):
            RewardSet("format").add(name, mine)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RewardSet("format").add("mine", mine)


def test_rewards_about_searching(trajectories):
    found = json.loads(trajectories[0].to_json())
    found["searches"] = [
        {"turn": 0, "query": "x", "status": 0, "hits": 2, "hit_ids": ["a", "b"]}
    ] * 2
    found["row"] = json.dumps({"docs": ["a", "z"], "gold_ids": ["y"]})
    bare = dict(found, searches=[], row="{}")
    both = [searchr1.Trajectory.from_json(json.dumps(t)) for t in (found, bare)]
    names = ["retrieval_recall", "search_cost"]
    for rewards, price in (
        (RewardSet(names, gold_ids_field="docs", scales=Scales(search_price=0.5)), 0.5),
        (
            RewardSet.open({"rewards": ",".join(names), "gold_ids_field": "docs"}),
            0.1,
        ),
        (
            RewardSet.open(
                {"rewards": names, "gold_ids_field": "docs", "search_price": 2}
            ),
            2.0,
        ),
    ):
        parts, totals = rewards.score(both)
        assert list(parts[0]) == [0.5, -2 * price] and totals[0] == 0.5 - 2 * price
        assert math.isnan(parts[1][0]) and totals[1] == 0
    assert RewardSet(names).score(both)[0][0][0] == 0
