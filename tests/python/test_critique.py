"""Writers, prompts, the environment of critiques, and trees of revisions."""

import json
import os
import signal
from itertools import combinations

import pytest

import searchr1
from searchr1 import critique
from searchr1._lib import lib

ROWS = [
    {
        "id": "add",
        "problem": "Add two numbers with add(a, b).",
        "solution": "Here:\n```\ndef add(a, b):\n    return a - b\n```",
        "tests": ["assert add(1, 2) == 3"],
    },
    {"id": "bare", "problem": "Do nothing.", "tests": ["pass"]},
]
RIGHT = "```python\ndef add(a, b):\n    return a + b\n```"


@pytest.fixture()
def problems():
    return searchr1.code.Problems(rows=ROWS)


def test_a_function_writes():
    seen = []

    def say(conversations):
        seen.extend(conversations)
        return [c.messages[-1][1].upper() if c.sample else None for c in conversations]

    writer = critique.Generator(say, name="loud")
    texts = writer.write(
        [
            critique.Conversation((("user", "héllo"),), sample=1, id="x"),
            [("user", "quiet")],
        ]
    )
    assert texts == ["HÉLLO", None]
    assert writer.name == "loud"
    assert seen[0] == critique.Conversation((("user", "héllo"),), "x", 1)


def test_what_a_writer_raises_comes_back():
    def broken(conversations):
        raise RuntimeError("no ink")

    with pytest.raises(RuntimeError, match="no ink"):
        critique.Generator(broken).write([[("user", "x")]])
    with pytest.raises(ValueError, match="0 texts"):
        critique.Generator(lambda conversations: []).write([[("user", "x")]])
    with pytest.raises(TypeError, match="list of texts"):  # as long as there are conversations
        critique.Generator(lambda conversations: "x").write([[("user", "x")]])


def test_a_model_writes(model_folder):
    writer = critique.Generator.model(
        model_folder, searchr1.Config(device="cpu", max_rows=4), max_tokens=3
    )
    talk = [("user", "a"), ("assistant", "b"), ("user", "c")]
    one, two = writer.write([[("user", "Where?")], talk])
    assert isinstance(one, str) and isinstance(two, str)
    assert writer.write([[("user", "Where?")]]) == [one]  # greedy


def test_prompts(problems, tmp_path):
    text = critique.prompt(problems, "add")
    assert "```python\ndef add(a, b):\n    return a - b\n```" in text
    assert "hint" not in text
    assert "known thing" in critique.prompt(problems, "add", hint="known thing")
    messages = critique.revision(problems, "add", "Wrong.\n", answer="x = 1")
    assert [role for role, _ in messages] == ["user", "assistant", "user"]
    assert messages[1][1] == "x = 1"
    assert messages[2][1].startswith("Wrong.\n\nPlease finalize")
    assert critique.sanitize("```py\nx\n```") == "```python\nx\n```"
    with pytest.raises(KeyError):
        critique.prompt(problems, "other")
    (tmp_path / "c.txt").write_text("{{problem}}|{{answer}}")
    (tmp_path / "s.txt").write_text("Do {{problem}}")
    style = critique.Style(tmp_path / "c.txt", tmp_path / "s.txt")
    assert critique.prompt(problems, "bare", answer="y", style=style) == "Do nothing.|y"
    assert critique.solve_prompt(problems, "bare", style) == "Do Do nothing."


def test_a_critique_is_answered_by_a_revision(problems):
    def revise(conversations):
        return [RIGHT if "Incorrect" in c.messages[2][1] else "?" for c in conversations]

    env = critique.environment(problems, revise)
    episode = env.begin("add")
    reply = env.step(episode, "It subtracts.\nOverall judgment: Incorrect")
    env.finish(episode)
    assert reply.done and "return a + b" in reply.text


def grow(problems, tmp_path, run):
    def solve(conversations):
        return [RIGHT if c.sample else "nothing" for c in conversations]

    def criticise(conversations):
        right = ["a + b" in c.messages[0][1] for c in conversations]
        return [f"Overall judgment: {'Correct' if r else 'Incorrect'}" for r in right]

    def revise(conversations):
        return [RIGHT for _ in conversations]

    seen = []
    trees = critique.RevisionTrees(
        problems,
        run,
        solver=solve,
        critic=criticise,
        reviser=revise,
        path=tmp_path / "tree.jsonl",
        progress=lambda phase, done, total: seen.append((phase, done, total)),
    )
    had = len(trees)
    assert trees.expand(1, 2, 1) == 0
    assert (("answers", 4, 4) in seen) == (had == 2)
    return trees


def run(problem, answer):
    assert problem in ("add", "bare")
    return "a + b" in answer, 1.0 if "a + b" in answer else 0.25


def test_a_forest_grows_and_is_measured(problems, tmp_path):
    trees = grow(problems, tmp_path, run)
    before, after = trees.scores(0), trees.scores(1)
    assert len(trees) == 2 + 4 + 4
    assert (before.pass_at_1, after.pass_at_1) == (0.5, 1.0)
    assert (after.gained, after.lost) == (0.5, 0.0)
    assert (after.accuracy, after.f1) == (1.0, 1.0)
    assert trees.pass_at_k(2) == 1.0
    node = trees[6]
    assert (node.kind, node.depth, node.passed) == ("revision", 2, True)
    assert node.judgement == "incorrect"
    with pytest.raises(IndexError):
        trees[10]
    assert len((tmp_path / "tree.jsonl").read_text().splitlines()) == 8
    with pytest.raises(searchr1.errors.StateError, match="is being written, here or"):
        grow(problems, tmp_path, run)
    had = len(trees)
    trees.close()
    again = grow(problems, tmp_path, lambda *_: pytest.fail("it was whole"))
    assert len(again) == had


def test_a_tree_is_of_its_makers(problems, tmp_path):
    def made(by):
        return critique.RevisionTrees(
            problems,
            run,
            solver=lambda c: [RIGHT] * len(c),
            path=tmp_path / "made.jsonl",
            made_by=by,
        )

    with made("one") as trees:
        assert trees.expand(1, 1) == 0
    for by in ["one", None]:
        with made(by) as trees:
            assert len(trees) == 4
    with pytest.raises(searchr1.Error, match="other models or settings"):
        made("another")


def test_a_forest_teaches(problems, tmp_path):
    trees = grow(problems, tmp_path, run)
    report = trees.write_demos(tmp_path / "sft.jsonl", drop_untrue=True)
    assert (report.critiques, report.written) == (4, 4)
    row = json.loads((tmp_path / "sft.jsonl").read_text().splitlines()[0])
    assert [m["role"] for m in row["messages"]] == ["user", "assistant"]
    source = tmp_path / "problems.jsonl"
    source.write_text("".join(json.dumps(r) + "\n" for r in ROWS))
    assert trees.write_rows([source], tmp_path / "rows.jsonl") == 2


def test_judgements_are_balanced(problems, tmp_path):
    trees = grow(problems, tmp_path, run)
    assert trees.expand(1, 3, 1) == 0  # the third answers pass too
    report = trees.write_demos(tmp_path / "sft.jsonl", balance=True)
    assert (report.critiques, report.written, report.surplus) == (6, 4, 2)
    rows = [json.loads(x) for x in (tmp_path / "sft.jsonl").read_text().splitlines()]
    assert sorted(r["judgement"] for r in rows) == ["correct"] * 2 + ["incorrect"] * 2


def test_an_answer_that_cannot_be_run_is_missing(problems, tmp_path):
    def down(problem, answer):
        return None

    trees = critique.RevisionTrees(problems, down, solver=lambda c: ["x"] * len(c))
    assert trees.expand(1, 2) == 4
    with pytest.raises(ZeroDivisionError):
        critique.RevisionTrees(
            problems, lambda p, a: 1 / 0, solver=lambda c: ["x"] * len(c)
        ).expand(1, 1)


@pytest.mark.parametrize("n, c", [(1, 0), (4, 2), (6, 5), (5, 0)])
def test_pass_at_k_counts_subsets(n, c):
    for k in range(1, n + 1):
        subsets = list(combinations(range(n), k))
        share = sum(any(i < c for i in s) for s in subsets) / len(subsets)
        assert critique.pass_at_k(n, c, k) == pytest.approx(share)
    with pytest.raises(searchr1.Error):
        critique.pass_at_k(n, c, 0)


def test_a_nul_does_not_cut_the_makers(problems, tmp_path):
    with pytest.raises(ValueError, match="NUL"):
        critique.RevisionTrees(problems, run, path=tmp_path / "t.jsonl", made_by="a\0b")


def test_texts_are_freed_when_ctrl_c_came(monkeypatch):
    freed, free = [], lib.sr1_free
    monkeypatch.setattr(lib, "sr1_free", lambda text: [freed.append(text), free(text)])

    def write(conversations):
        os.kill(os.getpid(), signal.SIGINT)
        return ["said"]

    with pytest.raises(KeyboardInterrupt):
        critique.Generator(write).write([[("user", "x")]])
    assert len(freed) == 1 and freed[0]
