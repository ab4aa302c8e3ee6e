#!/usr/bin/env python3
"""ctrl_figures.py FILE - what sr1-eval --task ctrl --json wrote to FILE as tools/common/recipe.py
reads tests: shares of problems that pass before and after the last revision, gained and lost,
and how often judgements of the first answers are true."""
import json
import sys

with open(sys.argv[1]) as f:
    layers = json.load(f)["layers"]
first, revised, last = layers[0], layers[1], layers[-1]
json.dump({"all": {
    "rows": last["problems"],
    "before": first["pass_at_1"],
    "after": last["pass_at_1"],
    "gained": last["gained"],
    "lost": last["lost"],
    "judged_right": revised["accuracy"],
    "f1": revised["f1"],
}}, sys.stdout, indent=2)
print()
