"""transformers' generate() with fixed lengths: the peer of bench_decode.c.

usage: decode.py MODEL DTYPE BATCH[,BATCH...] [PROMPT NEW REPS]
DEVICE names the device (cpu)."""
import json
import os
import statistics
import sys
import time

import torch
import transformers

DEVICE = os.environ.get("DEVICE", "cpu")


def generate(model, prompts, new):
    config = transformers.GenerationConfig(
        max_new_tokens=new, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
        eos_token_id=None, pad_token_id=0, use_cache=True)
    began = time.perf_counter()
    with torch.inference_mode():
        out = model.generate(input_ids=prompts, attention_mask=torch.ones_like(prompts),
                             generation_config=config)
        out[0, -1].item()  # the device is done
    assert out.shape[1] == prompts.shape[1] + new
    return time.perf_counter() - began


def main(path, dtype, batches, prompt=128, new=128, reps=3):
    torch.set_num_threads(2)
    torch.manual_seed(3)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path, dtype={"fp32": torch.float32, "bf16": torch.bfloat16}[dtype],
        attn_implementation="sdpa").to(DEVICE).eval()
    model.generation_config = transformers.GenerationConfig(pad_token_id=0)
    for batch in map(int, batches.split(",")):
        prompts = torch.randint(3, model.config.vocab_size, (batch, int(prompt))).to(DEVICE)
        generate(model, prompts, 4)
        one, full = [], []
        for _ in range(int(reps)):
            one.append(generate(model, prompts, 1))
            full.append(generate(model, prompts, int(new)))
        first, whole = statistics.median(one), statistics.median(full)
        print(json.dumps({
            "what": "decode", "dtype": dtype, "batch": batch, "prompt": int(prompt),
            "new": int(new), "tok_s": round(batch * int(new) / whole, 2),
            "decode_tok_s": round(batch * (int(new) - 1) / (whole - first), 2),
            "prefill_tok_s": round(batch * int(prompt) / first, 1),
            "versions": [torch.__version__, transformers.__version__]}), flush=True)


main(*sys.argv[1:])
