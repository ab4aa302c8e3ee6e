"""Trajectories: fields, views without a copy, storage."""

import copy
import gc
import json
import pickle

import numpy as np
import pytest

from searchr1 import Dataset, Query, Trajectory, errors
from searchr1._lib import lib
from searchr1.trajectory import COLUMNS, SOURCES


def test_fields(trajectories):
    t = trajectories[0]
    assert (t.query, t.query_id, t.data_source, t.sample) == (
        "Where is it?",
        "a",
        "towers",
        0,
    )
    assert (
        trajectories[5].ground_truths == ["Paris", "Lutetia"]
        and trajectories[5].sample == 1
    )
    assert t.group_key == trajectories[3].group_key != trajectories[4].group_key
    assert t.stop_reason == "answer" and t.temperature == 1.0 and t.weights_version == 0
    assert len(t.token_weights_versions) > 0 and set(t.token_weights_versions) == {0}
    assert len(t) == t.prompt_count + t.policy_count + t.environment_count
    assert t.turn_count == 2 and "Where is it?" in repr(t)


def test_views_are_right(trajectories, tokenizer):
    for t in trajectories:
        n, m, p = len(t), t.policy_count, t.prompt_count
        assert (t.ids.dtype, t.ids.shape) == (np.int32, (n,))
        assert (t.log_probs.dtype, t.log_probs.shape) == (np.float32, (n,))
        assert t.sources.dtype == t.policy_mask.dtype == np.uint8
        assert (t.policy_mask == (t.sources == SOURCES.index("policy"))).all()
        assert t.policy_mask.sum() == m and not t.policy_mask[:p].any()
        assert (t.policy_positions == np.flatnonzero(t.policy_mask)).all()
        assert (t.policy_log_probs == t.log_probs[t.policy_positions]).all()
        assert (t.log_probs[t.policy_mask == 0] == 0).all() and (
            t.policy_log_probs <= 0
        ).all()
        assert (np.diff(t.turns) >= 0).all() and len(t.turns) == n
        assert len(t.text_ends) == n - p
        assert t.text_ends[-1] == len(t.generated_text.encode())
        assert tokenizer.decode(t.ids[p:]).startswith(t.generated_text[:8])
        assert t.full_input_ids is not None and len(t.generated_positions) == m


def test_views_do_not_copy(trajectories):
    t = trajectories[0]
    assert t.ids.ctypes.data == t.ids.ctypes.data
    assert not t.ids.flags.owndata and not t.ids.flags.writeable
    assert np.shares_memory(t.ids, t.ids[3:])
    with pytest.raises(ValueError):
        t.ids[0] = 1


def test_views_outlive_the_trajectory(trajectories):
    t = Trajectory.decode(trajectories[0].encode())
    ids, log_probs = t.ids, t.log_probs[::2]
    t.close()
    del t
    gc.collect()
    churn = [Trajectory.decode(trajectories[1].encode()) for _ in range(50)]
    assert (ids == trajectories[0].ids).all() and len(churn) == 50
    assert (log_probs == trajectories[0].log_probs[::2]).all()


def test_steps_segments_searches(trajectories):
    t = trajectories[0]
    steps = t.steps
    assert [s.token_id for s in steps] == t.ids[t.policy_positions].tolist()
    assert [s.position for s in steps] == t.policy_positions.tolist()
    assert [s.log_prob for s in steps] == t.policy_log_probs.tolist()
    assert "".join(s.text for s in t.tokens) == t.generated_text
    assert {s.source for s in t.tokens} == set(SOURCES)
    assert "".join(s.text for s in t.segments) == t.generated_text
    assert [s.source for s in t.segments] == ["policy", "environment", "policy"]
    assert t.segments[1].body.strip() == "The tower stands in Paris."
    (search,) = t.searches
    assert (search.query, search.status, search.hits, search.hit_ids) == (
        "tower",
        "ok",
        1,
        ("",),  # contents alone have no id
    )
    assert t.final_answer in ("Paris", "Rome")


def test_reward_and_advantage(trajectories):
    t = Trajectory.decode(trajectories[2].encode())
    t.reward = 1.5
    assert t.has_reward and t.reward == 1.5 and t.reward_parts == []
    assert not t.has_advantage and len(t.token_advantages) == 0
    t.advantage = -0.5
    t.token_advantages = np.linspace(0, 1, t.policy_count)
    held = t.token_advantages
    t.token_advantages = []
    assert t.advantage == -0.5 and held[-1] == 1.0 and len(t.token_advantages) == 0
    t.set_column("values", np.arange(t.policy_count))
    assert Trajectory.decode(t.encode()).column("values")[-1] == t.policy_count - 1
    assert len(t.column("returns")) == 0 and "thinking_token_costs" in COLUMNS
    with pytest.raises(errors.NumericError):
        t.reward = float("inf")
    with pytest.raises(errors.InvalidError):
        t.token_advantages = [1.0] * (t.policy_count + 1)


def test_columns_have_the_librarys_names():
    names = [lib.sr1_column_name(i) for i in range(len(COLUMNS) + 1)]
    assert names == [name.encode() for name in COLUMNS] + [None]


def test_row(rollout):
    row = {"level": 3, "names": ["é", None], "of": {"hex": "c0af"}, "half": 0.5}
    queries = [Query("Where?", row=row), Query("When?")]
    first, second, without = (*rollout.generate(queries[:1], 2), rollout.generate(["q"])[0])
    assert first.row == second.row == row and first.row is first.row
    assert without.row == {} and Trajectory.from_json(first.to_json()).row == row
    assert json.loads(json.loads(first.to_json())["row"]) == row
    with pytest.raises(errors.LimitError, match="query 1: row: .* at most 1048576"):
        rollout.generate([queries[1], Query("Where?", row={"long": "x" * (1 << 20)})])
    with pytest.raises(ValueError, match="JSON"):
        rollout.generate([Query("Where?", row={"level": float("nan")})])


def test_row_of_a_file(rollout, tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [{"question": "Where?", "golden_answers": "Paris", "pad": "x" * n}
            for n in (5, 1 << 20)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    short, long = rollout.generate(list(Dataset(path)))
    assert short.row == rows[0] and long.row == {}


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))]
)
def test_copies_and_pickles_hold_all(trajectories, again):
    """Pickled ones can be scored by other processes."""
    for t in trajectories:
        other = again(t)
        assert other == t and other.ids.ctypes.data != t.ids.ctypes.data


def test_storage(trajectories):
    for t in trajectories:
        assert Trajectory.decode(t.encode()) == t == Trajectory.from_json(t.to_json())
    fields = json.loads(t.to_json())
    assert fields["generated_text"] == t.generated_text
    assert fields["full_input_ids"] == t.ids.tolist()
    assert t != trajectories[0] and t != 3 and len({t, trajectories[0]}) == 2
    data = bytearray(t.encode())
    data[len(data) // 2] ^= 1
    with pytest.raises(errors.CorruptError):
        Trajectory.decode(bytes(data))
    with pytest.raises(errors.ParseError):
        Trajectory.from_json("{")
