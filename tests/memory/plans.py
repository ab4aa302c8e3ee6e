"""Runs on the CPU beside their plans (tests/memory/run): two steps, since the system gives
memory of zeros, as the optimizer's states are at first, when it is written to."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import searchr1

WITHIN = 0.15
TOOLS = pathlib.Path(os.environ["SR1_BUILD"], "tools")
SHAPE = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 512,
    "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64,
    "intermediate_size": 1536, "vocab_size": 16000, "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": True,
}  # fmt: skip
DEEP = {"hidden_size": 320, "num_hidden_layers": 20, "num_attention_heads": 5,
        "num_key_value_heads": 1, "intermediate_size": 960}  # fmt: skip
WIDE = {"hidden_size": 1024, "num_hidden_layers": 3, "num_attention_heads": 16,
        "num_key_value_heads": 8, "intermediate_size": 3072}  # fmt: skip
WORDS = {"vocab_size": 64000, "num_hidden_layers": 4, "tie_word_embeddings": False}
SMALL = {"hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
         "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072,
         "vocab_size": 151936}  # fmt: skip
# Two full micro-batches of trajectories that are as long as they may be, as a plan takes them.
# frozen: without this KL nothing is trained on where no answer is right
KEYS = {
    "device": "cpu", "prompt_template": "none", "environment": "none", "batch_size": "4",
    "group_size": "4", "update_times": "1", "max_steps": "2", "max_tokens": "192",
    "max_prompt_tokens": "20", "micro_batch_tokens": "1600", "kl_reference": "frozen",
    "beta": "0.01", "save_interval": "0", "save_final_model": "false", "workers": "1",
}  # fmt: skip
RUNS = (
    ("all weights", {}, {}),
    ("all weights, deep", DEEP, {}),
    ("all weights, wide", WIDE, {}),
    ("all weights, many words", WORDS, {}),
    ("checkpointing", DEEP, {"gradient_checkpointing": "true"}),
    ("offload", {}, {"optimizer_offload": "true", "reference_offload": "true"}),
    ("bf16", {}, {"dtype": "bf16"}),
    ("LoRA", WIDE, {"lora_rank": "8"}),
    ("LoRA, checkpointing", DEEP, {"lora_rank": "8", "gradient_checkpointing": "true"}),
    ("LoRA, bf16", WORDS, {"lora_rank": "8", "dtype": "bf16"}),
    ("0.6B, LoRA, bf16", SMALL, {"lora_rank": "8", "dtype": "bf16", "max_tokens": "32",
                                 "batch_size": "1", "gradient_checkpointing": "true"}),
)  # fmt: skip


def peak_of(folder, tool, *args):
    with open(folder / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen([TOOLS / tool, *args], cwd=folder, stdout=log, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
    if status != 0:
        raise RuntimeError((folder / "log").read_text())
    return usage.ru_maxrss * 1024


def compare(folder, name, shape, keys):
    (folder / "model.json").write_text(json.dumps({**SHAPE, **shape}))
    peak_of(folder, "sr1-data", "model", "model.json", "start", "--tokenizer",
            "world/tokenizer", "--force")  # fmt: skip
    config = {**KEYS, **keys, "model_name_or_path": str(folder / "start"),
              "train_file": str(folder / "world/train.jsonl")}  # fmt: skip
    plan = searchr1.plan(config)
    planned = plan.peak_bytes - sum(  # tests/memory/run has malloc keep nothing
        item["bytes"] for item in plan.json["items"] if item["name"] == "kept by malloc")  # fmt: skip
    pairs = [f"{key}={value}" for key, value in config.items()]
    taken = peak_of(folder, "sr1-train", "empty.yaml", f"out=run-{len(os.listdir(folder))}", *pairs)
    good = abs(planned / taken - 1) <= WITHIN
    print(f"{'ok    ' if good else 'FAILED'} {name}: planned {planned / 1e6:,.0f} MB, taken "
          f"{taken / 1e6:,.0f} MB, {100 * (planned / taken - 1):+.0f} %", flush=True)
    return good


def main():
    only = os.environ.get("MEMORY_ONLY", "")
    runs = [run for run in RUNS if only in run[0]]
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "empty.yaml").write_text("{}\n")
        peak_of(folder, "sr1-data", "world", "world", "--scale", "0.05")
        good = sum(compare(folder, *run) for run in runs)
    print(f"{good} passed, {len(runs) - good} failed, 0 skipped")
    return good < len(runs)


sys.exit(main())
