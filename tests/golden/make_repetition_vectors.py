#!/usr/bin/env python3
"""Write repetition.jsonl: token ids, and the penalty that TRL's
get_repetition_penalty_reward gives them.

    make_repetition_vectors.py > repetition.jsonl      (peer_sources.py: what it needs)
"""
import json
import random

from peer_sources import TRL, functions

PENALTY = functions("trl", "rewards/other_rewards.py", ["_RepetitionPenalty"])._RepetitionPenalty


def make_ids(rng):
    ids = rng.choices(range(rng.choice([1, 2, 5, 300])), k=rng.randint(0, 40))
    return ids * rng.choice([1, 1, 3])


def main():
    rng = random.Random(42)
    for _ in range(150):
        ids, n, most = make_ids(rng), rng.randint(1, 6), rng.choice([-1.0, -0.5, -0.3, 0.0])
        print(json.dumps({"by": TRL, "ids": ids, "n": n, "max_penalty": most,
                          "score": PENALTY(n, most)([ids])[0]}))


if __name__ == "__main__":
    main()
