"""Processes of one job share the rows of an evaluation, from Python."""

import os
import socket
import subprocess
import sys

from searchr1 import Config, Ranks

import tiny

PROGRAM = """
import sys
from searchr1 import Config, Dataset, Mock, Ranks, Rollout

config = Config(model_name_or_path=sys.argv[1], device="cpu", threads=1, workers=1,
                max_tokens=12, prompt_template="none", environment="none")
with Ranks(config) as ranks, Rollout(ranks.config) as rollout:
    seen = []
    scores = rollout.evaluate(Dataset(sys.argv[2]), trajectory=seen.append, ranks=ranks)
    texts = [t.generated_text for t in seen]
    print(ranks.rank, ranks.size, scores.total.rows, scores.total.tokens, hash(str(texts)))
"""


def run(folder, questions, rank, size, port):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), str(questions)],
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONHASHSEED": "0",
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            "LOCAL_RANK": str(rank),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        },
    )


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_one_process():
    with Ranks(Config(threads=3)) as ranks:
        assert (ranks.rank, ranks.size, ranks.config["threads"]) == (0, 1, 3)


def test_rows_are_shared(model_folder, tmp_path):
    questions = tiny.questions(tmp_path / "q.jsonl", 7)
    alone = run(model_folder, questions, 0, 1, free_port())
    assert alone.wait(timeout=200) == 0
    port = free_port()
    both = [run(model_folder, questions, rank, 2, port) for rank in range(2)]
    said = [p.communicate(timeout=200)[0].split() for p in both]
    assert [p.returncode for p in both] == [0, 0]
    assert [words[:2] for words in said] == [["0", "2"], ["1", "2"]]
    assert said[0][2:] == said[1][2:] == alone.stdout.read().split()[2:]
    assert said[0][2] == "7"
