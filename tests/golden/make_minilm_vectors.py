#!/usr/bin/env python3
"""Write tests/golden/encoder/minilm: vectors of real questions by all-MiniLM-L6-v2.

    python3 tests/golden/make_minilm_vectors.py MODEL_FOLDER SQUAD_DEV_JSONL OUT_FOLDER

  expected.json         texts [100]: every 38th question
  expected.safetensors  output [100, 384]: the mean over tokens, normalised, by
                        transformers 5.23.0 in float32, each question alone
The test that reads them wants the model's folder in the environment variable SR1_MINILM.
"""
import json
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModel, AutoTokenizer


def main(folder, questions, out):
    texts = [json.loads(line)["question"] for line in open(questions, encoding="utf-8")][::38][:100]
    tok = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    rows = []
    with torch.no_grad():
        for text in texts:
            hidden = model(**tok(text, return_tensors="pt", truncation=True, max_length=256)
                           ).last_hidden_state
            rows.append(torch.nn.functional.normalize(hidden[0].mean(0), dim=0))
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "expected.json"), "w") as f:
        json.dump(dict(texts=texts), f)
        f.write("\n")
    save_file({"output": torch.stack(rows)}, os.path.join(out, "expected.safetensors"))


main(*sys.argv[1:])
