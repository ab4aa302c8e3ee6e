#!/usr/bin/env python3
"""Write reference_mix.json: weights of a reference that moves towards the policy, by TRL's
SyncRefModelCallback.

    make_reference_vectors.py > reference_mix.json   (peer_sources.py: what it needs)

"policy" and "reference" are exact in bf16; "fp32" and "bf16" is what the reference becomes
in each type.
"""
import json

import numpy as np
import torch
from peer_sources import TRL, functions

ALPHA = 0.6  # TRL's ref_model_mixup_alpha


def moved(policy, reference, dtype):
    own = torch.nn.ParameterList([torch.tensor(policy, dtype=dtype)])
    target = torch.nn.ParameterList([torch.tensor(reference, dtype=dtype)])
    functions("trl", "trainer/callbacks.py", ["_sync_target_model"])._sync_target_model(
        own, target, ALPHA)
    return target[0].detach().double().tolist()


def main():
    rng = np.random.default_rng(42)
    policy, reference = (
        torch.tensor(rng.normal(size=24) * 0.05).bfloat16().double().tolist() for _ in range(2))
    print(json.dumps({"by": TRL, "alpha": ALPHA, "policy": policy, "reference": reference,
                      "fp32": moved(policy, reference, torch.float32),
                      "bf16": moved(policy, reference, torch.bfloat16)}))


if __name__ == "__main__":
    main()
