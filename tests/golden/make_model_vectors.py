#!/usr/bin/env python3
"""Write tests/golden/model/<case>/: small random models and what transformers computes with them.

    python3 tests/golden/make_model_vectors.py OUT_FOLDER [CASE...]     (torch 2.11.0, transformers 5.23.0)

A case holds the model folder itself (config.json, safetensors) and
  expected.json         sequences [n][ids]; loss; gradient norm of each parameter;
                        prompts [n][ids] and greedy [n][ids], the continuation of each;
                        of routed experts: aux_loss over all sequences (padded into one batch,
                        the padding masked), and aux_grad_norms, those of its gradient alone
  expected.safetensors  logits.<i> [T, V] of sequence i, log_probs.<i> [T-1] of its own next
                        tokens; in some cases grad.<parameter> whole, and with routed experts
                        aux_grad.<parameter>, the routers' of aux_loss
All in float32, also where the stored weights are narrower. The loss is
    - sum over sequences and positions of log p(next token) / number of those positions.
"""
import json
import os
import shutil
import sys

import torch
from safetensors.torch import save_file
from transformers import (AutoModelForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM, SmolLM3Config,
                          SmolLM3ForCausalLM)

KINDS = {"qwen3": (Qwen3Config, Qwen3ForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM),
         "llama": (LlamaConfig, LlamaForCausalLM), "mistral": (MistralConfig, MistralForCausalLM),
         "smollm3": (SmolLM3Config, SmolLM3ForCausalLM),
         "qwen3-moe": (Qwen3MoeConfig, Qwen3MoeForCausalLM),
         "gemma3": (Gemma3TextConfig, Gemma3ForCausalLM)}

SHAPE = dict(hidden_size=32, num_hidden_layers=2, intermediate_size=48, vocab_size=128,
             max_position_embeddings=256, bos_token_id=None, eos_token_id=1, pad_token_id=0)
LENGTHS = (17, 1, 6)
PROMPTS = (5, 11, 2)
NEW_TOKENS = 20
MIN_MARGIN = 2e-3  # greedy choices must not hang on rounding

# name: config class and its departures; "dtype" of the file, "shard" size, "old" keys, "grads"
CASES = {
    "qwen3-tied": dict(kind="qwen3", num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                       tie_word_embeddings=True, rope_theta=1e6, grads=True),
    "qwen3-untied-wide": dict(kind="qwen3", num_attention_heads=4, num_key_value_heads=4,
                              head_dim=16, tie_word_embeddings=False, rope_theta=1e4),
    "qwen3-group8-sharded": dict(kind="qwen3", num_attention_heads=8, num_key_value_heads=1,
                                 head_dim=8, tie_word_embeddings=False, rope_theta=1e6,
                                 shard="30KB"),
    "qwen3-bias": dict(kind="qwen3", num_attention_heads=4, num_key_value_heads=2, head_dim=12,
                       tie_word_embeddings=True, attention_bias=True, rope_theta=1e6),
    "qwen3-bf16": dict(kind="qwen3", num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                       tie_word_embeddings=True, rope_theta=1e6, dtype=torch.bfloat16),
    "qwen3-fp16": dict(kind="qwen3", num_attention_heads=2, num_key_value_heads=1, head_dim=16,
                       tie_word_embeddings=True, rope_theta=1e6, dtype=torch.float16),
    "qwen2-tied": dict(kind="qwen2", num_attention_heads=4, num_key_value_heads=2,
                       tie_word_embeddings=True, rope_theta=1e6, grads=True),
    "qwen2-untied-bf16": dict(kind="qwen2", num_attention_heads=8, num_key_value_heads=1,
                              hidden_size=64, intermediate_size=80, tie_word_embeddings=False,
                              rope_theta=1e6, dtype=torch.bfloat16, old=True),
    "llama-scaled": dict(kind="llama", num_attention_heads=4, num_key_value_heads=2,
                         tie_word_embeddings=True, rope_theta=5e5, grads=True,
                         rope=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                   original_max_position_embeddings=64)),
    "llama-linear-bias": dict(kind="llama", num_attention_heads=4, num_key_value_heads=None, head_dim=12,
                              tie_word_embeddings=False, attention_bias=True, rope_theta=1e4,
                              rope=dict(rope_type="linear", factor=2.0), old=True),
    "mistral-window-bf16": dict(kind="mistral", num_attention_heads=8, num_key_value_heads=2, head_dim=8,
                                tie_word_embeddings=False, rope_theta=1e4, sliding_window=64,
                                dtype=torch.bfloat16),
    "qwen3-yarn": dict(kind="qwen3", num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                       tie_word_embeddings=True, rope_theta=1e4,
                       rope=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)),
    "qwen2-yarn-mscale": dict(kind="qwen2", num_attention_heads=4, num_key_value_heads=2,
                              tie_word_embeddings=True, rope_theta=1e4,
                              rope=dict(rope_type="yarn", factor=2.0, original_max_position_embeddings=128,
                                        beta_fast=16.0, beta_slow=2.0, mscale=1.5, mscale_all_dim=0.5,
                                        truncate=False)),
    "smollm3": dict(kind="smollm3", num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                    no_rope_layer_interval=2, rope_theta=5e4, grads=True),
    "smollm3-window": dict(kind="smollm3", num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=2,
                           no_rope_layers=[0, 1, 0], use_sliding_window=True, sliding_window=7,
                           tie_word_embeddings=False, rope_theta=2e6),
    "mistral-window": dict(kind="mistral", num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                           tie_word_embeddings=False, rope_theta=1e4, sliding_window=8, grads=True),
    "qwen3-window": dict(kind="qwen3", num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                         head_dim=8, tie_word_embeddings=True, rope_theta=1e6, use_sliding_window=True,
                         sliding_window=5, max_window_layers=1),
    "qwen3-moe": dict(kind="qwen3-moe", num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                      head_dim=8, moe_intermediate_size=24, num_experts=6, num_experts_per_tok=2,
                      norm_topk_prob=True, mlp_only_layers=[1], tie_word_embeddings=False, rope_theta=1e6,
                      grads=True),
    "qwen3-moe-sparse": dict(kind="qwen3-moe", num_hidden_layers=4, num_attention_heads=2,
                             num_key_value_heads=1, head_dim=16, moe_intermediate_size=16, num_experts=5,
                             num_experts_per_tok=3, norm_topk_prob=False, decoder_sparse_step=2,
                             tie_word_embeddings=True, rope_theta=1e4),
    "gemma3": dict(kind="gemma3", num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                   query_pre_attn_scalar=24, sliding_window=6, rope_theta=1e5, local_rope_theta=1e4, grads=True,
                   layer_types=["sliding_attention", "full_attention"] * 2,
                   rope=dict(rope_type="linear", factor=8.0)),
    "gemma3-bf16": dict(kind="gemma3", num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1,
                        head_dim=16, query_pre_attn_scalar=16, sliding_window=9, rope_theta=1e6,
                        local_rope_theta=1e4, sliding_window_pattern=3, dtype=torch.bfloat16, old=True),
}


def build(case):
    own = {k: v for k, v in case.items() if k not in ("kind", "dtype", "shard", "old", "grads", "rope_theta",
                                                      "local_rope_theta", "rope")}
    cfg, cls = KINDS[case["kind"]]
    rope = {"rope_type": "default", "rope_theta": case["rope_theta"], **case.get("rope", {})}
    if "local_rope_theta" in case:
        rope = {"full_attention": rope,
                "sliding_attention": {"rope_type": "default", "rope_theta": case["local_rope_theta"]}}
    cfg = cfg(**{**SHAPE, **own}, rope_parameters=rope)
    model = cls(cfg).float().eval()
    with torch.no_grad():  # fresh norms are 1 and biases 0, which would hide mistakes
        for name, p in model.named_parameters():
            if name.endswith("norm.weight"):
                p.copy_((case["kind"] != "gemma3") + 0.2 * torch.randn_like(p))
            elif name.endswith("bias"):
                p.copy_(0.3 * torch.randn_like(p))
            elif case["kind"] == "gemma3" and "embed" in name:  # which are multiplied by the root of their width
                p.copy_(torch.randn_like(p) * 0.2)
            else:
                p.copy_(torch.randn_like(p) * (0.5 if "embed" in name else 1.2 / p.shape[-1] ** 0.5))
    return model


def old_keys(path):
    """config.json as transformers 4 wrote it."""
    with open(path) as f:
        c = json.load(f)
    rope = c.pop("rope_parameters")
    if "sliding_attention" in rope:
        c["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
        c["sliding_window_pattern"] = c.pop("_sliding_window_pattern")
    c["rope_theta"] = rope.pop("rope_theta")
    c["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    c["torch_dtype"] = c.pop("dtype")
    c.pop("layer_types", None)
    with open(path, "w") as f:
        json.dump(c, f, indent=2)


def greedy(model, prompt):
    """The continuation, or None when a choice was nearly a tie."""
    new, cache, feed = [], None, prompt
    with torch.no_grad():
        for _ in range(NEW_TOKENS):
            out = model(torch.tensor([feed]), past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            top = out.logits[0, -1].topk(2)
            if float(top.values[0] - top.values[1]) < MIN_MARGIN:
                return None
            new.append(int(top.indices[0]))
            feed = new[-1:]
    return new


def prompt_and_greedy(model, length):
    while True:
        prompt = torch.randint(2, model.config.vocab_size, (length,)).tolist()
        new = greedy(model, prompt)
        if new:
            return prompt, new


def by_stored_name(grads):
    """Experts, which are one tensor of three dimensions in memory, by the names that they have in files."""
    out = {}
    for name, g in grads.items():
        if name.endswith("experts.gate_up_proj"):
            for i, both in enumerate(g):
                gate, up = both.chunk(2)
                out[name[:-len("gate_up_proj")] + "%d.gate_proj.weight" % i] = gate
                out[name[:-len("gate_up_proj")] + "%d.up_proj.weight" % i] = up
        elif name.endswith("experts.down_proj"):
            for i, down in enumerate(g):
                out[name[:-len("down_proj")] + "%d.down_proj.weight" % i] = down
        else:
            out[name] = g
    return out


def routers(model, seqs):
    """The auxiliary loss that transformers adds to a batch, and its gradient."""
    width = max(len(s) for s in seqs)
    ids = torch.stack([torch.nn.functional.pad(s, (0, width - len(s))) for s in seqs])
    mask = torch.stack([torch.arange(width) < len(s) for s in seqs]).long()
    model.zero_grad()
    loss = model(ids, attention_mask=mask, output_router_logits=True).aux_loss
    loss.backward()
    grads = by_stored_name({n: p.grad if p.grad is not None else torch.zeros_like(p)
                            for n, p in model.named_parameters()})
    facts = dict(aux_loss=loss.item(), aux_grad_norms={n: float(g.double().norm()) for n, g in sorted(grads.items())})
    return facts, {"aux_grad." + n: g for n, g in grads.items() if n.endswith("mlp.gate.weight")}


def expected(model, with_grads):
    seqs = [torch.randint(2, model.config.vocab_size, (n,)) for n in LENGTHS]
    tensors, terms = {}, []
    for i, s in enumerate(seqs):
        logits = model(s[None]).logits[0]
        lp = logits[:-1].log_softmax(-1).gather(1, s[1:, None])[:, 0]
        tensors["logits.%d" % i] = logits.detach()
        if len(s) > 1:
            tensors["log_probs.%d" % i] = lp.detach()
            terms.append(lp)
    loss = -torch.cat(terms).mean()
    loss.backward()
    grads = by_stored_name({n: p.grad for n, p in model.named_parameters()})
    if with_grads:
        tensors.update({"grad." + n: g for n, g in grads.items()})
    prompts, continuations = zip(*(prompt_and_greedy(model, n) for n in PROMPTS))
    facts = dict(sequences=[s.tolist() for s in seqs], loss=loss.item(),
                 grad_norms={n: float(g.double().norm()) for n, g in sorted(grads.items())},
                 prompts=prompts, greedy=continuations)
    if hasattr(model.config, "num_experts"):
        more, grads = routers(model, seqs)
        facts.update(more)
        tensors.update(grads)
    return facts, tensors


def main():
    root, wanted = sys.argv[1], sys.argv[2:]
    for number, (name, case) in enumerate(CASES.items()):
        if wanted and name not in wanted:
            continue
        torch.manual_seed(1000 + number)
        out = os.path.join(root, name)
        shutil.rmtree(out, ignore_errors=True)
        model = build(case).to(case.get("dtype", torch.float32))
        model.save_pretrained(out, max_shard_size=case.get("shard", "50GB"))
        if case.get("old"):
            old_keys(os.path.join(out, "config.json"))
        model = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32).eval()
        facts, tensors = expected(model, case.get("grads"))
        with open(os.path.join(out, "expected.json"), "w") as f:
            json.dump(facts, f)
            f.write("\n")
        save_file({k: v.float().contiguous() for k, v in tensors.items()},
                  os.path.join(out, "expected.safetensors"))
        print(name, "loss %.6f" % facts["loss"], "logit sd %.3f" % tensors["logits.0"].std(), sorted(os.listdir(out)))


if __name__ == "__main__":
    main()
