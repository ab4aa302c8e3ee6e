"""Tokenizers: round trips, streams, chat, training."""

import json
import shutil
from pathlib import Path

import pytest

from searchr1 import Tokenizer, errors

TEXTS = [
    "",
    "The tower stands in Paris.",
    "caf\u00e9 \u672a\u627e\u5230 \U0001f600\u200d\U0001f525",
    "a\0b",
    "  x\n\n\ty ",
    "<search> tower</search>",
]


@pytest.mark.parametrize("text", TEXTS)
def test_round_trip(tokenizer, text):
    for added in ("recognise", "special_as_text", "as_text"):
        assert tokenizer.decode(tokenizer.encode(text, added)) == text


def test_added_tokens(tokenizer):
    assert tokenizer.encode("<search>") == [tokenizer.token_id("<search>")]
    assert len(tokenizer.encode("<search>", "as_text")) > 1
    assert tokenizer.token_id("no such token") is None
    assert tokenizer.special_id("im_end") in tokenizer.stop_ids
    assert max(tokenizer.encode("<|im_end|>")) < len(tokenizer)


def test_stream_gives_whole_characters(tokenizer):
    text = "".join(TEXTS)
    ids = tokenizer.encode(text)
    stream = tokenizer.stream()
    pieces = [stream.push(i) for i in ids]
    assert "\ufffd" not in "".join(pieces)
    assert "".join(pieces) + stream.finish() == text
    assert "".join(tokenizer.stream().decode(ids)) == text


def test_chat(tokenizer):
    messages = [{"role": "user", "content": "Hi <|im_end|>"}]
    text = tokenizer.chat(messages, generation_prompt=True)
    assert text == "<|im_start|>user\nHi <|im_end|><|im_end|>\n<|im_start|>assistant\n"
    plain = tokenizer.chat_ids(messages, generation_prompt=True)
    end = tokenizer.special_id("im_end")
    assert plain.count(end) == 1  # what a user writes is text
    assert tokenizer.chat_ids(messages, added=True).count(end) == 2
    assert "<think>\n\n</think>" in tokenizer.chat(
        messages, generation_prompt=True, thinking=False
    )
    with pytest.raises(errors.Error):
        tokenizer.chat([{"role": "nobody", "content": "x"}])


def test_chat_family_can_be_chosen(tokenizer):
    messages = [{"role": "user", "content": "Hi"}]
    before = tokenizer.chat_family
    assert before in tokenizer.chat_families()
    tokenizer.chat_family = "qwen3-thinking"
    assert tokenizer.chat_family == "qwen3-thinking"
    text = tokenizer.chat(messages, generation_prompt=True)
    assert text.endswith("<|im_start|>assistant\n<think>\n")
    with pytest.raises(errors.NotFoundError, match="qwen2.5"):
        tokenizer.chat_family = "llama"
    tokenizer.chat_family = before


GOLDEN = Path(__file__).parents[1] / "golden" / "tokenizer"


@pytest.mark.parametrize("name", ["wordpiece", "bert_vocab", "unigram"])
def test_inputs_of_encoders(name):
    tokenizer = Tokenizer(GOLDEN / name)
    for line in (GOLDEN / f"{name}.jsonl").read_text().splitlines()[:100]:
        case = json.loads(line)
        ids, types = tokenizer.encode_input(
            case["text"], case.get("pair"), case["max_tokens"]
        )
        assert (ids, types) == (case["ids"], case["types"])
        assert tokenizer.decode(ids) == case["decoded"]
    with pytest.raises(errors.Error):
        tokenizer.encode_input("a", max_tokens=0)
    with pytest.raises(errors.Error):
        tokenizer.chat([{"role": "user", "content": "x"}])


def test_train_with_weights(tmp_path):
    one = Tokenizer.train(["ab ab", "cd"], tmp_path / "a", vocab_size=300, weights=[1, 5])
    two = Tokenizer.train(["ab ab"] + ["cd"] * 5, tmp_path / "b", vocab_size=300)
    first, second = ((tmp_path / x / "tokenizer.json").read_text() for x in "ab")
    assert first == second and json.loads(first)["model"]["type"] == "BPE"
    assert one.encode("cd") == two.encode("cd") and len(one.encode("cd")) == 1


def test_a_text_that_continues(source):
    llama = Tokenizer(source / "tests/golden/tokenizer/llama2")
    front = llama.encode("it is")
    assert llama.encode(" it is", continued=True) == front
    assert llama.encode("it is", continued=True) != front
    assert llama.encode("it is", "as_text", continued=True) == llama.encode(
        "it is", continued=True
    )


def test_arguments(tokenizer):
    with pytest.raises(TypeError):
        tokenizer.decode([1.5])
    assert tokenizer.decode(i for i in tokenizer.encode("abc")) == "abc"
    assert tokenizer.decode([10**6]) == ""


def test_save(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    assert Tokenizer(tmp_path).encode(TEXTS[2]) == tokenizer.encode(TEXTS[2])
    with pytest.raises(errors.Error):
        Tokenizer(tmp_path / "none")


def test_real_tokenizer(source):
    folder = source / ".." / "shared" / "data" / "tokenizer"
    if not folder.exists():
        folder = source / "tests" / "golden" / "tokenizer" / "small"
    tokenizer = Tokenizer(folder)
    assert all(tokenizer.decode(tokenizer.encode(text)) == text for text in TEXTS)


def test_a_nul_does_not_cut_a_family(tokenizer):
    with pytest.raises(ValueError, match="NUL"):
        tokenizer.chat_family = "chatml\0"


def test_chat_templates_by_name(model_folder, tmp_path):
    shutil.copytree(model_folder, tmp_path / "model")
    more = tmp_path / "model" / "additional_chat_templates"
    more.mkdir()
    (more / "brief.jinja").write_text("{{ messages[0].role }}: {{ messages[0].content }}")
    config = json.loads((tmp_path / "model" / "tokenizer_config.json").read_text())
    (tmp_path / "model" / "chat_template.jinja").write_text(config["chat_template"])
    tokenizer = Tokenizer(tmp_path / "model")
    assert tokenizer.chat_template_names == ["default", "brief"]
    messages = [{"role": "developer", "content": "Hi"}]
    assert "<|im_start|>" in tokenizer.chat(messages)
    tokenizer.set_chat_template("brief")
    assert tokenizer.chat(messages) == "developer: Hi"
    with pytest.raises(errors.NotFoundError, match="it has: default, brief"):
        tokenizer.set_chat_template("long")
