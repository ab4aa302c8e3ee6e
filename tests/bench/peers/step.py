"""TRL's GRPOTrainer on the work of bench_step.c: 8 prompts of PROMPT tokens, 8 completions
of 64 tokens each, one update, frozen reference. The tokenizer of bench_model.c gives each
byte one token.

usage: step.py MODEL [STEPS [PROMPT]]"""
import json
import os
import random
import statistics
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch  # noqa: E402
import datasets  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402

PROMPTS, GROUP, NEW = 8, 8, 64
seconds = {}


def timed(owner, name, key):
    """Add the time inside owner.name to seconds[key]."""
    inner = getattr(owner, name)

    def outer(*args, **kwargs):
        began = time.perf_counter()
        try:
            return inner(*args, **kwargs)
        finally:
            what = key() if callable(key) else key
            seconds[what] = seconds.get(what, 0.0) + time.perf_counter() - began
    setattr(owner, name, outer)


def reward(completion_ids, **_):
    return [float(sum(i % 97 < 10 for i in ids)) for ids in completion_ids]


class Steps(transformers.TrainerCallback):
    def __init__(self):
        self.rows = []
        self.last = time.perf_counter()

    def on_step_end(self, args, state, control, **_):
        now = time.perf_counter()
        self.rows.append({"step_s": now - self.last, **seconds})
        seconds.clear()
        if len(self.rows) == 1:
            report("first", self.rows[0])
        self.last = now


def report(event, row):
    print(json.dumps({"what": "step", "event": event,
                      **{k: round(v, 4) for k, v in row.items()}}), flush=True)


def main(path, steps=6, prompt=64):
    torch.set_num_threads(2)
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    tokenizer.eos_token = tokenizer.pad_token = "<|endoftext|>"
    rng = random.Random(5)
    prompts = ["".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(int(prompt)))
               for _ in range(64)]
    assert len(tokenizer(prompts[0])["input_ids"]) == int(prompt)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="sdpa")
    config = trl.GRPOConfig(
        output_dir=tempfile.mkdtemp(), use_cpu=True, bf16=False, fp16=False,
        per_device_train_batch_size=PROMPTS * GROUP, gradient_accumulation_steps=1,
        num_generations=GROUP, max_completion_length=NEW, beta=0.04, num_iterations=1,
        max_steps=int(steps), learning_rate=1e-5, temperature=1.0, top_k=0, top_p=1.0,
        gradient_checkpointing=False, logging_steps=1, save_strategy="no", report_to=[],
        generation_kwargs={"min_new_tokens": NEW}, loss_type="grpo",
        dataloader_pin_memory=False, disable_tqdm=True, lr_scheduler_type="constant",
        seed=7)
    trainer = trl.GRPOTrainer(
        model=model, reward_funcs=reward, args=config, processing_class=tokenizer,
        train_dataset=datasets.Dataset.from_list([{"prompt": p} for p in prompts]))
    timed(trainer, "_generate_single_turn", "rollout_s")
    timed(trainer, "_get_per_token_logps_and_entropies",
          lambda: "forward_s" if torch.is_grad_enabled() else "reference_s")
    timed(trainer.accelerator, "backward", "backward_s")
    steps_seen = Steps()
    trainer.add_callback(steps_seen)
    out, sys.stdout = sys.stdout, sys.stderr
    steps_seen.last = time.perf_counter()
    seen = report.__globals__
    seen["print"] = lambda text, **k: out.write(text + "\n") or out.flush()
    trainer.train()
    sys.stdout = out
    rows = steps_seen.rows[1:]
    report("median", {k: statistics.median(r.get(k, 0.0) for r in rows) for k in rows[0]})


main(*sys.argv[1:])
