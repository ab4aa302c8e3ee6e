"""Advantages, divergences and losses against numpy."""

import array
import ctypes
import subprocess
import sys

import numpy as np
import pytest

from searchr1 import _arrays, advantage, errors, loss

RNG = np.random.default_rng(2)


def test_group():
    rewards = RNG.normal(size=9)
    wanted = (rewards - rewards.mean()) / (rewards.std() + 1e-8)
    assert advantage.group(rewards) == pytest.approx(wanted, abs=1e-12)
    assert not advantage.group([3.0, 3.0]).any() and advantage.group([]).shape == (0,)
    with pytest.raises(errors.NumericError):
        advantage.group([1.0, np.nan])


def test_compute():
    rewards, groups, counts = (
        [1.0, 2.0, 5.0, 5.0, 3.0],
        [7, 2**64 - 1, 7, 9, 7],
        [2, 0, 1, 3, 1],
    )
    plain, none = advantage.compute(rewards, groups, divide_by_std=False)
    assert none is None and plain == pytest.approx([-2.0, 0.0, 2.0, 0.0, 0.0])
    by_row, by_token = advantage.compute(rewards, groups, token_counts=counts)
    assert by_row[[0, 2, 4]] == pytest.approx(advantage.group([1.0, 5.0, 3.0]))
    assert by_token == pytest.approx(np.repeat(by_row, counts), rel=1e-6)
    dead, n_groups, n_dead = advantage.zero_variance_groups(rewards, groups)
    assert dead.tolist() == [0, 1, 0, 1, 0] and (n_groups, n_dead) == (3, 2)
    assert "grpo" in advantage.names()
    with pytest.raises(errors.NotFoundError, match="grpo"):
        advantage.compute(rewards, groups, estimator="none")
    with pytest.raises(ValueError, match="5 numbers"):
        advantage.compute(rewards, groups[:4])


@pytest.mark.parametrize("dtype", ["f4", "f8", "list"])
def test_kl(dtype):
    old, new = RNG.normal(size=(2, 50))
    if dtype == "list":
        old, new = old.tolist(), new.tolist()
    else:
        old, new = old.astype(dtype), new.astype(dtype)
    d = np.asarray(old, "f8") - np.asarray(new, "f8")
    assert advantage.kl_k3(old, new) == pytest.approx(
        (np.exp(d) - d - 1).mean(), rel=1e-6
    )


def test_grpo_loss_and_gradient():
    n, low, high, beta = 64, 0.2, 0.3, 0.1
    new, old, ref, adv = RNG.normal(size=(4, n)) * 0.3
    weights = RNG.uniform(size=n)
    weights /= weights.sum()

    def value(x):
        r, d = np.exp(x - old), ref - x
        gain = np.minimum(r * adv, np.clip(r, 1 - low, 1 + high) * adv)
        return (weights * (beta * (np.exp(d) - d - 1) - gain)).sum()

    new, old, ref, adv, weights = (
        a.astype("f4").astype("f8") for a in (new, old, ref, adv, weights)
    )
    out = loss.grpo(new, old, adv, ref, weights, clip_low=low, clip_high=high, beta=beta)
    assert out.loss == pytest.approx(value(new), abs=1e-6)
    assert out.loss == pytest.approx(out.policy_loss + beta * out.kl)
    h = 1e-6
    slope = [(value(new + h * e) - value(new - h * e)) / (2 * h) for e in np.eye(n)]
    assert out.gradient.dtype == np.float32
    assert out.gradient == pytest.approx(slope, abs=1e-5)
    assert 0 < out.clip_fraction < 1


def test_nll():
    new = -RNG.uniform(size=8)
    out = loss.nll(new)
    assert out.loss == pytest.approx(-new.mean(), rel=1e-6)
    assert out.gradient == pytest.approx(np.full(8, -1 / 8))
    with pytest.raises(errors.NumericError):
        loss.nll([np.inf])


def test_shapes_and_layouts():
    rewards = np.arange(20.0).reshape(10, 2)[:, 0]  # not contiguous
    assert advantage.group(rewards) == pytest.approx(advantage.group(rewards.tolist()))
    rewards.flags.writeable = False
    assert advantage.group(rewards).shape == (10,)
    with pytest.raises(ValueError, match="one dimension"):
        advantage.group(np.ones((2, 2)))
    for groups in ([0.5], np.array([0.5])):
        with pytest.raises(TypeError):
            advantage.zero_variance_groups([1.0], groups)


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
from searchr1 import advantage, loss
assert [round(float(x), 3) for x in advantage.group([1, 2, 3])] == [-1.225, 0, 1.225]
assert list(loss.nll([-1.0, -3.0]).gradient) == [-0.5, -0.5]
assert advantage.kl_k3([0.0], [0.0]) == 0.0
import ctypes
from searchr1 import _arrays
three = (ctypes.c_float * 3)(0.5, 1.0, 2.0)
seen = _arrays.view(ctypes.addressof(three), ctypes.c_float, 3, three)
assert repr(seen) == "[0.5, 1.0, 2.0]" and seen == [0.5, 1.0, 2.0]
assert repr(seen[1:]) == "[1.0, 2.0]" and seen[-1] == 2.0 and sum(seen) == 3.5
assert list(advantage.group(seen)) == list(advantage.group([0.5, 1.0, 2.0]))
many = (ctypes.c_int32 * 999)()
many = _arrays.view(ctypes.addressof(many), ctypes.c_int32, 999, many)
assert repr(many).startswith("[0, 0, ") and ", ..., 0, " in repr(many)
assert len(repr(many)) < 300
"""


def test_without_numpy():
    subprocess.run([sys.executable, "-c", WITHOUT_NUMPY], check=True)


@pytest.mark.parametrize(
    "values",
    [
        np.array([2**32 + 65]),
        np.array([2**63 + 1], np.uint64),
        np.array([-(2**31) - 1, 5]),
        array.array("q", [2**32 + 65]),
        memoryview(array.array("q", [2**32 + 65])),
        [2**32 + 65],
    ],
)
def test_numbers_that_do_not_fit_are_refused(values, tokenizer):
    with pytest.raises(OverflowError):
        tokenizer.decode(values)


def test_numbers_that_fit_may_have_any_type(tokenizer):
    ids = [1, 2, 3]
    text = tokenizer.decode(ids)
    for kind in ("u1", "i2", "i8", "u8"):
        assert tokenizer.decode(np.array(ids, kind)) == text
    for kind in ("O", "U", "c8"):
        with pytest.raises(TypeError, match="whole numbers"):
            tokenizer.decode(np.array(ids, kind))
    with pytest.raises(OverflowError, match="256 is not from 0 to 255"):
        _arrays.as_array(np.array([256]), ctypes.c_uint8)
    with pytest.raises(OverflowError, match="-1 is not from 0 to 255"):
        _arrays.as_array(np.array([-1, 3]), ctypes.c_uint8)
