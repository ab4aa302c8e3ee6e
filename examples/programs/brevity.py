#!/usr/bin/env python3
"""A reward as a program: short answers are worth more.

    sr1-train train.yaml reward_programs=examples/programs/brevity.py rewards=answer,brevity \\
        reward_weights=1,0.1

Each line of standard input asks for the scores of a batch of trajectories; each line of
standard output answers one. docs/formats.md has what an item holds."""
import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    scores = [1 / (1 + len(item["answer"].split())) for item in request["params"]["items"]]
    print(json.dumps({"id": request["id"], "result": scores}), flush=True)
