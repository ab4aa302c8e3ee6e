"""Programs run through the package, and outputs compared as the rules say in Python."""

import random
import subprocess

import pytest

import searchr1
from searchr1 import errors


@pytest.fixture(scope="module", params=["bubblewrap", "none"])
def box(request):
    try:
        with searchr1.Sandbox(
            isolation=request.param, concurrency=8, time_s=60, memory_mib=512
        ) as made:
            yield made
    except errors.UnsupportedError as reason:
        if request.param == "none":
            raise
        pytest.skip(f"bubblewrap: {reason}")


def test_runs(box):
    assert "Python 3." in box.description
    result = box.run("print(int(input()) * 2)", input="21\n", expected=" 42 ")
    assert result.passed and result.accepted and result.stdout == "42\n"
    assert box.run("print(1)", expected="2").verdict == "wrong"
    assert box.run("print('1\\0 2')", expected="1\0 2").passed
    assert box.run("print('1\\0 2')", expected="1").verdict == "wrong"
    failed = box.run("import helper", files={"helper.py": "1 / 0"})
    assert failed.verdict == "runtime error" and failed.exit_code == 1
    assert "ZeroDivisionError" in failed.stderr and "division" in failed.message
    assert box.run("while True: pass", time_s=1).verdict == "timeout"
    assert box.run("x = [0] * 10**10").verdict == "memory"
    assert box.run("import sys; print(sys.argv[1:])", args=["a b"]).stdout == "['a b']\n"
    counts = box.counters
    assert counts["started"] == counts["ended"] == sum(counts["verdicts"].values())


def test_side_by_side_and_cancelled(box):
    stuck = box.start("import time; time.sleep(1000)", time_s=500)
    runs = [box.start(f"print({i})") for i in range(20)]
    assert all(run.wait(60) for run in runs)
    assert [run.result.out for run in runs] == [b"%d\n" % i for i in range(20)]
    assert not stuck.wait(0)
    with pytest.raises(errors.StateError):
        stuck.result
    stuck.cancel()
    assert stuck.wait(30) and stuck.result.verdict == "cancelled"


def test_verdicts_are_those_of_a_plain_run(box, tmp_path):
    programs = [
        "print('hello')",
        "import sys; sys.exit(5)",
        "raise ValueError('x')",
        "assert sorted({3, 1, 2}) == [1, 2, 3]",
        "import math, collections, itertools, re, heapq, functools; print(math.pi)",
        "import os; os._exit(0)",
        "def f(n): return n if n < 2 else f(n - 1) + f(n - 2)\nprint(f(15))",
        "def f(): f()\nf()",
        "print(exit, quit, __file__[-7:], __name__)",
        "import threading; t = threading.Thread(target=print, args=(1,)); t.start()",
        "import subprocess; print(subprocess.run(['echo', 'x']).returncode)",
        "import multiprocessing as m\nif __name__ == '__main__':\n"
        "    with m.Pool(2) as p: print(p.map(abs, [-1, 2]))",
        "import tempfile; f = tempfile.TemporaryFile(); f.write(b'x'); print(f.tell())",
        "print(len(__import__('random').sample(range(100), 5)))",
        "print('\\u00e4\\u6f22')",
        "x = (",
    ]
    for i, code in enumerate(programs):
        folder = tmp_path / str(i)
        folder.mkdir()
        (folder / "main.py").write_text(code)
        plain = subprocess.run(
            ["/usr/bin/python3", "main.py"], cwd=folder, capture_output=True
        )
        ours = box.run(code)
        assert (ours.exit_code, ours.out) == (plain.returncode, plain.stdout), code
        assert ours.passed == (plain.returncode == 0), code


def test_wrong_use():
    with pytest.raises(TypeError):
        searchr1.Sandbox(speed=3)
    with pytest.raises(errors.InvalidError):
        searchr1.Sandbox(kind="docker")
    with pytest.raises(errors.InvalidError):
        searchr1.Sandbox(kind="fusion", url="no url")
    with pytest.raises(errors.ConfigError):
        searchr1.Sandbox(kind="fusion", url="http://x", token_env="NO_SUCH_VARIABLE")


def judge(expected, got):
    """The rules of sr1_judge_output in Python's own words."""

    def number(text):
        try:
            return float(text)
        except ValueError:
            return None

    e_lines, g_lines = expected.strip().split("\n"), got.strip().split("\n")
    if len(e_lines) != len(g_lines):
        return False
    for e, g in zip(e_lines, g_lines):
        e, g = e.lower().strip(), g.lower().strip()
        if e == g:
            continue
        a, b = number(e), number(g)
        if a is None or b is None or not abs(b - a) / max(abs(a), 1e-10) < 1e-5:
            return False
    return True


def test_outputs_are_compared_as_the_rules_say():
    rng = random.Random(7)
    pieces = ["1", "1.0", "1.00001", "0.99999", "1e0", "+1", "-1", "0", "1e-16", "-0", "_1",
              "1_0", "10", "a", "A", " ", "\n", "\n\n", "\t", "\r\n", ".", "e", "inf", "nan",
              "x y", "x  y", "\u00c4", "\u00e4", "1e400", "\u2003", "5.", ".5"]  # fmt: skip
    same = 0
    for _ in range(20000):
        expected = "".join(rng.choices(pieces, k=rng.randrange(5)))
        got = expected
        for _ in range(rng.randrange(3)):
            at = rng.randrange(len(got) + 1)
            got = got[:at] + rng.choice(pieces) + got[at + rng.randrange(2) :]
        want = judge(expected, got)
        same += want
        assert searchr1.judge_output(expected, got) == want, (expected, got)
    assert 2000 < same < 18000
