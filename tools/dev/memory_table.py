#!/usr/bin/env python3
"""memory_table.py [--set] - the table of docs/memory.md, from plans of Qwen's shapes.

Prints it, or writes it into the page between its marks. PYTHONPATH names the bindings,
SR1_LIBRARY the library; tests/python/test_memory.py compares."""

import json
import pathlib
import sys
import tempfile

import searchr1

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/memory.md"
BEGIN, END = "<!-- memory_table -->\n", "<!-- end -->\n"

# hidden size, layers, query heads, key heads, intermediate size, vocabulary, tied: of the
# models' config.json
SHAPES = {
    "Qwen3-0.6B": (1024, 28, 16, 8, 3072, 151936, True),
    "Qwen3-1.7B": (2048, 28, 16, 8, 6144, 151936, True),
    "Qwen3-4B": (2560, 36, 32, 8, 9728, 151936, True),
    "Qwen2.5-7B": (3584, 28, 28, 4, 18944, 152064, False),
    "Qwen3-8B": (4096, 36, 32, 8, 12288, 151936, False),
    "Qwen3-14B": (5120, 40, 40, 8, 17408, 151936, False),
}
CARDS = (16, 24, 48, 80, 141)  # GB
STEP = {
    "environment": "none",
    "batch_size": 8,
    "group_size": 8,
    "max_tokens": 1024,
    "max_prompt_tokens": 512,
    "gradient_checkpointing": True,
    "micro_batch_tokens": 4096,
}
KINDS = {"LoRA": {"lora_rank": 16}, "all weights": {}}


def write_shape(path, family, hidden, layers, heads, kv_heads, inter, vocab, tied):
    path.write_text(
        json.dumps(
            {
                "architectures": [f"{family}ForCausalLM"],
                "hidden_size": hidden,
                "num_hidden_layers": layers,
                "num_attention_heads": heads,
                "num_key_value_heads": kv_heads,
                "head_dim": 128,
                "intermediate_size": inter,
                "vocab_size": vocab,
                "max_position_embeddings": 40960,
                "rms_norm_eps": 1e-6,
                "rope_theta": 1000000,
                "tie_word_embeddings": tied,
            }
        )
    )


def cell(config, card, offloads):
    """The peak of the first settings that fit: most sequences at once, all on the card
    before the optimizer on the host."""
    for offload in offloads:
        for rows in (64, 32, 16, 8, 4):
            plan = searchr1.plan(
                {**config, "max_rows": rows, "optimizer_offload": offload}, card
            )
            if plan.fits:
                text = f"{plan.peak_bytes / 1e9:.1f}, {rows} rows"
                return text + (", host" if offload else "")
    return "-"


def table():
    head = " | ".join(f"{card} GB" for card in CARDS)
    lines = [f"| model | trained | {head} |", "| --- | --- |" + " --- |" * len(CARDS)]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "config.json")
        for model, shape in SHAPES.items():
            write_shape(path, model[:5], *shape)
            for kind, keys in KINDS.items():
                config = {**STEP, **keys, "model_name_or_path": path}
                offloads = (False,) if "lora_rank" in keys else (False, True)
                cells = (cell(config, card, offloads) for card in CARDS)
                lines.append(f"| {model} | {kind} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def renew(text):
    before, rest = text.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END, 1)[1]


if __name__ == "__main__":
    if sys.argv[1:] == ["--set"]:
        PAGE.write_text(renew(PAGE.read_text()))
    else:
        print(table(), end="")
