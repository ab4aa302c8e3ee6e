"""Estimators against the numpy formulas of tests/golden, on batches made live."""

import importlib.util

import numpy as np
import pytest

from searchr1 import advantage, errors

RNG = np.random.default_rng(11)


@pytest.fixture(scope="module")
def reference(source):
    path = source / "tests" / "golden" / "advantage_reference.py"
    spec = importlib.util.spec_from_file_location("advantage_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", advantage.names())
def test_estimators(reference, name):
    for kind in range(7):
        batch = reference.random_batch(RNG, kind)
        options = reference.random_options(RNG, name)
        wanted = reference.estimate(name, batch, options)
        got = advantage.estimate(name, **reference.flatten(batch), **options)
        for field, values in wanted.items():
            if values is None:
                assert getattr(got, field) is None
            else:
                assert getattr(got, field) == pytest.approx(values, rel=1e-6, abs=1e-9), (
                    batch,
                    options,
                )
        assert got.report["trajectories"] == len(batch)


def gapped(rng):
    """A row of the padded layout: mask over model and observation tokens, the turn of each
    token, and whether an observation was a result."""
    mask, turns, results = [], [], []
    for turn in range(int(rng.integers(1, 5))):
        for kind in (1, 0):
            n = int(rng.integers(1, 4))
            mask += [kind] * n
            turns += [turn] * n
        results.append(bool(rng.random() < 0.5))
    drop = mask[::-1].index(1)  # the last word is the model's
    return np.array(mask[: len(mask) - drop]), np.array(turns), results[:-1]


def test_gae_carries_over_observations():
    """Against the masked loop over padded rows: a masked token passes on what is behind
    it; whitening counts masked tokens only."""
    for _ in range(20):
        gamma, lam = RNG.uniform(0.5, 1, size=2)
        counts, values, rewards, wanted, returns = [], [], [], [], []
        for _ in range(int(RNG.integers(2, 6))):
            mask = gapped(RNG)[0]
            v, r = RNG.normal(size=(2, len(mask))).astype("f4").astype("f8")
            r *= mask
            a, ahead, after = np.zeros(len(mask)), 0.0, 0.0
            for t in reversed(range(len(mask))):
                if mask[t]:
                    a[t] = r[t] + gamma * after - v[t] + gamma * lam * ahead
                    ahead, after = a[t], v[t]
            live = mask == 1
            counts.append(int(live.sum()))
            values += v[live].tolist()
            rewards += r[live].tolist()
            wanted += a[live].tolist()
            returns += (a + v)[live].tolist()
        n = len(counts)
        arrays = dict(token_counts=counts, values=values, token_rewards=rewards)
        got = advantage.estimate(
            "gae", np.zeros(n), np.zeros(n, int), gamma=gamma, lam=lam, **arrays
        )
        white = (np.array(wanted) - np.mean(wanted)) / np.sqrt(
            np.var(wanted, ddof=1) + 1e-8
        )
        assert got.token_advantages == pytest.approx(white, rel=1e-5, abs=1e-6)
        assert got.returns == pytest.approx(returns, rel=1e-5, abs=1e-6)


def test_mt_grpo_by_the_edges_of_the_mask():
    """Against the published rule: the split is the edge of the mask where the first
    result begins."""
    for _ in range(30):
        rows = [gapped(RNG) for _ in range(int(RNG.integers(2, 6)))]
        turn, outcome = RNG.normal(size=(2, len(rows)))

        def normal(x):
            return (x - x.mean()) / (x.std(ddof=1) + 1e-4)

        wanted, firsts, per_turn = [], [], []
        for i, (mask, turns, results) in enumerate(rows):
            edges = [0, *(np.flatnonzero(np.diff(mask)) + 1), len(mask)]
            first = results.index(True) if True in results else -1
            split = edges[2 * first + 1]
            early = (np.arange(len(mask)) < split) * mask
            a = normal(outcome)[i] + 0.7 * normal(turn)[i] * early
            wanted += (a if first >= 0 else a * 0 + normal(turn + outcome)[i])[
                mask == 1
            ].tolist()
            firsts.append(first)
            share = RNG.dirichlet(np.ones(len(results) + 1))
            per_turn += (share * turn[i]).tolist()
        got = advantage.estimate(
            "mt_grpo",
            turn + outcome,
            [4] * len(rows),
            token_counts=[int(mask.sum()) for mask, _, _ in rows],
            token_turns=[k for mask, t, _ in rows for k in t[: len(mask)][mask == 1]],
            turn_counts=[len(results) + 1 for _, _, results in rows],
            turn_rewards=per_turn,
            result_turn=firsts,
            turn_advantage_coef=0.7,
        )
        assert got.token_advantages == pytest.approx(wanted, rel=1e-5, abs=1e-6)
        assert got.report["no_result"] == firsts.count(-1)


def test_table():
    rows = {row.name: row for row in advantage.table()}
    assert list(rows) == advantage.names()
    assert rows["gae"].needs == ("token_begin", "values")
    assert rows["gae"].gives == ("tokens", "returns")
    assert "thinking_diversity_w" in rows["rlvcr"].options
    for row in rows.values():
        assert set(row.options) <= set(advantage.defaults(row.name))
        assert row.formula and row.source
    assert advantage.defaults("mt_grpo")["eps"] == 1e-4


def test_what_is_missing_is_named():
    with pytest.raises(errors.InvalidError, match="gae: the batch lacks values"):
        advantage.estimate("gae", [1.0], [1], token_counts=[2])
    with pytest.raises(ValueError, match="2 numbers"):
        advantage.estimate("gae", [1.0], [1], token_counts=[2], values=[1.0])
    with pytest.raises(TypeError, match="gama"):
        advantage.estimate("grpo", [1.0], [1], gama=1)
    with pytest.raises(errors.NotFoundError, match="mt_grpo"):
        advantage.estimate("nothing", [1.0], [1])


def test_levels_and_words():
    made = advantage.estimate(
        "rlvcr",
        [1.0, 0.0],
        [5, 5],
        token_counts=[1, 2],
        turn_counts=[1, 1],
        turn_tags=[0, 3],
        confidences=[[-1.0, -2.0, -3.0, -2.0], [None, -1.0, -1.0, -1.0]],
        step_mode="mean_norm",
        thinking_diversity_w=0.0,
    )
    assert made.turn_advantages.tolist() == [1.0, 0.0]
    assert made.report["turns_unscored"] == 1 and made.report["turns_compared"] == 1
    a = np.sqrt(0.5) / (np.sqrt(0.5) + 1e-6) * np.sqrt(0.5)
    assert made.token_advantages == pytest.approx([a + 1.0, -a, -a], rel=1e-5)


def test_steps_on_tokens():
    def made(**given):
        return advantage.estimate(
            "rlvcr",
            [1.0],
            [5],
            token_counts=[3],
            turn_counts=[1],
            turn_tags=[0],
            confidences=[[-1.0, -2.0, -3.0, -2.0]],
            thinking_diversity_w=0.0,
            **given,
        ).token_advantages.tolist()

    assert made() == [1.0, 1.0, 1.0]
    assert made(step_tokens=[0, 1, 0]) == [0.0, 1.0, 0.0]
    with pytest.raises(ValueError, match="3 numbers"):
        made(step_tokens=[1])


def test_components():
    names = ["format", "match"]
    with pytest.raises(errors.NumericError, match=r"component 1 \(match\) of trajectory 0"):
        advantage.estimate(
            "gdpo", [1.0], [1], components=[[1.0, np.nan]], component_names=names
        )
    with pytest.raises(ValueError, match="component names"):
        advantage.estimate("gdpo", [1.0], [1], components=[[1.0]], component_names=names)


def test_kl():
    new, ref = -np.abs(RNG.normal(size=(2, 50)))
    d = new - ref
    for kind, value, slope in (
        ("k1", d, np.ones(50)),
        ("abs", abs(d), np.sign(d)),
        ("k2", d * d / 2, d),
        ("k3", np.exp(-d) + d - 1, 1 - np.exp(-d)),
        ("k3+", np.exp(-d) + d - 1, d),
        ("low_var_kl", np.exp(-d) + d - 1, 1 - np.exp(-d)),
    ):
        got = advantage.kl_tokens(kind, new, ref)
        assert got[0] == pytest.approx(value, abs=1e-12), kind
        assert got[1] == pytest.approx(slope, abs=1e-12), kind
    rewards, mean = advantage.kl_penalty("k1", 0.5, new, ref, np.ones(50))
    assert rewards == pytest.approx(1 - 0.5 * d, abs=1e-6)
    assert mean == pytest.approx(d.mean(), abs=1e-6)
    assert advantage.kl_penalty("k1", 1.0, [-1.0], [-2.0]) == ([-1.0], 1.0)


def test_kl_full():
    z, y = RNG.normal(size=(2, 4, 9))
    p, q = (x - np.log(np.exp(x).sum(-1, keepdims=True)) for x in (z, y))
    kl, slope = advantage.kl_full(p, q, 9)
    wanted = (np.exp(p) * (p - q)).sum(-1)
    assert kl == pytest.approx(wanted)
    gradient = np.exp(p) * (p - q - wanted[:, None])
    assert slope.reshape(4, 9) == pytest.approx(gradient, abs=1e-12)


def test_controller():
    one = advantage.Controller(0.1, target=0.1, horizon=1000)
    assert one.update(0.5, 100) == pytest.approx(0.1 * 1.02)
    other = advantage.Controller(**one.state())
    assert other.update(0.09, 50) == one.update(0.09, 50)
    assert other.state() == one.state() and one.state()["updates"] == 2
    fixed = advantage.Controller(0.001)
    assert fixed.update(9.0, 10**9) == 0.001
    with pytest.raises(errors.InvalidError, match="horizon"):
        one.update(0.1, 5000)


def test_lengths_groups_and_queries():
    assert advantage.overlong_penalty([10, 90, 200], 100, 20).tolist() == [0, -0.5, -1]
    keep, groups, kept = advantage.dynamic_sampling([1, 0, 1, 1], [3, 3, 4, 4])
    assert keep.tolist() == [1, 1, 0, 0] and (groups, kept) == (2, 1)
    chosen = advantage.select_queries(
        "success_half", 4, 2, seen=[9, 9, 9, 0], success=[0.1, 0.4, 1.0, 0.0]
    )
    assert chosen.tolist() == [3, 1]
    uniform = advantage.select_queries("uniform", 50, 50, seed=3)
    assert sorted(uniform.tolist()) == list(range(50)) != uniform.tolist()
    part, report = advantage.balance([8, 7, 6, 5, 4], 2)
    assert part.tolist() == [0, 1, 0, 1, 1]
    assert (report["balanced_min"], report["balanced_max"]) == (14, 16)
    sizes = np.bincount(advantage.balance(list(range(11)), 3, equal_sizes=True)[0])
    assert sorted(sizes.tolist()) == [3, 4, 4]
    assert advantage.thinking_confidence("entropy", [1.0, 3.0]) == -2.0
    assert advantage.thinking_confidence("mean_prob", [-1.0, -3.0]) == pytest.approx(
        np.exp(-2)
    )
    assert advantage.thinking_confidence("min", [-1.0, -3.0], [1, 0]) == pytest.approx(
        np.exp(-1)
    )
