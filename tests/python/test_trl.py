"""Reward functions of TRL: what they are given, with several calls, lists, texts; async."""

import json

import pytest

from searchr1 import Config, Environment, Query, Rollout, Tool, Trainer, _async
from searchr1.adapters import of_trl
from searchr1.trl import messages

import tiny

CALL = '{"name": "towers", "arguments": {"town": "Paris"}}'
CALLER = [
    ("", "<tool_call>"),
    ("", "<answer>"),
    ("<tool_call>", CALL),
    (CALL, "</tool_call>"),
    ("</tool_call>", "<tool_call>"),
    ("</tool_call>", "<|im_end|>"),
    ("<answer>", " Paris"),
    (" Paris", "</answer>"),
]


def towers(town: str) -> list:
    """The towers of a town.

    Args:
        town: its name
    """
    return [("Eiffel", 1889), ("Montparnasse", None)]


@pytest.fixture(scope="module")
def caller(tmp_path_factory):
    folder = tmp_path_factory.mktemp("caller")
    words = ["<tool_call>", "</tool_call>", CALL]
    tiny.make(folder, CALLER, gain=24.0, words=words, max_position_embeddings=2048)
    return folder


@pytest.fixture(scope="module")
def said(caller):
    config = tiny.config(
        caller, protocol="hermes", environment="tools", search_engine="none",
        max_parallel_calls=3, max_turns=4, max_tokens=60,
    )
    with Rollout(config, tools=[towers]) as rollout:
        return rollout.generate([Query("Which?")], group_size=64, seed=3)


def test_calls_and_results_are_messages(said):
    """As chat templates have them: a message for each result, a list where it is one."""
    call = {"type": "function", "function": json.loads(CALL)}
    counts = set()
    for trajectory in said:
        first, *rest = messages(trajectory)
        if "tool_calls" not in first:
            continue
        n = len(first["tool_calls"])
        assert first == {"role": "assistant", "content": "", "tool_calls": [call] * n}
        results = [m for m in rest[:n] if m["role"] == "tool"]
        if len(results) < n:  # its last message, which was not answered
            continue
        counts.add(n)
        for result in results:
            assert result["name"] == "towers"
            assert result["content"] == [("Eiffel", 1889), ("Montparnasse", None)]
        assert all(m["role"] == "assistant" for m in rest[n : n + 1])
    assert {1, 2} <= counts


TAGS = "<function=towers>\n<parameter=town>\nParis\n</parameter>\n</function>"


def test_calls_in_tags_are_calls(tmp_path):
    """As Qwen3's coder models write them."""
    rules = [
        ("", "<tool_call>"),
        ("<tool_call>", TAGS),
        (TAGS, "</tool_call>"),
        ("</tool_call>", "<|im_end|>"),
    ]
    words = ["<tool_call>", "</tool_call>", TAGS]
    tiny.make(tmp_path, rules, gain=24.0, words=words, max_position_embeddings=2048)
    config = tiny.config(
        tmp_path, protocol="qwen3-coder", environment="tools", search_engine="none",
        max_turns=2, max_tokens=30,
    )
    with Rollout(config, tools=[towers]) as rollout:
        first, result, *_ = messages(rollout.generate([Query("Which?")], group_size=1)[0])
    call = {"name": "towers", "arguments": {"town": "Paris"}}
    assert first["tool_calls"] == [{"type": "function", "function": call}]
    assert first["content"] == "" and result["name"] == "towers"


def test_what_a_function_sees(said):
    seen = {}

    def reward(prompts, completions, completion_ids, **kwargs):
        seen.update(kwargs, prompts=prompts)
        assert [len(ids) for ids in completion_ids] == [len(t) - t.prompt_count for t in said]
        return [None] + [1.0] * (len(completions) - 1)

    assert of_trl(reward)(said)[:2] == [None, 1.0]
    assert seen["prompts"][0] == [{"role": "user", "content": "Which?"}]
    assert seen["trainer_state"] is None and callable(seen["log_metric"])


@pytest.mark.parametrize("prompt", ["Which?", [{"role": "user", "content": "Which?"}]])
def test_texts_stay_texts(model_folder, tmp_path, prompt):
    """Of a prompt that is a text completions are texts; columns come with them."""
    kinds = []

    async def reward(prompts, completions, town, **kwargs):
        kinds.extend(type(completion) for completion in completions)
        assert "prompt" not in kwargs and prompts == [prompt] * len(town)
        return [float(town[0] in str(completion)) for completion in completions]

    config = Config(
        compat="trl", protocol="chat", environment="none", answers_optional=True,
        model_name_or_path=model_folder, out=tmp_path / "run", device="cpu",
        max_tokens=8, group_size=2, batch_size=1, max_steps=1,
    )
    rows = [{"prompt": prompt, "town": "Paris"}]
    with Trainer(config, train=rows, rewards={"town": of_trl(reward)}) as trainer:
        trainer.run()
    assert kinds == [str if isinstance(prompt, str) else list] * 2


def test_tools_may_be_async():
    async def later(town: str) -> str:
        """What is known of a town.

        args:
            town: its name
        """
        return "In " + town

    assert Tool(later).schema["properties"]["town"]["description"] == "its name"
    with Environment("tools", protocol="hermes", tools=[later]) as environment:
        answer = environment.answer('{"name": "later", "arguments": {"town": "Rome"}}')
    assert "In Rome" in answer


def test_a_coroutine_does_not_wait_for_its_own_thread():
    async def inner():
        return 1

    async def outer():
        return _async.result(inner())

    with pytest.raises(RuntimeError, match="make the call in a thread"):
        _async.result(outer())
    assert _async.result(inner()) == 1
