"""The example works as it stands, in thirty lines."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path


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
    rows = Path(tmp_path, "grpo", "trajectories.jsonl").read_text().splitlines()
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
