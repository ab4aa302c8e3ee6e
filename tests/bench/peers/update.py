"""One policy update in plain PyTorch: the peer of an update in bench_step.c. Forward of 64
sequences of 64 + 64 tokens (logits of the completions only), GRPO loss with K3, backward,
clipping, fused AdamW.

usage: update.py MODEL [REPS]"""
import json
import statistics
import sys
import time

import torch
import transformers

SEQUENCES, PROMPT, NEW = 64, 64, 64


def log_probs(model, ids):
    logits = model(input_ids=ids, logits_to_keep=NEW + 1, use_cache=False).logits[:, :-1]
    target = ids[:, -NEW:].unsqueeze(-1)
    return logits.gather(-1, target).squeeze(-1) - logits.logsumexp(-1)


def main(path, reps=5):
    torch.set_num_threads(2)
    torch.manual_seed(9)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="sdpa").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    ids = torch.randint(3, model.config.vocab_size, (SEQUENCES, PROMPT + NEW))
    advantage = torch.randn(SEQUENCES, 1)
    with torch.inference_mode():
        began = time.perf_counter()
        reference = log_probs(model, ids)
        reference_s = time.perf_counter() - began
    reference = reference.clone()
    times = []
    for _ in range(int(reps) + 1):
        began = time.perf_counter()
        new = log_probs(model, ids)
        ratio = (new - new.detach()).exp()
        gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        apart = reference - new
        (0.04 * (apart.exp() - apart - 1) - gain).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        times.append(time.perf_counter() - began)
    print(json.dumps({"what": "update", "update_s": round(statistics.median(times[1:]), 4),
                      "reference_s": round(reference_s, 4)}), flush=True)


main(*sys.argv[1:])
