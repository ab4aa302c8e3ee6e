"""Critiques, revisions and what they are worth: critics.py [KEY=VALUE ...]

Who solves, criticises and revises is a function here, from conversations to their next
messages; critique.Generator.model and critique.Generator.remote are models. Programs run in the
sandbox (docs/sandbox.md); sandbox_isolation=none runs them without."""

import sys

from searchr1 import Config, code, critique

PROBLEM = {
    "id": "add",
    "problem": "Write add(a, b) that adds two numbers.",
    "tests": ["assert add(1, 2) == 3", "assert add(-1, 1) == 0"],
}
RIGHT, WRONG = (
    f"```python\ndef add(a, b):\n    return a {sign} b\n```" for sign in "+-"
)


def solve(conversations):  # the first of several answers is wrong
    return [WRONG if c.sample == 0 else RIGHT for c in conversations]


def criticise(conversations):
    wrong = ["a - b" in c.messages[-1][1] for c in conversations]
    return [
        "It subtracts.\nOverall judgment: Incorrect" if w else "Overall judgment: Correct"
        for w in wrong
    ]


def revise(conversations):
    return [RIGHT for _ in conversations]


config = Config(execution_score="pass_rate")
for pair in sys.argv[1:]:
    config.set(pair)
problems = code.Problems(rows=[PROBLEM])
with critique.RevisionTrees(problems, code.Checker(config), solve, criticise, revise) as trees:
    trees.expand(1, 2, 1)  # two answers; a critique and a revision of each
    before, after = trees.scores(0), trees.scores(1)
    print(f"pass@1 {before.pass_at_1:.1f}, after revision {after.pass_at_1:.1f}")
    print(f"judgements that are true: {after.accuracy:.1f}")
    for node in trees:
        print(node.kind, node.judgement, "passes" if node.passed else "")
