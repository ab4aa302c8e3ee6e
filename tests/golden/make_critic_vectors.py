#!/usr/bin/env python3
"""Write tests/golden/critic/<case>/: small random critics and what transformers computes with them.

    python3 tests/golden/make_critic_vectors.py OUT_FOLDER      (torch 2.11.0, transformers 5.23.0)

A case holds the folder of a ...ForTokenClassification with one label (config.json, safetensors) and
  expected.json         sequences [n][ids]
  expected.safetensors  values.<i> [T] of sequence i
"""
import json
import os
import shutil
import sys

import torch
from safetensors.torch import save_file
from transformers import (Qwen2Config, Qwen2ForTokenClassification, Qwen3Config,
                          Qwen3ForTokenClassification)

SHAPE = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
             intermediate_size=24, vocab_size=64, max_position_embeddings=64, num_labels=1,
             bos_token_id=None, eos_token_id=1, pad_token_id=0,
             rope_parameters=dict(rope_type="default", rope_theta=1e4))
CASES = {
    "qwen3": (Qwen3Config, Qwen3ForTokenClassification, dict(head_dim=12, tie_word_embeddings=True)),
    "qwen2": (Qwen2Config, Qwen2ForTokenClassification, dict(tie_word_embeddings=False)),
}


def main():
    for number, (name, (cfg, cls, own)) in enumerate(CASES.items()):
        torch.manual_seed(2000 + number)
        out = os.path.join(sys.argv[1], name)
        shutil.rmtree(out, ignore_errors=True)
        model = cls(cfg(**{**SHAPE, **own})).float().eval()
        with torch.no_grad():
            for p in model.parameters():  # large enough that values differ
                p.copy_(torch.randn_like(p) * 0.5 + (1.0 if p.ndim == 1 else 0.0))
        model.save_pretrained(out)
        ids = [torch.randint(2, 64, (n,)) for n in (9, 1, 14)]
        values = {"values.%d" % i: model(s[None]).logits[0, :, 0].detach() for i, s in enumerate(ids)}
        save_file(values, os.path.join(out, "expected.safetensors"))
        with open(os.path.join(out, "expected.json"), "w") as f:
            json.dump(dict(sequences=[s.tolist() for s in ids]), f)


main()
