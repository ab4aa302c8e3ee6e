"""Plans of memory, and a run that takes as much."""

import os
import subprocess
import sys

import pytest

import searchr1
from searchr1 import errors

SHAPE = """{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6,
"num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 1152,
"vocab_size": 8000, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
"rope_theta": 10000.0, "tie_word_embeddings": true}"""


def config(model, **keys):
    return {"model_name_or_path": model, "environment": "none", **keys}


def test_a_shape_alone(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(SHAPE)
    plan = searchr1.plan(config(path, group_size=8), memory_gb=0.5)
    assert plan.device == "cuda:0" and plan.dtype == "bf16" and not plan.fits
    assert plan.parameters == plan.trained
    assert plan.peak_bytes == max(plan.peaks.values()) == plan.peaks[plan.largest]
    assert plan.memory_bytes == 5e8 and not plan.json["weights_found"]
    best = min(plan.advice, key=lambda advice: advice.peak_bytes)
    keys = dict(pair.split("=") for pair in best.set)
    again = searchr1.plan(config(path, group_size=8, **keys), memory_gb=0.5)
    assert again.peak_bytes == best.peak_bytes and again.fits == best.fits
    assert str(plan) == plan.text and "it does not fit" in plan.text
    with pytest.raises(errors.NotFoundError, match="is not a folder"):
        searchr1.plan(config(tmp_path / "none"))


@pytest.mark.parametrize("keys", [[], ["lora_rank=8", "gradient_checkpointing=true"]])
def test_a_run_takes_what_was_planned(keys, tmp_path):
    """Whole-process peak on the CPU, within 25 %: malloc keeps pages of its own."""
    tools = os.path.join(os.environ["SR1_BUILD"], "tools")
    env = dict(os.environ, OMP_WAIT_POLICY="passive")
    (tmp_path / "model.json").write_text(SHAPE)

    def run(tool, *args):
        with open(tmp_path / "log", "w") as log:
            process = subprocess.Popen(
                [os.path.join(tools, tool), *args],
                cwd=tmp_path, env=env, stdout=log, stderr=log,
            )  # fmt: skip
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        assert status == 0, (tmp_path / "log").read_text()
        return usage.ru_maxrss * 1024

    run("sr1-data", "world", "world", "--scale", "0.05")
    run("sr1-data", "model", "model.json", "start", "--tokenizer", "world/tokenizer")
    pairs = [
        "device=cpu", "prompt_template=none", "environment=none", "batch_size=4",
        "group_size=4", "update_times=1", "max_steps=1", "max_tokens=160",
        "max_prompt_tokens=40", "micro_batch_tokens=1400", "kl_reference=frozen",
        "beta=0.01", "save_interval=0", "save_final_model=false", "workers=1", *keys,
    ]  # fmt: skip
    files = [f"model_name_or_path={tmp_path}/start", f"train_file={tmp_path}/world/train.jsonl"]
    (tmp_path / "empty.yaml").write_text("{}\n")
    taken = run("sr1-train", "empty.yaml", "out=run", *pairs, *files)
    planned = searchr1.plan(dict(pair.split("=", 1) for pair in pairs + files)).peak_bytes
    print(f"planned {planned / 1e6:.0f} MB, taken {taken / 1e6:.0f} MB")
    assert 0.75 * taken < planned < 1.25 * taken


def test_the_page_has_the_tools_table(source):
    done = subprocess.run(
        [sys.executable, source / "tools/dev/memory_table.py"],
        capture_output=True,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(source / "bindings/python")),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout in (source / "docs/memory.md").read_text()
