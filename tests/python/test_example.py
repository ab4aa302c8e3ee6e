"""The example works as it stands, in thirty lines."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

from searchr1.data import read_lines

import tiny


def run_example(source, name, *arguments, folder=None, status=0):
    done = subprocess.run(
        [sys.executable, source / "examples/python" / name, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=dict(os.environ, PYTHONPATH=str(source / "bindings/python")),
    )
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


def example_lines(source, name):
    """Those of an example; of a port, behind what stands in the script that it ports."""
    text = (source / "examples/python" / name).read_text().split("# ---- the port ----")[-1]
    return [line for line in text.splitlines() if line and not line.startswith('"""')]


def trajectories(run):
    return [json.loads(row) for row in read_lines(run / "trajectories.jsonl.zst")]


def test_thirty_lines(source):
    assert len(example_lines(source, "train_in_30_lines.py")) <= 30


def test_without_arguments_an_example_tells_them(source, tmp_path):
    asked = 0
    for path in sorted((source / "examples/python").glob("*.py")):
        text = path.read_text()
        if not re.search(r"sys\.argv\[1:?\]", text) or "for pair in sys.argv[1:]" in text:
            continue
        if path.stem == "from_verifiers" and not find_spec("verifiers"):
            continue
        done = subprocess.run(
            [sys.executable, path], capture_output=True, text=True, cwd=tmp_path,
            env=dict(os.environ, PYTHONPATH=str(source / "bindings/python")))
        assert done.returncode != 0 and "Traceback" not in done.stderr, path.name
        assert re.search(rf"{path.name} (\S*[A-Z]|http)", done.stderr), done.stderr
        asked += 1
    assert asked >= 9
    assert not list(tmp_path.iterdir())


def test_it_trains(source, tmp_path):
    out = run_example(source, "train_in_30_lines.py", tmp_path)
    assert re.findall(r"^step (\d): reward -?\d", out, re.M) == list("12345")
    assert "exact_match=" in out and "rows=20" in out
    rows = trajectories(tmp_path / "grpo")
    assert len(rows) == 5 * 4 * 4
    for row in rows:
        worth = {part["name"]: part["value"] for part in row["reward_parts"]}["searched"]
        assert worth == any(search["hits"] for search in row["searches"])
    assert any(row["searches"] for row in rows)


def test_an_engine_of_ones_own(source):
    out = run_example(source, "custom_engine.py")
    assert "Where is Rome? -> ['Rome\\nRome is the capital" in out
    assert "Atlantis? -> No information found" in out
    assert out.endswith("1 batch\n")


def test_a_reward_by_a_model(source, model_folder):
    out = run_example(source, "model_reward.py", model_folder)
    given = [float(x) for x in re.findall(r"gives (\S+)", out)]
    assert len(given) == 4 and all(0 < x <= 1 for x in given)


def test_a_reward_by_a_column(source, model_folder, tmp_path):
    mine = tmp_path / "train.jsonl"
    mine.write_text("mine")
    out = run_example(source, "column_reward.py", model_folder, tmp_path)
    assert mine.read_text() == "mine"
    assert "step 4: reward" in out
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert all("short" in line for line in lines)


def test_a_script_of_trl(source, model_folder, tmp_path):
    assert len(example_lines(source, "from_trl.py")) <= 30
    out = run_example(source, "from_trl.py", model_folder, tmp_path)
    assert re.findall(r"^step (\d): reward ", out, re.M) == list("1234")
    rows = trajectories(tmp_path / "run")
    assert len(rows) == 4 * 2 * 8
    for row in rows:  # the function of TRL saw completions and columns
        (part,) = row["reward_parts"]
        assert part["name"] == "names_city"
        assert part["value"] == float("Paris" in row["generated_text"])
        assert row["final_answer"] in row["generated_text"]
    assert any(row["final_answer"] == row["generated_text"].strip() for row in rows)
    assert {"Paris" in row["generated_text"] for row in rows} == {True, False}


def test_an_estimator_and_a_loss_of_ones_own(source, model_folder, tmp_path):
    pytest.importorskip("numpy")
    mine = tmp_path / "train.jsonl"
    mine.write_text("mine")
    out = run_example(source, "own_estimator_and_loss.py", model_folder, tmp_path)
    assert mine.read_text() == "mine"
    lines = out.splitlines()
    assert [line[:7] for line in lines] == [f"step {i}:" for i in (1, 2, 3, 4)]
    config = (tmp_path / "run" / "config.json").read_text()
    assert '"leave_one_out"' in config and '"clipped"' in config


def test_tools_of_ones_own(source):
    out = run_example(source, "tools.py")
    assert "- tower (string, required): its name" in out
    assert "-> <result> 1889 </result>" in out
    assert "argument 'tower' must be a string, not an integer" in out
    assert "-> <result> Error: 'Babel' </result>" in out
    assert out.endswith("-> <result> The Louvre: Paris. </result>\n")


def test_critics(source):
    out = run_example(source, "critics.py", "sandbox_isolation=none")
    assert out.startswith("pass@1 0.5, after revision 1.0\n")
    assert "judgements that are true: 1.0\n" in out
    assert out.endswith("revision incorrect passes\nrevision correct passes\n")


CALL = (
    '{"name": "query_towers", "arguments": '
    '{"sql_command": "SELECT town FROM towers WHERE id < 2"}}'
)
CALLER = [
    ("", "<tool_call>"),
    ("", "<answer>"),
    ("<tool_call>", CALL),
    (CALL, "</tool_call>"),
    ("</tool_call>", "<|im_end|>"),
    ("<answer>", " Paris"),
    ("<answer>", " Rome"),
    (" Paris", "</answer>"),
    (" Rome", "</answer>"),
]


def test_a_script_of_trl_with_a_tool(source, tmp_path):
    words = ["<tool_call>", "</tool_call>", CALL]
    tiny.make(tmp_path / "model", CALLER, words=words, max_position_embeddings=2048)
    assert len(example_lines(source, "from_trl_tools.py")) <= 30
    out = run_example(
        source, "from_trl_tools.py", tmp_path / "model", tmp_path, folder=tmp_path
    )
    assert re.findall(r"^step (\d): reward ", out, re.M) == list("123")
    rows = trajectories(tmp_path / "run")
    assert len(rows) == 3 * 2 * 8
    for row in rows:  # the functions of TRL saw calls, their results and the last message
        parts = {part["name"]: part["value"] for part in row["reward_parts"]}
        last = row["generated_text"].split("<|im_start|>assistant\n")[-1]
        assert parts["correctness_reward"] == float("Paris" in last)
        found = "('Paris',)" in row["generated_text"]
        assert parts["query_reward"] == 0.5 * bool(row["searches"]) + 0.5 * found
    assert {bool(row["searches"]) for row in rows} == {True, False}
    again = tmp_path / "model", tmp_path / "again"
    run_example(source, "from_trl_tools.py", *again, folder=tmp_path)


def test_a_corpus_of_a_folder(source, tmp_path):
    texts, out = tmp_path / "texts", tmp_path / "out.jsonl"
    (texts / "sub").mkdir(parents=True)

    def make(status=0):
        return run_example(source, "folder_to_corpus.py", texts, out, status=status)

    (texts / "latin.txt").write_bytes("Köpt'n".encode("latin-1"))
    (texts / "wide.md").write_bytes("wide".encode("utf-16"))
    told = make(status=1)
    assert "latin.txt: not UTF-8\n" in told and "wide.md: not UTF-8\n" in told
    assert "no .txt or .md file of UTF-8" in told and not out.exists()
    (texts / "sub" / "GROSS.TXT").write_text("\ufeffEins zwei.\n\nDrei é.", encoding="utf-8")
    (texts / "scan.pdf").write_bytes(b"%PDF")
    assert make() == "1 files\n"
    (row,) = map(json.loads, out.read_text(encoding="utf-8").splitlines())
    assert row == {"id": "sub/GROSS#0", "contents": "sub/GROSS\nEins zwei. Drei é."}
    assert "out.jsonl exists: name another" in make(status=1)
    out.unlink()
    told = run_example(source, "folder_to_corpus.py", texts / "latin.txt", out, status=1)
    assert "no .txt or .md file" in told
    assert "FOLDER OUT.jsonl" in run_example(source, "folder_to_corpus.py", status=1)


def test_the_script_of_search_r1(source, tmp_path):
    rules = [*tiny.SEARCHER, ("", "<answer>")]
    tiny.make(tmp_path / "model", rules, max_position_embeddings=2048)
    assert len(example_lines(source, "from_search_r1.py")) <= 30
    out = run_example(source, "from_search_r1.py", tmp_path / "model", tmp_path / "run")
    assert re.findall(r"^step (\d): reward ", out, re.M) == list("123")
    rows = trajectories(tmp_path / "run")
    assert any(search["hits"] for row in rows for search in row["searches"])
    assert {row["reward"] for row in rows} == {0.0, 1.0}
