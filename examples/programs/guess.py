#!/usr/bin/env python3
"""An environment as a program: the policy guesses a number from 1 to 9.

    sr1-train train.yaml environment=program environment_program=examples/programs/guess.py \\
        rewards=environment

begin and finish tell of trajectories and have no number to answer; act asks for the answers
to a batch of actions. The number follows from the trajectory's seed."""
import json
import sys

numbers = {}


def answer(action):
    wanted = numbers.get(action["episode"])
    if wanted is None:  # the program was started anew in the midst of the trajectory
        return None
    said = action["text"].strip()
    if not said.isdigit():
        return {"text": "Error: guess a number from 1 to 9.", "executed": False}
    if int(said) == wanted:
        return {"text": "Right.", "reward": 1.0, "success": True, "done": True}
    return "Higher." if int(said) < wanted else "Lower."


for line in sys.stdin:
    request = json.loads(line)
    params = request["params"]
    if request["method"] == "begin":
        numbers[params["episode"]] = 1 + params["seed"] % 9
    elif request["method"] == "finish":
        numbers.pop(params["episode"], None)
    else:
        result = [answer(action) for action in params["actions"]]
        print(json.dumps({"id": request["id"], "result": result}), flush=True)
