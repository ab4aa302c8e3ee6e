"""Code problems, programs in texts, and checkers."""

import base64
import json
import os
import pickle
import signal
import threading
import time
import zlib

import pytest

import searchr1
from searchr1 import code, critique, livecodebench

ADD = {
    "id": "add",
    "problem": "Add.",
    "tests": ["assert add(1, 2) == 3", "assert add(-1, 1) == 0"],
    "solution": "def add(a, b): return a - b",
}
DOUBLE = {"id": 7, "question": "Double.", "tests": [{"stdin": "2", "stdout": "4"}]}


@pytest.fixture(scope="module")
def problems():
    return code.Problems(rows=[ADD, DOUBLE])


@pytest.fixture(scope="module")
def checker():
    try:
        return code.Checker(execution_score="pass_rate")
    except searchr1.Error:
        return code.Checker(execution_score="pass_rate", sandbox_isolation="none")


def test_rows_without_tests():
    row = {"id": "a", "question": "Echo.", "input_output": ""}
    tests = {"inputs": ["1"], "outputs": ["1"]}
    problems = code.Problems(rows=[row, {**row, "id": "b", "input_output": tests}])
    assert (len(problems), problems.left_out) == (1, 1)
    assert problems[0].id == "b"


def test_problems_are_found_by_number_and_id(problems, tmp_path):
    assert len(problems) == 2
    assert problems["add"] == problems[0]
    assert problems[-1].id == "7"
    assert problems["add"].tests[0] == ("assert add(1, 2) == 3", "")
    assert problems["7"].style == "stdio" and problems["7"].tests == (("2", "4"),)
    assert "add(1, 2)" in problems["add"].prompt
    assert problems["add"].solution == ADD["solution"]
    assert problems["add"].reference is None
    assert [p.id for p in problems] == ["add", "7"]
    for missing, error in (("none", KeyError), (2, IndexError)):
        with pytest.raises(error):
            problems[missing]
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ADD) + "\n" + json.dumps(ADD))
    with pytest.raises(searchr1.Error, match="comes twice"):
        code.Problems(path)


def test_texts_are_read():
    assert code.extract("So:\n```python\nx = 1\n```") == ("x = 1", "fenced")
    assert code.extract("```py\nx") == ("x", "open_fence")
    assert code.extract("x") == ("x", "whole")
    assert code.judgement("a\nOverall judgment: Incorrect") == "incorrect"
    assert code.judgement("Overall judgment: Correct or not") == "none"
    assert code.critique("x <format> a é </format>") == "a é"


def test_judgements_are_scored():
    s = code.judgement_score(
        ["correct", "incorrect", "none", "correct"], [True, True, False, None]
    )
    assert (s.n, s.none) == (3, 1)
    assert s.accuracy == pytest.approx(1 / 3)
    assert s.f1 == pytest.approx(2 / 3)
    with pytest.raises(ValueError):
        code.judgement_score(["none"], [])


def test_answers_are_run(checker, problems):
    good = "```python\ndef add(a, b):\n    return a + b\n```"
    r = checker.run(problems, "add", good)
    assert (r.verdict, r.pass_rate, r.first_failed) == ("passed", 1.0, -1)
    r = checker.run(problems, "add", "def add(a, b): return abs(a) + b", "program")
    assert r.verdicts == ("passed", "wrong") and r.pass_rate == 0.5
    assert r.got == "2" and "add(-1, 1)" in r.error
    assert checker.run(problems, "add", good).cached
    assert checker.run(problems, 1, "print(int(input()) * 2)").verdict == "passed"
    assert checker.stats["checks"] == 4 and checker.stats["cached"] == 1


def test_answers_are_run_in_a_sandbox_of_ones_own(problems):
    try:
        box = searchr1.Sandbox(concurrency=1)
    except searchr1.Error:
        box = searchr1.Sandbox(concurrency=1, isolation="none")
    mine = code.Checker(box=box, execution_score="pass_rate", execution_time_limit=5)
    answer = "def add(a, b): return abs(a) + b"
    with mine.submit(problems, "add", answer, "program") as check:
        assert check.wait().pass_rate == 0.5
        hint = critique.hint(problems, "add", answer, check)
    assert "add(-1, 1) == 0" in hint
    assert box.counters["ended"] >= 1


def test_what_an_answer_says_of_itself_is_marked(problems):
    tests = ["assert P(1) == P(1)"]
    sets = code.Problems(rows=[{"id": "p", "problem": "P.", "tests": tests}])
    answer = "class P:\n    def __init__(self, n): pass\n    def __eq__(self, other): return True"
    for judge, verdict, inside in (("outside", "wrong", 0), ("any", "passed", 1)):
        try:
            checker = code.Checker(code_judge=judge)
        except searchr1.Error:
            checker = code.Checker(code_judge=judge, sandbox_isolation="none")
        report = checker.run(sets, "p", answer, "program")
        assert (report.verdict, report.judged_inside) == (verdict, bool(inside))
        assert checker.stats["judged_inside"] == inside


def test_a_check_is_waited_for_or_cancelled(checker, problems):
    with checker.submit(problems, "add", "import time\ntime.sleep(60)") as check:
        with pytest.raises(searchr1.errors.Error):
            check.wait(0.05)
        assert not check.done
        check.cancel()
        assert check.wait().verdict == "cancelled"
        assert check.done


def test_rewards_by_running_need_a_checker(checker, problems):
    rewards = searchr1.RewardSet(["execution"], checker=checker, problems=problems)
    assert rewards.names == ["execution"]
    with pytest.raises(searchr1.Error, match="code_problems"):
        searchr1.RewardSet(["execution"])


def test_private_tests_of_livecodebench_are_unpacked(tmp_path):
    tests = [{"input": "1\n", "output": "2\n", "testtype": "stdin"}]
    packed = base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()
    row = {
        "question_id": "q",
        "question_content": "Q",
        "public_test_cases": json.dumps(tests),
        "private_test_cases": packed,
    }
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(json.dumps(row) + "\n")
    with pytest.raises(searchr1.Error, match="unpack_livecodebench"):
        code.Problems(source)
    mine = tmp_path / "out.jsonl.part"
    mine.write_text("mine")
    assert code.unpack_livecodebench(source, target) == 1
    assert mine.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == [source.name, target.name, mine.name]
    assert len(code.Problems(target)["q"].tests) == 2
    with pytest.raises(FileNotFoundError, match=f"'{tmp_path}/nowhere'$"):
        code.unpack_livecodebench(source, tmp_path / "nowhere" / "out.jsonl")
    assert livecodebench.main([str(source), str(source), "--force"]) == 0
    assert source.read_bytes() == target.read_bytes()
    assert livecodebench.main([str(source)]) == 2
    assert livecodebench.main([str(tmp_path / "none"), str(target)]) == 1
    row["private_test_cases"] = base64.b64encode(
        zlib.compress(pickle.dumps(print))
    ).decode()
    source.write_text(json.dumps(row) + "\n")
    with pytest.raises(pickle.UnpicklingError):
        code.unpack_livecodebench(source, target, force=True)


def test_what_is_there_is_kept_without_force(tmp_path, capsys):
    source, mine = tmp_path / "in.jsonl", tmp_path / "mine.jsonl"
    source.write_text("{}\n")
    mine.write_text("mine\n")
    for target in (mine, source):
        before = target.read_bytes()
        assert livecodebench.main([str(source), str(target)]) == 1
        told = capsys.readouterr().err
        assert f"{target} exists" in told and "--force" in told
        with pytest.raises(FileExistsError):
            code.unpack_livecodebench(source, target)
        assert target.read_bytes() == before
    assert livecodebench.main(["--force", str(source), str(mine)]) == 0
    assert mine.read_text() == "{}\n"


def test_keys_win_over_a_configuration(problems):
    config = searchr1.Config(execution_score="all", sandbox_isolation="none")
    answer = "def add(a, b): return abs(a) + b"
    half = code.Checker(config, execution_score="pass_rate")
    assert half.run(problems, "add", answer, "program").pass_rate == 0.5
    assert config["execution_score"] == "all"


def interrupt_soon():
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


@pytest.mark.parametrize("seconds", [-1, 60])
def test_ctrl_c_ends_a_wait(checker, problems, seconds):
    began = time.monotonic()
    with checker.submit(problems, "add", "import time\ntime.sleep(60)") as check:
        with pytest.raises(KeyboardInterrupt):
            timer = interrupt_soon()
            check.wait(seconds)
        timer.join()
    assert time.monotonic() - began < 30


def packed(data):
    return base64.b64encode(zlib.compress(data)).decode()


@pytest.mark.parametrize(
    "line, text",
    [
        ("[]", "line 2: the row is no object"),
        ("{", "line 2: "),
        (json.dumps({"private_test_cases": packed(b"")}), "EOFError"),
        (json.dumps({"private_test_cases": packed(pickle.dumps(5))}), "int is no text"),
        (json.dumps({"private_test_cases": packed(b"x")[:8]}), "line 2: "),
        (json.dumps({"private_test_cases": packed(bytes(1 << 20))}), "more than 0 MiB"),
    ],
)
def test_bad_rows_of_livecodebench_are_named(line, text, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(code, "UNPACKED_MAX", 1 << 19)
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("{}\n" + line + "\n")
    assert livecodebench.main([str(source), str(target)]) == 1
    assert text in capsys.readouterr().err and not target.exists()
