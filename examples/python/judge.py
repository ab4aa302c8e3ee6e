#!/usr/bin/env python3
"""A language model judges answers; beside it, the exact match.

    python3 examples/python/judge.py http://127.0.0.1:8000/v1

The address is that of any server of OpenAI's API (vLLM, llama.cpp, Ollama, a service). In
training the same judge is the reward `judge`:

    rewards: format,judge
    judge_base_url: http://127.0.0.1:8000/v1
"""
import sys

from searchr1 import Judge, reward

ANSWERS = [
    ("How tall is the Eiffel Tower?", "330 m", ["330 metres"]),
    ("How tall is the Eiffel Tower?", "300 metres", ["330 metres"]),
    ("Who wrote Hamlet?", "William Shakespeare", ["Shakespeare", "William Shakespeare"]),
]

address = sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__)
with Judge(address, max_requests=100) as judge:
    scores = judge.score(ANSWERS)
    for (question, answer, truths), score in zip(ANSWERS, scores):
        exact = reward.exact_match(answer, truths)
        print(f"{question} {answer}: judge {score:.2f}, exact match {exact:.0f}")
    print(f"{judge.counters['tokens']} tokens")
