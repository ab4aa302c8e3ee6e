#!/usr/bin/env python3
"""What transformers computes of a mixture of experts whose tokens go through experts that other routers
chose (router replay): make_replay_vectors.py writes tests/golden/replay/<case>, of the models of
tests/golden/model.

    python3 tests/golden/make_replay_vectors.py     (torch, transformers, safetensors)

The experts are those that the model chooses. Then its routers (mlp.gate) are negated, so that they would
choose others, and torch.topk, by which transformers' routers choose, gives the probabilities of the experts
kept. expected.json: sequences, and replay_grad_norms of the mean of -log_probs; expected.safetensors:
log_probs.<i>, and replay_grad.<parameter> of the routers."""
import json
import os

import torch
from make_model_vectors import by_stored_name
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
TOPK = torch.topk


def with_topk(topk, call):
    torch.topk = topk
    try:
        return call()
    finally:
        torch.topk = TOPK


def case(name):
    folder = os.path.join(HERE, "model", name)
    with open(os.path.join(folder, "expected.json")) as f:
        seqs = [torch.tensor(s) for s in json.load(f)["sequences"]]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    kept = []

    def keep(x, k, dim=-1, **more):
        values, chosen = TOPK(x, k, dim=dim, **more)
        kept.append(chosen)
        return values, chosen

    def replay(x, k, dim=-1, **more):
        chosen = kept.pop(0)
        differ.append(float((TOPK(x, k, dim=dim).indices.sort(-1).values != chosen.sort(-1).values).float().mean()))
        return x.gather(dim, chosen), chosen

    for s in seqs:
        with_topk(keep, lambda: model(s[None]))
    with torch.no_grad():
        for n, p in model.named_parameters():
            if n.endswith("mlp.gate.weight"):
                p.neg_()
    tensors, terms, differ = {}, [], []
    for i, s in enumerate(seqs):
        logits = with_topk(replay, lambda: model(s[None])).logits[0]
        lp = logits[:-1].log_softmax(-1).gather(1, s[1:, None])[:, 0]
        if len(s) > 1:
            tensors["log_probs.%d" % i] = lp.detach()
            terms.append(lp)
    assert not kept and min(differ) > 0.3
    loss = -torch.cat(terms).mean()
    loss.backward()
    grads = by_stored_name({n: p.grad for n, p in model.named_parameters()})
    tensors.update({"replay_grad." + n: g for n, g in grads.items() if n.endswith("mlp.gate.weight")})
    facts = dict(sequences=[s.tolist() for s in seqs], loss=loss.item(),
                 replay_grad_norms={n: float(g.double().norm()) for n, g in sorted(grads.items())})
    out = os.path.join(HERE, "replay", name)
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "expected.json"), "w") as f:
        json.dump(facts, f)
        f.write("\n")
    save_file({k: v.float().contiguous() for k, v in tensors.items()}, os.path.join(out, "expected.safetensors"))
    print(name, "loss %.6f, %.2f of the choices differ" % (facts["loss"], sum(differ) / len(differ)))


for name in ("qwen3-moe", "qwen3-moe-sparse"):
    case(name)
