"""Models and rollouts: generation with Python engines, log-probs, evaluation."""

import gc
import itertools
import json
import logging
import math
import os
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from searchr1 import (
    Dataset,
    Environment,
    Model,
    PythonSearch,
    Query,
    RewardSet,
    Rollout,
    Trajectory,
    errors,
    log,
)
from searchr1 import rollout as rollout_module
from searchr1._lib import lib

import tiny


def test_model(model_folder, tmp_path, trajectories):
    with Model(model_folder, device="cpu", dtype="fp32") as model:
        assert (model.vocab_size, model.layers, model.hidden_size) == (
            384,
            2,
            tiny.HIDDEN,
        )
        assert (model.heads, model.kv_heads, model.head_dim) == (2, 1, 32)
        assert (model.dtype, model.device, model.tied) == ("fp32", "cpu", False)
        assert model.parameters > 2 * 384 * tiny.HIDDEN and model.max_position == 512
        ids = trajectories[0].ids
        logits = model.logits(ids)
        assert logits.shape == (len(ids), 384) and logits.dtype == np.float32
        model.save(tmp_path)
    assert (Model(tmp_path, device="cpu").logits(ids) == logits).all()
    steps = trajectories[0].steps
    rows = logits[[s.position - 1 for s in steps]].astype("f8")
    wanted = [
        row[s.token_id] - math.log(np.exp(row - row.max()).sum()) - row.max()
        for row, s in zip(rows, steps)
    ]
    assert trajectories[0].policy_log_probs == pytest.approx(wanted, abs=1e-4)


def test_random_models():
    one, two, other = (
        Model.random(tiny.SHAPE, seed, "cpu", "fp32") for seed in (1, 1, 2)
    )
    assert (one.logits([1, 2]) == two.logits([1, 2])).all()
    assert (one.logits([1, 2]) != other.logits([1, 2])).any()
    with pytest.raises(errors.NotFoundError, match="no/such"):
        Model("no/such")


def test_generate(rollout):
    asked = []
    queries = [Query("Where is the tower?", ["Paris"]), "And this?"]
    out = rollout.generate(
        queries, group_size=3, seed=1, progress=lambda *figures: asked.append(figures)
    )
    assert len(out) == 6 and [t.sample for t in out] == [0, 1, 2] * 2
    assert all(t.generated_text.startswith("<search> tower</search>") for t in out)
    assert all("The tower stands in Paris." in t.generated_text for t in out)
    assert asked[-1][:2] == (6, 6)
    again = rollout.generate(queries, group_size=3, seed=1)
    assert again == out
    greedy = rollout.generate(queries[:1], greedy=True)
    assert greedy[0].temperature == 0.0
    assert rollout.generate([]) == []


def test_history(rollout, tmp_path):
    history = [
        {"role": "user", "content": "Where is \u00c5s?"},
        {"role": "assistant", "content": "In Norway."},
    ]
    query = Query("And the tower?", ["Paris"], history=history)
    plain, told = rollout.generate([Query("And the tower?", ["Paris"]), query])
    assert plain.history == [] and told.history == history
    assert told.prompt_count > plain.prompt_count
    prompt = rollout.tokenizer.decode(told.ids[: told.prompt_count])
    assert "user\nWhere is \u00c5s?<|im_end|>" in prompt and "In Norway." in prompt
    assert Trajectory.from_json(told.to_json()) == told
    assert Trajectory.decode(told.encode()) == told
    path = tmp_path / "chat.jsonl"
    row = {"messages": history + [{"role": "user", "content": "And the tower?"}]}
    path.write_text(json.dumps({**row, "golden_answers": "Paris"}))
    (read,) = Dataset(path)
    assert list(read.history) == history and read.question == "And the tower?"
    (again,) = rollout.generate([read])
    assert again.history == history
    assert list(again.ids[: again.prompt_count]) == list(told.ids[: told.prompt_count])
    with pytest.raises(errors.InvalidError, match="role 'tool'"):
        rollout.generate([Query("?", history=[{"role": "tool", "content": "x"}])])


def test_text_as_it_appears(rollout):
    pieces = []
    (t,) = rollout.generate(["Where?"], text=lambda *piece: pieces.append(piece))
    assert "".join(text for _, _, text in pieces) == t.generated_text
    assert {(i, source) for i, source, _ in pieces} == {(0, "policy"), (0, "environment")}


def test_ablation_and_limits(rollout):
    (t,) = rollout.generate(["Where?"], no_search=True)
    assert "The tower stands" not in t.generated_text and t.searches[0].hits == 0
    (t,) = rollout.generate(["Where?"], max_tokens=2)
    assert t.policy_count == 2 and t.stop_reason == "token_limit"


def test_parts_given(model_folder, tokenizer):
    model = Model(model_folder, device="cpu", dtype="fp32")
    with Rollout(tiny.config("nowhere"), model, tokenizer, tiny.engine) as rollout:
        model.close()  # the rollout keeps its own references
        assert rollout.model.vocab_size == 384
        assert rollout.tokenizer.encode("<search>") == tokenizer.encode("<search>")
        assert rollout.generate(["Where?"])[0].searches


class Mine(Exception):
    """An exception the package knows nothing of."""


def fails(*arguments):
    raise Mine("no")


@pytest.mark.parametrize("callback", ["progress", "text"])
def test_callbacks_that_raise(rollout, callback):
    with pytest.raises(Mine):
        rollout.generate(["Where?"], **{callback: fails})
    assert rollout.generate(["Where?"])[0].final_answer  # still of use


@pytest.mark.parametrize("error, status", [(Mine, "error"), (TimeoutError, "timeout")])
def test_engine_that_raises_fails_its_rows(model_folder, caplog, error, status):
    def engine(queries, top_k):
        raise error("no such luck")

    log.send_to(logging.getLogger("rows"))
    try:
        with Rollout(tiny.config(model_folder), search=engine) as rollout:
            for _ in range(2):
                (t,) = rollout.generate(["Where?"])
                assert t.stop_reason == "search_failed"
                assert t.searches[0].status == status
            (t,) = rollout.generate(["Where?"], no_search=True)
            assert t.searches[0].hits == 0
    finally:
        log.send_to(None)
    told = [line for line in caplog.messages if f"{error.__name__}: no such" in line]
    assert len(told) == 1 and "test_rollout.py, line" in told[0]
    config = tiny.config(model_folder, search_failure="continue")
    with Rollout(config, search=engine) as rollout:
        (t,) = rollout.generate(["Where?"])
        assert t.stop_reason == "answer" and t.searches[0].status == status


def test_an_engine_that_raises_beside_a_direct_search(model_folder):
    """It fails the rollout's rows, and the direct search goes well."""
    inside, over = threading.Event(), threading.Event()

    def engine(queries, top_k):
        if queries != ["held"]:
            raise Mine("no such luck")
        inside.set()
        assert over.wait(60)
        return queries

    search = PythonSearch(engine, concurrent=True, waits=True)
    with Rollout(tiny.config(model_folder), search=search) as rollout:
        with ThreadPoolExecutor(1) as pool:
            held = pool.submit(search.search, "held")
            try:
                assert inside.wait(60)
                out = rollout.generate(["Where?"], group_size=2)
            finally:
                over.set()
            assert [t.stop_reason for t in out] == ["search_failed"] * 2
            assert [hit.contents for hit in held.result(60)] == ["held"]


def test_environment_that_raises_fails_its_rows(model_folder):
    raises = {"now": True}

    def act(actions):
        if raises["now"]:
            raise Mine("the room is empty")
        return ["The tower stands in Paris."] * len(actions)

    with Rollout(tiny.config(model_folder)) as rollout:
        rollout.set_env(Environment(act))
        (t,) = rollout.generate(["Where?"])
        assert t.stop_reason == "search_failed"
        raises["now"] = False
        (t,) = rollout.generate(["Where?"])
        assert t.searches[0].status == "ok"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_engine_that_is_interrupted_ends_the_rollout(model_folder, error):
    calls = []

    def engine(queries, top_k):
        calls.append(queries)
        raise error

    with Rollout(tiny.config(model_folder), search=engine) as rollout:
        with pytest.raises(error):
            rollout.generate(["Where?"])
    assert len(calls) == 1


def test_engine_whose_query_fails(model_folder):
    def engine(queries, top_k):
        return [TimeoutError("late")] * len(queries)

    with Rollout(tiny.config(model_folder), search=engine) as rollout:
        (t,) = rollout.generate(["Where?"])
        assert t.searches[0].status == "timeout"


def test_engine_that_hangs_once(model_folder):
    released, calls = threading.Event(), []

    def engine(queries, top_k):
        calls.append(len(queries))
        if len(calls) == 1:
            released.wait(30)
        return ["The tower stands in Paris." for _ in queries]

    search = PythonSearch(engine, concurrent=True, waits=True)
    config = tiny.config(model_folder)
    config["search_deadline"] = 0.3
    with Rollout(config, search=search) as rollout:
        out = rollout.generate(["Where?"], group_size=4, seed=1)
    released.set()
    found = sorted(t.searches[0].status for t in out)
    assert found == ["ok", "ok", "ok", "timeout"]


def test_log_probs(rollout):
    out = rollout.generate(["Where?", "Where is it?"], group_size=2)
    fresh = rollout.log_probs(out)
    assert [len(a) for a in fresh] == [t.policy_count for t in out]
    for t, again in zip(out, fresh):
        assert again.dtype == np.float32
        assert again == pytest.approx(t.policy_log_probs, abs=1e-4)
    assert rollout.log_probs([]) == []


def test_evaluate(rollout, tmp_path):
    data = Dataset(tiny.questions(tmp_path / "q.jsonl", 6))
    seen, progress = [], []
    out = rollout.evaluate(
        data,
        greedy=False,
        seed=3,
        trajectory=seen.append,
        progress=lambda *figures: progress.append(figures),
    )
    assert out.total.rows == len(seen) == 6 and list(out.by_source) == ["towers"]
    right = sum(t.final_answer == "Paris" for t in seen) / 6
    assert out.total.exact_match == out.by_source["towers"].exact_match == right
    assert out.total.searches == 1.0 and out.total.answered == 1.0
    assert [t.query for t in seen] == [row.question for row in data]
    assert progress[-1][:2] == (6, 6)
    assert rollout.evaluate(data, max_rows=2).total.rows == 2
    with pytest.raises(Mine):
        rollout.evaluate(data, trajectory=fails)
    assert out.partial is False
    rewards = RewardSet([])
    rewards.add("brief", lambda ts: [-t.policy_count for t in ts])
    assert rollout.evaluate(data, rewards=rewards).total.reward < 0
    rewards.add("fails", fails)
    with pytest.raises(Mine):  # itself, not what the library makes of it
        rollout.evaluate(data, rewards=rewards)


def test_several_answers(rollout, tmp_path):
    data = Dataset(tiny.questions(tmp_path / "q.jsonl", 6))
    seen = []
    out = rollout.evaluate(
        data, samples=3, temperature=0.5, seed=3, trajectory=seen.append
    )
    assert out.total.rows == 6 and len(seen) == 18
    assert {t.temperature for t in seen} == {0.5}
    right = [[t.final_answer == "Paris" for t in seen[i : i + 3]] for i in range(0, 18, 3)]
    figures = out.by_source["towers"].figures["exact_match"]
    assert list(figures)[:4] == ["mean@3", "std@3", "best", "majority"]
    assert figures["mean@3"] == pytest.approx(sum(map(sum, right)) / 18)
    assert figures["mean@3"] == pytest.approx(out.total.exact_match)
    assert figures["best"] == pytest.approx(sum(map(any, right)) / 6)
    assert figures["majority"] == pytest.approx(sum(sum(r) > 1 for r in right) / 6)
    draws = list(itertools.product(range(3), repeat=3))
    best = [sum(any(r[i] for i in d) for d in draws) / len(draws) for r in right]
    assert figures["best@3/mean"] == pytest.approx(sum(best) / 6)
    assert list(rollout.evaluate(data).total.figures["reward"]) == ["mean@1"]


@pytest.mark.parametrize("stop", [errors.CancelledError, KeyboardInterrupt])
def test_a_stopped_evaluation_gives_what_it_has(rollout, tmp_path, stop):
    data = Dataset(tiny.questions(tmp_path / "q.jsonl", 6))
    seen = []

    def third(trajectory):
        if len(seen) == 2:
            raise stop
        seen.append(trajectory)

    out = rollout.evaluate(data, trajectory=third, partial=True)
    assert out.partial and 0 < out.total.rows < 6
    seen.clear()
    with pytest.raises(stop):
        rollout.evaluate(data, trajectory=third)
    seen[:] = [None, None]
    with pytest.raises(stop):  # nothing to give
        rollout.evaluate(data, progress=lambda *_: third(None), partial=True)


def test_borrowed_parts_need_their_owner(model_folder):
    rollout = Rollout(tiny.config(model_folder), search=tiny.engine)
    model = rollout.model
    rollout.close()
    with pytest.raises(ValueError, match="closed"):
        model.logits([1])


def test_ctrl_c_ends_a_call(rollout, tmp_path):
    """The first Ctrl-C is never lost, wherever it comes; the second comes at once."""

    def interrupt(*arguments):
        os.kill(os.getpid(), signal.SIGINT)

    for call in (
        lambda: rollout.generate(["Where?"], group_size=8, progress=interrupt),
        lambda: rollout.generate(["Where?"], text=interrupt),
    ):
        with pytest.raises(KeyboardInterrupt):
            call()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        rollout.generate(
            ["Where?"], progress=lambda *a: [interrupt(), interrupt(), time.sleep(9)]
        )
    assert len(rollout.generate(["Where?"])) == 1  # nothing is left over
    alarm = threading.Timer(0.3, interrupt)
    began = time.monotonic()
    kept = []  # Python drops an exception that comes while it frees something
    gc.disable()  # such as what the frames above, which an error holds in a cycle, kept
    try:
        with pytest.raises(KeyboardInterrupt):
            alarm.start()
            while time.monotonic() - began < 30:
                kept.append(rollout.generate(["Where?"] * 8, group_size=8))
    finally:
        gc.enable()
    assert time.monotonic() - began < 10


def test_what_a_search_raises_is_its_own_calls(model_folder):
    """Also where a thread that an ended call has left waiting takes it."""
    entered, gate, now = threading.Event(), threading.Event(), [None]

    class Mine(BaseException):
        pass

    def engine(queries, top_k):
        if now[0] is None:
            entered.set()
            gate.wait(60)
            return queries
        raise now[0]

    def stop(*figures):
        if entered.is_set():
            raise KeyError("stopped")

    ask = [Query("Where is it?", ["Paris"])]
    with Rollout(tiny.config(model_folder), search=PythonSearch(engine, waits=True)) as rollout:
        with pytest.raises(KeyError):
            rollout.generate(ask * 3, progress=stop)
        now[0] = TimeoutError("late")
        threading.Timer(0.5, gate.set).start()
        (of_row,) = rollout.generate(ask)
        assert of_row.searches[0].status == "timeout"
        now[0] = Mine()
        with pytest.raises(Mine):
            rollout.generate(ask)


def test_nothing_is_lost_when_ctrl_c_came_at_the_end(rollout, tmp_path, monkeypatch):
    def interrupt(finished, total, tokens):
        if finished == total:
            os.kill(os.getpid(), signal.SIGINT)

    owned, free = [], lib.sr1_evaluation_free
    make = rollout_module.Trajectory
    monkeypatch.setattr(
        rollout_module, "Trajectory", lambda address: [owned.append(address), make(address)][1]
    )
    with pytest.raises(KeyboardInterrupt):
        rollout.generate(["Where?"], group_size=4, progress=interrupt)
    assert len(owned) == 4
    freed = []
    monkeypatch.setattr(
        lib, "sr1_evaluation_free", lambda found: [freed.append(found.value), free(found)]
    )
    data = Dataset(tiny.questions(tmp_path / "q.jsonl"))
    with pytest.raises(KeyboardInterrupt):
        rollout.evaluate(data, max_rows=2, progress=interrupt)
    assert len(freed) == 1 and freed[0]


def test_the_base_of_an_adapter_may_be_named(tmp_path, monkeypatch):
    golden = os.path.join(os.environ["SR1_SRC"], "tests/golden")
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copy(os.path.join(golden, "adapter/qwen3-all", name), tmp_path)
    base = os.path.join(golden, "model/qwen3-tied")
    monkeypatch.chdir(tmp_path)  # the adapter names its base from another folder
    with pytest.raises(errors.NotFoundError, match="name the base's folder"):
        Model(tmp_path, device="cpu")
    with Model(tmp_path, device="cpu", base_model=base) as model:
        assert model.lora_rank == 4


def test_a_suite(rollout, tmp_path):
    tiny.questions(tmp_path / "zz.jsonl", 4)
    tiny.questions(tmp_path / "nq.jsonl", 6)
    seen = []
    suite = rollout.evaluate_suite(
        tmp_path, samples=4, seed=3, results=tmp_path / "results",
        progress=lambda done, total, tokens: seen.append((done, total)),
    )
    assert list(suite.sets) == ["nq", "zz"] and seen[-1] == (40, 40)
    nq, average = suite.sets["nq"], suite.average
    assert (nq.rows, average.rows, average.excluded, suite.samples) == (6, 10, 0, 4)
    rows = [json.loads(line) for line in open(tmp_path / "results" / "nq.jsonl")][1:]
    right = [[answer == "Paris" for answer in row["answers"]] for row in rows]
    assert nq.exact_match.value == pytest.approx(sum(map(sum, right)) / 24)
    assert nq.passes[4].value == pytest.approx(sum(map(any, right)) / 6)
    assert nq.passes[1].value == pytest.approx(nq.exact_match.value)
    assert nq.exact_match.low <= nq.exact_match.value <= nq.exact_match.high
    both = (suite.sets["zz"].f1.value + nq.f1.value) / 2
    assert average.f1.value == pytest.approx(both)
    again = rollout.evaluate_suite(
        tmp_path, samples=4, seed=3, results=tmp_path / "results", progress=stop
    )
    assert again.average.exact_match == average.exact_match


def stop(*told):
    raise AssertionError("nothing is left to ask")
