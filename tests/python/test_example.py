"""The example works as it stands, in thirty lines."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from searchr1.data import read_lines

import tiny


def test_thirty_lines(source):
    text = (source / "examples/python/train_in_30_lines.py").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith('"""')]
    assert len(lines) <= 30


def test_it_trains(source, tmp_path):
    script = source / "examples/python/train_in_30_lines.py"
    done = subprocess.run(
        [sys.executable, script, tmp_path],
        capture_output=True,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(source / "bindings/python")),
    )
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^step (\d): reward -?\d", done.stdout, re.M) == list("12345")
    assert "exact_match=" in done.stdout and "rows=20" in done.stdout
    rows = read_lines(Path(tmp_path, "grpo", "trajectories.jsonl.zst"))
    rows = [json.loads(row) for row in rows]
    assert len(rows) == 5 * 4 * 4
    for row in rows:
        worth = {part["name"]: part["value"] for part in row["reward_parts"]}["searched"]
        assert worth == any(search["hits"] for search in row["searches"])
    assert any(row["searches"] for row in rows)


def test_an_engine_of_ones_own(source):
    done = subprocess.run(
        [sys.executable, source / "examples/python/custom_engine.py"],
        capture_output=True,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(source / "bindings/python")),
    )
    assert done.returncode == 0, done.stderr
    assert "Where is Rome? -> ['Rome\\nRome is the capital" in done.stdout
    assert "Atlantis? -> No information found" in done.stdout
    assert done.stdout.endswith("1 batch\n")


def test_a_reward_by_a_model(source, model_folder):
    done = subprocess.run(
        [sys.executable, source / "examples/python/model_reward.py", model_folder],
        capture_output=True,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(source / "bindings/python")),
    )
    assert done.returncode == 0, done.stderr
    given = [float(x) for x in re.findall(r"gives (\S+)", done.stdout)]
    assert len(given) == 4 and all(0 < x <= 1 for x in given)


def test_a_reward_by_a_column(source, model_folder, tmp_path):
    done = subprocess.run(
        [sys.executable, source / "examples/python/column_reward.py", model_folder, tmp_path],
        capture_output=True,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(source / "bindings/python")),
    )
    assert done.returncode == 0, done.stderr
    assert "step 4: reward" in done.stdout
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert all("short" in line for line in lines)


def test_a_script_of_trl(source, model_folder, tmp_path):
    script = source / "examples/python/from_trl.py"
    lines = [line for line in script.read_text().splitlines() if line]
    assert len(lines) - 1 <= 30
    done = subprocess.run(
        [sys.executable, script, model_folder, tmp_path],
        capture_output=True,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(source / "bindings/python")),
    )
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^step (\d): reward ", done.stdout, re.M) == list("1234")
    rows = list(read_lines(tmp_path / "run" / "trajectories.jsonl.zst"))
    rows = [json.loads(row) for row in rows]
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
    done = subprocess.run(
        [sys.executable, source / "examples/python/own_estimator_and_loss.py", model_folder,
         tmp_path],
        capture_output=True,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(source / "bindings/python")),
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line[:7] for line in lines] == [f"step {i}:" for i in (1, 2, 3, 4)]
    config = (tmp_path / "run" / "config.json").read_text()
    assert '"leave_one_out"' in config and '"clipped"' in config


def test_tools_of_ones_own(source):
    done = subprocess.run(
        [sys.executable, source / "examples/python/tools.py"],
        capture_output=True,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(source / "bindings/python")),
    )
    assert done.returncode == 0, done.stderr
    assert "- tower (string, required): its name" in done.stdout
    assert "-> <result> 1889 </result>" in done.stdout
    assert "argument 'tower' must be a string, not an integer" in done.stdout
    assert "-> <result> Error: 'Babel' </result>" in done.stdout
    assert done.stdout.endswith("-> <result> The Louvre: Paris. </result>\n")


def test_critics(source):
    done = subprocess.run(
        [
            sys.executable,
            source / "examples/python/critics.py",
            "sandbox_isolation=none",
        ],
        capture_output=True,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(source / "bindings/python")),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pass@1 0.5, after revision 1.0\n")
    assert "judgements that are true: 1.0\n" in done.stdout
    assert done.stdout.endswith("revision incorrect passes\nrevision correct passes\n")


def run_example(source, name, *arguments, folder=None):
    done = subprocess.run(
        [sys.executable, source / "examples/python" / name, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=dict(os.environ, PYTHONPATH=str(source / "bindings/python")),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def port_lines(source, name):
    """Those of an example behind what stands in the script that it ports."""
    text = (source / "examples/python" / name).read_text().split("# ---- the port ----")[-1]
    return [line for line in text.splitlines() if line and not line.startswith('"""')]


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
    assert len(port_lines(source, "from_trl_tools.py")) <= 30
    out = run_example(
        source, "from_trl_tools.py", tmp_path / "model", tmp_path, folder=tmp_path
    )
    assert re.findall(r"^step (\d): reward ", out, re.M) == list("123")
    rows = read_lines(tmp_path / "run" / "trajectories.jsonl.zst")
    rows = [json.loads(row) for row in rows]
    assert len(rows) == 3 * 2 * 8
    for row in rows:  # the functions of TRL saw calls, their results and the last message
        parts = {part["name"]: part["value"] for part in row["reward_parts"]}
        last = row["generated_text"].split("<|im_start|>assistant\n")[-1]
        assert parts["correctness_reward"] == float("Paris" in last)
        found = "('Paris',)" in row["generated_text"]
        assert parts["query_reward"] == 0.5 * bool(row["searches"]) + 0.5 * found
    assert {bool(row["searches"]) for row in rows} == {True, False}


def test_the_script_of_search_r1(source, tmp_path):
    rules = [*tiny.SEARCHER, ("", "<answer>")]
    tiny.make(tmp_path / "model", rules, max_position_embeddings=2048)
    assert len(port_lines(source, "from_search_r1.py")) <= 30
    out = run_example(source, "from_search_r1.py", tmp_path / "model", tmp_path / "run")
    assert re.findall(r"^step (\d): reward ", out, re.M) == list("123")
    rows = read_lines(tmp_path / "run" / "trajectories.jsonl.zst")
    rows = [json.loads(row) for row in rows]
    assert any(search["hits"] for row in rows for search in row["searches"])
    assert {row["reward"] for row in rows} == {0.0, 1.0}
