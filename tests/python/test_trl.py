"""Reward functions of TRL: what they are given, with several calls, lists, texts; async."""

import json
import os
import threading
import time
from types import SimpleNamespace

import pytest

from searchr1 import Config, Environment, Query, Rollout, Tool, Trainer, _async, errors
from searchr1.adapters import of_trl
from searchr1.env import parse_call
from searchr1.trajectory import SearchRecord, Segment
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


def one_turn(text, *queries):
    """What is used of a trajectory with one message and its calls."""
    return SimpleNamespace(
        segments=[Segment("policy", 0, 0, 1, text, text)],
        searches=[SearchRecord(query, 0, "ok", 1, ()) for query in queries],
    )


TAGGED = '{"name": "find", "arguments": {"what": 1}}'


@pytest.mark.parametrize(
    "text, queries, content",
    [  # what a call says is often thought, or said, before
        ("<think>I need the capital of France.</think>\n<search>capital of France</search>",
         ["capital of France"], "<think>I need the capital of France.</think>"),
        ("<think>Paris? Paris!</think><search> Paris </search> is Paris", ["Paris"],
         "<think>Paris? Paris!</think>"),
        ("<think>Well.</think><search></search>", [""], "<think>Well.</think>"),
        (f"{TAGGED} and {TAGGED}: <tool_call>{TAGGED}</tool_call><tool_call>\n{TAGGED}\n"
         "</tool_call>", [TAGGED] * 2, f"{TAGGED} and {TAGGED}:"),
        ("So <|python_tag|>" + TAGGED, [TAGGED], "So"),
        (f"[TOOL_CALLS] [{TAGGED}, {TAGGED}]", [TAGGED] * 2, ""),
        ("No call: <b>", [], "No call: <b>"),
        ("a" + "\n" * 100_000 + f"b <tool_call>{TAGGED}</tool_call>", [TAGGED],
         "a" + "\n" * 100_000 + "b"),  # as fast as another
    ],
)
def test_calls_are_the_last_things_of_a_message(text, queries, content):
    (message,) = messages(one_turn(text, *queries))
    assert message["content"] == content
    assert len(message.get("tool_calls", [])) == len(queries)


def test_a_result_may_have_tags_of_results_in_it():
    trajectory = one_turn(f"<tool_call>{TAGGED}</tool_call>" * 2, TAGGED, TAGGED)
    inside = "a</tool_response> <tool_response>b"
    body = f"{inside}\n</tool_response>\n<tool_response>\nc"
    text = f"<tool_response>\n{body}\n</tool_response>"
    trajectory.segments.append(Segment("environment", 0, 1, 1, text, body))
    _, *results = messages(trajectory)
    assert [(m["name"], m["content"]) for m in results] == [("find", inside), ("find", "c")]


CODER = """<function=add>
<parameter=a>
3
</parameter>
<parameter=why>
two
lines, {not JSON}
</parameter>
<parameter=all>
[1, "b"]
</parameter>
</function>"""


def test_calls_in_tags_are_read_as_transformers_itself_does():
    """As transformers reads them by a response schema, whose parser of values is TRL's for
    Qwen3.5: what is JSON, or the text."""
    want = {"a": 3, "why": "two\nlines, {not JSON}", "all": [1, "b"]}
    (message,) = messages(one_turn(f"<tool_call>\n{CODER}\n</tool_call>", CODER))
    assert message["content"] == ""
    assert message["tool_calls"][0]["function"] == {"name": "add", "arguments": want}
    parsing = pytest.importorskip("transformers.utils.chat_parsing_utils")
    value = {"x-parser": "json", "x-parser-args": {"allow_non_json": True}}
    pairs = r"<parameter=(?P<key>[^>]+)>\n(?P<value>.*?)\n</parameter>"
    schema = {"type": "object", "x-regex-key-value": pairs, "additionalProperties": value}
    assert parsing.recursive_parse(CODER, schema) == want


@pytest.mark.parametrize(
    "text, arguments",
    [
        ('{"name": "f", "parameters": {"a": 1}}', {"a": 1}),
        ('{"args": {"a": "1"}, "name": "f"}', {"a": "1"}),
        ('{"name": "f", "id": 7, "given": {"a": 1}}', {"a": 1}),
        ('{"name": "f"}', {}),
        ("<function=f></function>", {}),
        ('{"name": "f", "arguments": "no object"}', None),
        ("<function=f><parameter=a>", None),
        ('{"arguments": {}}', None),
        ('"name"', None),
        ("3", None),
        ("who lives there?", None),
        ("", None),
    ],
)
def test_one_call(text, arguments):
    if arguments is not None:
        assert parse_call(text) == {"name": "f", "arguments": arguments}
    else:
        with pytest.raises(errors.ParseError):
            parse_call(text)


def test_a_notice_is_no_result():
    """The policy has read it as a message of the user."""
    trajectory = one_turn("Hm.")
    trajectory.segments.append(
        Segment("environment", 0, 1, 1, "<|im_end|>\nuser\nNo call!<|im_end|>", "No call!")
    )
    assert messages(trajectory)[1] == {"role": "user", "content": "No call!"}


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


class Rows:
    """What is used of trajectories of rows that do not have the same columns."""

    segments, searches, history, query, ids, prompt_count = (), (), (), "Which?", (), 0

    def __init__(self, row):
        self.row = row


def test_columns_have_gaps_as_in_datasets_itself(caplog):
    """Whichever row of the batch is the first."""
    datasets = pytest.importorskip("datasets")
    rows = [{"town": "Paris"}, {"town": "Rome", "year": 1889}, {"year": 1}]
    want = datasets.Dataset.from_list([{"town": None, "year": None}, *rows])[1:]
    given = []

    def reward(completions, town, era, year=0, **kwargs):
        given.append(({"town": town, "year": year}, era))
        return [0.0] * len(completions)

    wrapped = of_trl(reward)
    for _ in range(2):
        wrapped([Rows(row) for row in rows])
    assert given == [(want, [None] * 3)] * 2
    (told,) = caplog.messages
    assert told == "no row of a batch has 'era', which reward needs: it is None"


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


def test_threads_have_one_loop(monkeypatch):
    """Whoever comes first: a client of one loop is of no use in another."""
    import asyncio

    made, new = [], asyncio.new_event_loop
    monkeypatch.setattr(_async, "_runners", {})

    def make_late():
        time.sleep(1)  # so that all of them would have found none
        made.append(new())
        return made[-1]

    monkeypatch.setattr(asyncio, "new_event_loop", make_late)

    async def running():
        return asyncio.get_running_loop()

    found = []
    started = threading.Barrier(8)

    def find():
        started.wait(60)
        found.append(_async.result(running()))

    threads = [threading.Thread(target=find) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and set(found) == set(made)


def test_a_forked_process_has_a_loop_of_its_own():
    async def one():
        return 1

    assert _async.result(one()) == 1
    child = os.fork()
    if child == 0:
        worker = threading.Thread(target=lambda: os._exit(7 * _async.result(one())))
        worker.daemon = True
        worker.start()
        worker.join(60)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
