#!/usr/bin/env python3
"""check.py brief|full FOLDER - what a run of the quick start must have reached.

brief: the cut runs from end to end and its warm start learns the form.
full: the figures that the quick start promises. QUICKSTART_TIME=1 holds it to its time too.
"""
import json
import os
import sys

STAGES = {"start", "sft", "grpo", "grpo_without_search"}
BY_STAGE = ["exact_match", "exact_match_one_hop", "exact_match_two_hop", "format"]
failures = 0


def check(name, value, holds):
    global failures
    failures += not holds
    print(f"{'ok' if holds else 'FAILED'}: {name}: {value}")


def mean(values):
    return sum(values) / len(values)


def check_summary(summary):
    for key in BY_STAGE:
        check(f"{key} of every stage", sorted(summary[key]), set(summary[key]) == STAGES)
    for kind in ("one_hop", "two_hop"):
        stages = summary["searches_per_question"][kind]
        check(f"searches, {kind}", sorted(stages), set(stages) == STAGES)
    check("seconds", summary["seconds"], summary["seconds"] > 0)


def check_brief(folder, summary):
    with open(os.path.join(folder, "clean", "metrics.jsonl")) as lines:
        losses = [json.loads(line)["loss"] for line in lines]
    tenth = max(1, len(losses) // 10)
    first, last = mean(losses[:tenth]), mean(losses[-tenth:])
    form = summary["format"]
    check("warm-start loss, first and last tenth", f"{first:.3f} {last:.3f}",
          last < 0.5 * first)
    check("well-formed after the warm start", form["sft"], form["sft"] >= 0.8)
    check("well-formed at the start", form["start"], form["start"] <= 0.1)
    check("brief", summary["brief"], summary["brief"] is True)


def check_full(summary):
    exact = summary["exact_match"]
    one, two = summary["exact_match_one_hop"], summary["exact_match_two_hop"]
    searches = summary["searches_per_question"]["two_hop"]
    check("exact match", exact["grpo"], exact["grpo"] >= 0.90)
    check("one hop", one["grpo"], one["grpo"] >= 0.95)
    check("two hops", two["grpo"], two["grpo"] >= 0.85)
    gain = exact["grpo"] - exact["sft"]
    check("what GRPO adds", round(gain, 4), gain >= 0.25)
    deaf = exact["grpo_without_search"]
    check("exact match without search", deaf, deaf < 0.10)
    check("searches, two hops, before and after", (searches["sft"], searches["grpo"]),
          searches["grpo"] > searches["sft"])
    if os.environ.get("QUICKSTART_TIME") == "1":
        check("seconds", summary["seconds"], summary["seconds"] <= 420)


def main():
    kind, folder = sys.argv[1:]
    with open(os.path.join(folder, "summary.json")) as f:
        summary = json.load(f)
    check_summary(summary)
    if kind == "brief":
        check_brief(folder, summary)
    else:
        check_full(summary)
    sys.exit(1 if failures else 0)


main()
