#!/usr/bin/env python3
"""Write tests/golden/adapter/<case>/: small random LoRA adapters and what peft computes with them.

    python3 tests/golden/make_adapter_vectors.py OUT_FOLDER [CASE...]     (torch 2.15.0, transformers 5.23.0,
                                                                  peft 0.21.2; run at the root)

A case holds the adapter's folder as peft saves it (adapter_config.json, adapter_model.safetensors),
whose base is a case of tests/golden/model, and
  expected.json         base, the name of that case; sequences [n][ids]
  expected.safetensors  logits.<i> [T, V] of sequence i with the adapter, base.<i> without it;
                        grad.<parameter> of A and B; merged.<weight> of a layer, after peft's merge
and of the critic, whose base has no value head:
  expected.safetensors  values.<i> [T] of sequence i
All in float32. The loss whose gradient it is:
    - sum over sequences and positions of log p(next token) / number of those positions.
"""
import json
import os
import shutil
import sys

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoModelForTokenClassification

LENGTHS = (13, 1, 6)
BASES = os.path.join("tests", "golden", "model")
CASES = {
    "qwen3-all": dict(base="qwen3-tied", r=4, lora_alpha=8, target_modules="all-linear"),
    "qwen2-rslora": dict(base="qwen2-tied", r=3, lora_alpha=5, use_rslora=True,
                         target_modules=["q_proj", "v_proj"]),
    "qwen3-some": dict(base="qwen3-bias", r=2, lora_alpha=7,
                       target_modules=["k_proj", "o_proj", "up_proj", "down_proj"]),
    "qwen3-ranks": dict(base="qwen3-tied", r=4, lora_alpha=8, target_modules="all-linear",
                        lora_dropout=0.1,
                        rank_pattern={"model.layers.1.self_attn.q_proj": 2, "q_proj": 3,
                                      "mlp.down_proj": 1},
                        alpha_pattern={"layers.0.self_attn.v_proj": 5, "down_proj": 3}),
    "qwen3-critic": dict(base="qwen3-tied", r=2, lora_alpha=8, target_modules=["q_proj", "up_proj"],
                         task_type="TOKEN_CLS"),
    "llama-all": dict(base="llama-linear-bias", r=3, lora_alpha=6, target_modules="all-linear"),
    "smollm3-all": dict(base="smollm3", r=2, lora_alpha=6, target_modules="all-linear"),
    "qwen3-moe": dict(base="qwen3-moe", r=3, lora_alpha=6,
                      target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]),
    "gemma3-all": dict(base="gemma3", r=2, lora_alpha=5, target_modules="all-linear"),
}


def expected(model):
    seqs = [torch.randint(2, 128, (n,)) for n in LENGTHS]
    tensors, terms = {}, []
    for i, s in enumerate(seqs):
        logits = model(s[None]).logits[0]
        tensors["logits.%d" % i] = logits.detach()
        if len(s) > 1:
            terms.append(logits[:-1].log_softmax(-1).gather(1, s[1:, None])[:, 0])
    (-torch.cat(terms).mean()).backward()
    for n, p in model.named_parameters():
        if p.grad is not None:
            tensors["grad." + n.replace(".default.", ".")] = p.grad
    with torch.no_grad(), model.disable_adapter():
        for i, s in enumerate(seqs):
            tensors["base.%d" % i] = model(s[None]).logits[0]
    merged = model.merge_and_unload().state_dict()
    tensors.update({"merged." + n: v for n, v in merged.items() if "layers.1" in n and "proj.weight" in n})
    return seqs, tensors


def expected_values(model):
    seqs = [torch.randint(2, 128, (n,)) for n in LENGTHS]
    with torch.no_grad():
        return seqs, {"values.%d" % i: model(s[None]).logits[0, :, 0] for i, s in enumerate(seqs)}


def load_base(case):
    folder, critic = os.path.join(BASES, case["base"]), case.get("task_type") == "TOKEN_CLS"
    if critic:
        return AutoModelForTokenClassification.from_pretrained(folder, dtype=torch.float32, num_labels=1)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def main():
    for number, (name, case) in enumerate(CASES.items()):
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        torch.manual_seed(3000 + number)
        out = os.path.join(sys.argv[1], name)
        shutil.rmtree(out, ignore_errors=True)
        own = {"task_type": "CAUSAL_LM", **{k: v for k, v in case.items() if k != "base"}}
        model = get_peft_model(load_base(case).eval(), LoraConfig(**own)).eval()
        with torch.no_grad():
            for n, p in model.named_parameters():
                if "lora_" in n or "modules_to_save" in n:
                    p.copy_(0.3 * torch.randn_like(p))
        model.save_pretrained(out)
        for extra in os.listdir(out):
            if not extra.startswith("adapter_"):
                os.remove(os.path.join(out, extra))
        critic = own["task_type"] == "TOKEN_CLS"
        seqs, tensors = expected_values(model) if critic else expected(model)
        save_file({k: v.contiguous().clone() for k, v in tensors.items()},
                  os.path.join(out, "expected.safetensors"))
        with open(os.path.join(out, "expected.json"), "w") as f:
            json.dump(dict(base=case["base"], sequences=[s.tolist() for s in seqs]), f)


main()
