"""A policy small enough for tests, whose words can be foretold (as tests/support/tiny.h).

A Qwen3 model of two layers; its head is made from its random embedding so that a token is
followed by those that a list of rules names. "" is the last token of the prompt.
"""

import json
import struct
from pathlib import Path

import numpy as np

import searchr1

HIDDEN = 64
SHAPE = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": HIDDEN,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "intermediate_size": 64,
    "vocab_size": 384,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
TAGS = [
    f"<{slash}{tag}>"
    for tag in ("think", "search", "information", "answer")
    for slash in ("", "/")
]
WORDS = [*TAGS, " tower", " Paris", " Rome"]
SEARCHER = [  # searches for the tower, reads, answers right or wrong
    ("", "<search>"),
    ("<search>", " tower"),
    (" tower", "</search>"),
    ("</information>", "<answer>"),
    ("<answer>", " Paris"),
    ("<answer>", " Rome"),
    (" Paris", "</answer>"),
    (" Rome", "</answer>"),
]


def make(folder, rules=SEARCHER, gain=12.0, words=(), **shape):
    """Write tokenizer and model into folder. words: further tokens; shape: what of the
    model is another."""
    texts = ["user assistant question answer The tower stands in Paris. Rome is old."] * 2
    tokenizer = searchr1.Tokenizer.train(
        texts, folder, vocab_size=340, added_tokens=[*WORDS, *words]
    )
    shape = {**SHAPE, **shape}
    with searchr1.Model.random(shape, seed=7, device="cpu", dtype="fp32") as model:
        model.save(folder)
    _teach(Path(folder) / "model.safetensors", tokenizer, rules, gain)


def _teach(path, tokenizer, rules, gain):
    rng = np.random.default_rng(3)
    embedding = rng.standard_normal((SHAPE["vocab_size"], HIDDEN)).astype("<f4")
    head = np.zeros_like(embedding)
    for before, after in rules:
        head[_id(tokenizer, after)] += gain / HIDDEN * embedding[_id(tokenizer, before)]
    data = bytearray(path.read_bytes())
    (header_size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + header_size])
    for name, values in (
        ("model.embed_tokens.weight", embedding),
        ("lm_head.weight", head),
    ):
        begin, end = (8 + header_size + at for at in header[name]["data_offsets"])
        data[begin:end] = values.tobytes()
    path.write_bytes(data)


def _id(tokenizer, word):
    if not word:
        chat = [{"role": "user", "content": "q"}]
        return tokenizer.chat_ids(chat, generation_prompt=True)[-1]
    (found,) = tokenizer.encode(word)
    return found


def config(model, **keys):
    """Settings of the tests."""
    return searchr1.Config(
        {
            "model_name_or_path": model,
            "device": "cpu",
            "workers": 1,
            "threads": 1,
            "prompt_template": "none",
            "search_engine": "mock",
            "document_format": "plain",
            "max_tokens": 24,
            "max_turns": 2,
            "group_size": 4,
            "batch_size": 2,
            "max_rows": 16,
            "update_times": 2,
            "learning_rate": 1e-3,
            "seed": 11,
            **keys,
        }
    )


def engine(queries, top_k):
    """Knows where the tower is."""
    return [["The tower stands in Paris."] if "tower" in q else None for q in queries]


def questions(path, n=8):
    """A file of questions for a run."""
    rows = (
        {
            "id": f"q{i}",
            "question": f"Where is tower {i}?",
            "golden_answers": ["Paris"],
            "data_source": "towers",
        }
        for i in range(n)
    )
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
