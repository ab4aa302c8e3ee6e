"""The table of losses, their weights and the critic's loss against numpy."""

import numpy as np
import pytest

from searchr1 import errors, loss

RNG = np.random.default_rng(8)
LENGTHS = [1, 4, 0, 7]
N = sum(LENGTHS)
SEQ = np.repeat(np.arange(4), LENGTHS)


def batch(spread=0.3):
    old = -np.abs(RNG.normal(size=N))
    arrays = {
        "old_log_probs": old,
        "new_log_probs": old + RNG.normal(size=N) * spread,
        "advantages": RNG.normal(size=N),
        "weights": RNG.uniform(size=N),
    }
    return {k: v.astype("f4").astype("f8") for k, v in arrays.items()}


def by_sequence(x):
    """The mean of its sequence at every token."""
    return np.array([x[SEQ == s].mean() for s in SEQ])


def clipped(r, a, low, high):
    return -np.minimum(r * a, np.clip(r, 1 - low, 1 + high) * a)


def dapo(new, old, a):
    return clipped(np.exp(new - old), a, 0.2, 0.28)


def ppo(new, old, a):
    plain = clipped(np.exp(new - old), a, 0.2, 0.2)
    return np.where(a < 0, np.minimum(plain, -3 * a), plain)


def gspo(new, old, a):
    return clipped(np.exp(by_sequence(new - old)), a, 3e-4, 4e-4)


def sapo(new, old, a):
    tau = np.where(a > 0, 1.0, 1.05)
    return -4 / tau / (1 + np.exp(-tau * (np.exp(new - old) - 1))) * a


def cispo(new, old, a):
    return -np.clip(np.exp(new - old), 0, 5) * a * new


def reinforce(new, old, a):
    return -a * new


def dppo_tv(new, old, a):
    moved = np.exp(new) - np.exp(old)
    far = np.where(a > 0, moved > 0.15, moved < -0.15)
    return np.where(far, 0, -np.minimum(np.exp(new - old), 20) * a * new)


def test_dro():
    b = batch()
    a, new, old = b["advantages"], b["new_log_probs"], b["old_log_probs"]
    got = loss.compute("dro", dro_beta=0.5, **b)
    each = -a * new + 0.25 * (new - old) ** 2
    assert got.loss == pytest.approx((b["weights"] * each).sum(), rel=1e-6)
    slope = b["weights"] * (-a + 0.5 * (new - old))
    assert got.gradient == pytest.approx(slope, abs=1e-6)


def test_choose():
    given = {k: v for k, v in batch().items() if k != "weights"}
    a, new = given["advantages"], given["new_log_probs"]
    cov = (a - a.mean()) * (new - new.mean())
    chosen = loss.choose("kl_cov", **given, kl_cov_ratio=0.25)
    assert sorted(np.flatnonzero(chosen)) == sorted(np.argsort(-cov)[: N // 4])
    got = loss.compute("kl_cov", chosen=chosen, ppo_kl_coef=0.5, **given)
    d = new - given["old_log_probs"]
    each = -np.exp(d) * a + np.where(chosen, 0.5 * np.abs(d), 0)
    assert got.loss == pytest.approx(each.mean(), rel=1e-6)
    drawn = loss.choose("clip_cov", **given, clip_cov_lb=-9.0, clip_cov_ub=9.0, seed=3)
    assert sum(drawn) == 1


def test_reject():
    assert "seq_mean_k1" in loss.rejections()
    old = -np.abs(RNG.normal(size=N)).astype("f4")
    rollout = old + np.linspace(-0.5, 0.5, N).astype("f4")
    k1 = rollout.astype("f8") - old
    near = np.abs(k1) <= np.log(1.25)
    got = loss.reject("token_k1", "0.8_1.25", old, rollout, LENGTHS)
    assert list(got.keep) == list(near) and 0 < near.sum() < N
    assert got.masked_fraction == pytest.approx(1 - near.mean())
    assert got.mean == pytest.approx(k1.mean()) and got.max == pytest.approx(k1.max())
    by_trajectory = np.abs(by_sequence(k1)) <= np.log(1.4)
    got = loss.reject("seq_mean_k1, token_k1", "1.4,0.8_1.25", old, rollout, LENGTHS)
    assert list(got.keep) == list(by_trajectory & near) and not by_trajectory.all()
    assert got.seq_max == pytest.approx(by_sequence(k1).max())
    with pytest.raises(errors.InvalidError, match="rollout_rs_threshold"):
        loss.reject("token_k1", "", old, rollout, LENGTHS)
    with pytest.raises(errors.NotFoundError, match="known: token_k1"):
        loss.reject("token", "2", old, rollout, LENGTHS)


def test_entropy_threshold():
    entropies = RNG.uniform(size=N).astype("f4")
    threshold = loss.entropy_threshold(entropies, 0.25)
    assert threshold == pytest.approx(float(np.quantile(entropies, 0.75)), rel=1e-6)
    given = batch()
    part = loss.compute("dapo", entropies=entropies, entropy_threshold=threshold, **given)
    kept = entropies >= threshold
    assert 0 < kept.sum() < N / 2
    given["weights"] = given["weights"] * kept
    alone = loss.compute("dapo", **given)
    assert part.loss == pytest.approx(alone.loss, rel=1e-12)
    assert part.gradient == pytest.approx(alone.gradient, abs=1e-9)
    with pytest.raises(errors.InvalidError):
        loss.entropy_threshold(entropies, 2)


@pytest.mark.parametrize("formula", [dapo, ppo, gspo, sapo, cispo, dppo_tv, reinforce])
def test_losses(formula):
    b = batch()
    out = loss.compute(formula.__name__, seq_lengths=LENGTHS, **b)
    new, old, a, w = (b[k] for k in list(b)[1::-1] + ["advantages", "weights"])
    assert out.loss == pytest.approx((w * formula(new, old, a)).sum(), rel=1e-9)
    assert out.gradient.dtype == np.float32 and out.tokens == N
    assert out.weight == pytest.approx(w.sum())
    if formula in (cispo, dppo_tv):  # a weight of the log-prob, constant by intent
        slope = w * formula(new, old, a) / new
    else:
        h = 1e-6
        slope = [
            (w * (formula(new + h * e, old, a) - formula(new - h * e, old, a))).sum()
            / (2 * h)
            for e in np.eye(N)
        ]
    assert out.gradient == pytest.approx(slope, abs=1e-5)


def test_every_loss_runs_and_describes_itself():
    rows = loss.describe()
    assert [row["name"] for row in rows] == loss.names()
    assert {"grpo", "ppo", "gspo", "vespo", "nll"} <= set(loss.names())
    for row in rows:
        out = loss.compute(row["name"], seq_lengths=LENGTHS, **batch(), beta=0.0)
        assert np.isfinite(out.gradient).all() and np.isfinite(out.loss)
        assert row["aggregation"] in loss.aggregations()
    with pytest.raises(errors.NotFoundError, match="gspo_token"):
        loss.compute("best", [-1.0])
    with pytest.raises(errors.InvalidError, match="seq_begin"):
        loss.compute("gspo", **batch())
    with pytest.raises(TypeError, match="clip_lo"):
        loss.compute("ppo", clip_lo=1, **batch())


def test_kl_entropy_and_correction():
    b = batch()
    ref, rollout = RNG.normal(size=(2, N)).astype("f4").astype("f8") * 0.5
    entropies = RNG.uniform(size=N).astype("f4").astype("f8")
    ref, rollout = b["new_log_probs"] + ref, b["old_log_probs"] + rollout
    ref, rollout = (x.astype("f4").astype("f8") for x in (ref, rollout))
    out = loss.compute(
        "reinforce",
        ref_log_probs=ref,
        entropies=entropies,
        rollout_log_probs=rollout,
        beta=0.5,
        kl_kind="k2",
        entropy_coef=0.25,
        correction="token_mask",
        correction_low=0.8,
        correction_high=1.25,
        **b,
    )
    w, rho = b["weights"], np.exp(b["old_log_probs"] - rollout)
    kept = (rho >= 0.8) & (rho <= 1.25)
    assert 0 < kept.sum() < N
    policy = -(w * kept * rho * b["advantages"] * b["new_log_probs"]).sum()
    kl = (w * (b["new_log_probs"] - ref) ** 2 / 2).sum()
    assert out.policy_loss == pytest.approx(policy, rel=1e-9)
    assert out.kl == pytest.approx(kl, rel=1e-9)
    assert out.loss == pytest.approx(policy + 0.5 * kl - 0.25 * (w * entropies).sum())
    assert out.importance_cut == pytest.approx((w * ~kept).sum())
    assert out.entropy_gradient == pytest.approx(-0.25 * w)
    assert "k3" in loss.kl_kinds() and "token_mask" in loss.corrections()


def test_weights():
    each = {
        "token-mean": np.full(N, 1 / N),
        "seq-mean-token-mean": np.repeat(1 / 3 / np.maximum(LENGTHS, 1), LENGTHS),
        "seq-mean-token-sum-norm": np.full(N, 1 / 3 / 50),
    }
    for name, wanted in each.items():
        assert loss.weights(name, LENGTHS, length=50) == pytest.approx(wanted)
        part = loss.weights(name, LENGTHS[:2], length=50, total_tokens=N, total_seqs=3)
        assert part == pytest.approx(wanted[:5])
    by_group = loss.weights("group-mean-token-mean", LENGTHS, groups=[5, 9, 9, 5])
    assert by_group == pytest.approx(np.repeat([1 / 16, 1 / 8, 0, 1 / 16], LENGTHS))


def test_value_loss():
    values, old, returns = RNG.normal(size=(3, 40)).astype("f4").astype("f8")
    weights = np.full(40, 1 / 40)
    near = np.clip(values, old - 0.5, old + 0.5)
    out = loss.value(values, returns, old, weights)
    plain, held = (values - returns) ** 2, (near - returns) ** 2
    assert out.loss == pytest.approx((np.maximum(plain, held)).mean() / 2, rel=1e-6)
    assert out.clip_fraction == pytest.approx((held > plain).mean())
    slope = np.where(held > plain, 0, values - returns) / 40
    assert out.gradient == pytest.approx(slope, abs=1e-7)
    wanted = 1 - np.var(returns - values) / np.var(returns)
    assert out.explained_variance == pytest.approx(wanted, rel=1e-5)
    with pytest.raises(errors.InvalidError, match="old_values"):
        loss.value(values, returns)
    assert loss.value(values, returns, clip_range=0).clip_fraction == 0
