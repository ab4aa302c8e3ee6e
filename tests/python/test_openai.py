"""A model behind a server: the client, rollouts and demonstrations. The server takes the
likeliest token by numpy, from the model's logits."""

import json
import os
import signal
import threading
import time

import numpy as np
import pytest
import tiny
from json_server import JsonServer

import searchr1
from searchr1 import Completion, Dataset, Model, OpenAI, RewardSet, Rollout, errors
from searchr1._lib import lib

QUICK = {"retries": 1, "retry_first_s": 0.01, "retry_max_s": 0.01, "key_env": ""}


class Server(JsonServer):
    """As vLLM answers, greedily."""

    def __init__(self, folder):
        self.model = Model(folder, device="cpu")
        self.tokenizer = searchr1.Tokenizer(folder)
        self.lock = threading.Lock()
        self.requests = []
        self.fail = 0
        super().__init__()
        self.url += "/v1"

    def get(self, request):
        return 200, {"data": [{"id": "tiny", "max_model_len": 512}]}

    def post(self, request, text):
        body = json.loads(text)
        with self.lock:
            self.requests.append(body)
            return self.fail or 200, self.complete(body)

    def complete(self, body):
        chat = "messages" in body
        if chat:
            messages = body["messages"]
            prompt = self.tokenizer.chat_ids(messages, generation_prompt=True)
        elif isinstance(body["prompt"], str):
            prompt = self.tokenizer.encode(body["prompt"])
        else:
            prompt = body["prompt"]
        ids, log_probs, finish = [], [], "length"
        while len(ids) < body["max_tokens"] and finish == "length":
            row = self.model.logits([*prompt, *ids])[-1].astype("f8")
            ids.append(int(row.argmax()))
            row -= row.max()
            log_probs.append(float(row[ids[-1]] - np.log(np.exp(row).sum())))
            text = self.tokenizer.decode(ids)
            if any(stop in text for stop in body.get("stop", [])):
                finish = "stop"
        choice = {"finish_reason": finish, "token_ids": ids}
        if body.get("logprobs"):
            tokens = [f"token_id:{i}" for i in ids]
            choice["logprobs"] = {"tokens": tokens, "token_logprobs": log_probs}
        choice.update({"message": {"content": text}} if chat else {"text": text})
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(ids)}
        return {"choices": [choice], "usage": usage}


@pytest.fixture()
def server(model_folder):
    server = Server(model_folder)
    yield server
    server.close()


def test_completions(server):
    with OpenAI(server.url, **QUICK) as client:
        assert (client.model, client.context, client.dialect) == ("tiny", 512, "vllm")
        start = server.tokenizer.encode("<search>")
        by_ids, by_text, chat, plain = client.complete(
            [start, "<search>", [("user", "Where?")], [{"role": "user", "content": "?"}]],
            max_tokens=2,
            stop=["</search>"],
            log_probs=True,
        )
        assert by_ids.text == " tower</search>" and by_ids.finish == "stop"
        assert by_ids.stop_text == "</search>" and len(by_ids.ids) == 2
        assert (by_ids.ids == by_text.ids).all() and (by_ids.log_probs <= 0).all()
        assert chat.text == plain.text == "<search> tower" and chat.finish == "length"
        assert server.requests[0]["temperature"] == 0
        assert client.counters["completion_tokens"] == 8
        server.fail = 500
        assert client.complete([start])[0].error.endswith("HTTP 500")
        assert isinstance(client.complete([])[:1], list)
        with pytest.raises(errors.InvalidError, match="max_tokens"):
            client.complete(["x"], max_tokens=0)
    with pytest.raises(TypeError, match="no option"):
        OpenAI(server.url, timeout=1)
    assert Completion("x", "stop").ids is None


def remote_config(server, folder, **keys):
    return tiny.config(
        folder, use_openai=True, openai_base_url=server.url, openai_retries=0, **keys
    )


def test_a_rollout_has_the_tokens_of_the_model(server, model_folder, rollout):
    here = rollout.generate(["Where is the tower?"], greedy=True)[0]
    config = remote_config(server, model_folder)
    with Rollout(config, search=tiny.engine) as remote:
        there = remote.generate(["Where is the tower?"], greedy=True)[0]
        assert remote.model is None
        assert remote.remote["exact"] == remote.remote["answers"] == 2
        assert remote.remote["prompts_differ"] == 0
    assert (here.ids == there.ids).all() and here.final_answer == there.final_answer
    with OpenAI.open(config) as client:
        assert client.model == "tiny"


def test_demonstrations(server, model_folder, tmp_path):
    rows = [
        {"id": f"q{i}", "question": "Where?", "golden_answers": ["Paris", "Rome"]}
        for i in range(3)
    ]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = remote_config(server, model_folder, rewards="exact_match")
    out = tmp_path / "demos.jsonl"
    told = []
    with Rollout(config, search=tiny.engine) as remote, RewardSet.open(config) as rewards:
        report = remote.synthesise(
            out, rewards, Dataset(path), progress=lambda *f: told.append(f)
        )
        assert (report.rows, report.written, report.below) == (3, 3, 0)
        assert remote.synthesise(out, rewards, Dataset(path)).resumed == 3
        one = remote.demonstration(remote.generate(["Where?"], greedy=True)[0])
        first = {"source": "policy", "text": "<search> tower</search>"}
        assert one["segments"][0] == first
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["id"] for line in lines] == ["q0", "q1", "q2"]
    assert lines[0]["model"] == "tiny" and lines[0]["reward"] == 1
    assert lines[0]["segments"][0]["source"] == "policy"
    assert told[-1][:2] == (3, 3)


def test_ctrl_c_ends_a_completion(server):
    held = server.lock
    with OpenAI(server.url, **QUICK) as client:
        began = time.monotonic()
        with held, pytest.raises(KeyboardInterrupt):
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            client.complete(["Where?"])
        assert time.monotonic() - began < 30
        assert not client.complete(["Where?"], max_tokens=2)[0].error  # as before


def test_a_second_ctrl_c_waits_for_the_completion_too(server, monkeypatch):
    """What it uses is freed behind it."""
    cancel, run, told = lib.sr1_openai_cancel, lib.sr1_openai_run, []

    def cancel_interrupted(client):
        told.append("cancelled")
        os.kill(os.getpid(), signal.SIGINT)
        cancel(client)

    def run_to_its_end(*arguments):
        try:
            run(*arguments)
        finally:
            time.sleep(0.2)
            told.append("ended")

    monkeypatch.setattr(lib, "sr1_openai_cancel", cancel_interrupted)
    monkeypatch.setattr(lib, "sr1_openai_run", run_to_its_end)
    with OpenAI(server.url, **QUICK) as client:
        with server.lock, pytest.raises(KeyboardInterrupt):
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            client.complete(["Where?"], max_tokens=2)
        assert told[0] == "cancelled" and told[-1] == "ended"
        assert not client.complete(["Where?"], max_tokens=2)[0].error  # the server is done
