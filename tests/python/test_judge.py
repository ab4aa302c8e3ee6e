"""The reward judge against a server of Python's own, which looks for the ground truth."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from json_server import JsonServer

from searchr1 import Config, Judge, RewardSet, errors

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/python/judge.py"


class Server(JsonServer):
    def __init__(self):
        super().__init__()
        self.reply, self.code, self.prompts = None, 200, []
        self.url += "/v1"

    def get(self, request):
        return 200, {"data": [{"id": "judge"}]}

    def post(self, request, text):
        prompt = json.loads(text)["messages"][0]["content"]
        self.prompts.append(prompt)
        right = "330 m" in prompt.split("<answer>")[-1]
        message = {"role": "assistant", "content": self.reply or f"Score: {int(right)}"}
        return self.code, {
            "choices": [{"finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 50, "completion_tokens": 5},
        }


@pytest.fixture()
def server():
    server = Server()
    yield server
    server.close()


ITEMS = [("How tall?", "330 m", ["330 metres"]), ("How tall?", "3 m", ["330 metres", "x"])]


def test_scores_and_counts(server):
    with Judge(server.url, retries=0) as judge:
        assert judge.score(ITEMS + ITEMS[:1]) == [1.0, 0.0, 1.0]
        assert judge.counters["requests"] == 2 and judge.counters["tokens"] == 110
        assert judge.score([]) == []
        assert "- 330 metres\n- x" in "".join(server.prompts)
        server.code = 500
        assert math.isnan(judge.score([("q", "a", [])])[0])
    with pytest.raises(TypeError, match="'rubric' is no option"):
        Judge(server.url, rubric="x")
    with Judge(server.url, max_requests=1) as judge:
        with pytest.raises(errors.Error, match="judge_max_requests"):
            judge.score(ITEMS)


def test_by_configuration(server, tmp_path):
    rubric = tmp_path / "rubric.txt"
    rubric.write_text("From 0 to 4, how good is <answer>{{answer}}</answer>?")
    config = Config(
        rewards="judge",
        judge_base_url=server.url,
        judge_prompt=str(rubric),
        judge_max_score=4,
        judge_cache_dir=str(tmp_path / "cache"),
    )
    server.reply = "Score: 3"
    for _ in range(2):
        with Judge.open(config) as judge:
            assert judge.score(ITEMS[:1]) == [0.75]
    assert server.prompts == ["From 0 to 4, how good is <answer>330 m</answer>?"]
    with RewardSet.open(config) as rewards, Judge(server.url) as judge:
        assert rewards.names == ["judge"]
        with RewardSet("judge", judge=judge) as given:
            assert given.names == ["judge"]
    with pytest.raises(errors.ConfigError, match="judge_base_url"):
        RewardSet.open(Config(rewards="judge"))


def test_example(server):
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), server.url],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert "330 m: judge 1.00, exact match 0" in done.stdout
    assert "300 metres: judge 0.00, exact match 0" in done.stdout
