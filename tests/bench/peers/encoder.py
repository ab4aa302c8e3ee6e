"""transformers' BERT with mean pooling, padded batches: the peer of bench_encoder.c.

usage: encoder.py FOLDER TEXTS BATCH[,BATCH...] [REPS]"""
import json
import statistics
import sys
import time

import torch
import transformers


def embed(model, tok, texts, batch):
    began = time.perf_counter()
    with torch.inference_mode():
        for i in range(0, len(texts), batch):
            inputs = tok(texts[i:i + batch], padding=True, truncation=True, max_length=256,
                         return_tensors="pt")
            hidden = model(**inputs).last_hidden_state
            mask = inputs["attention_mask"][..., None]
            v = (hidden * mask).sum(1) / mask.sum(1)
            torch.nn.functional.normalize(v, dim=1).numpy()
    return time.perf_counter() - began


def main(folder, path, batches, reps=3):
    torch.set_num_threads(2)
    with open(path, encoding="utf-8") as f:
        texts = f.read().splitlines()
    tok = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa").eval()
    for batch in map(int, batches.split(",")):
        embed(model, tok, texts, batch)
        seconds = statistics.median(embed(model, tok, texts, batch) for _ in range(int(reps)))
        print(json.dumps({
            "what": "encoder", "batch": batch, "n": len(texts),
            "texts_s": round(len(texts) / seconds, 2),
            "versions": [torch.__version__, transformers.__version__]}), flush=True)


main(*sys.argv[1:])
