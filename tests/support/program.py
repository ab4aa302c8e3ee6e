#!/usr/bin/env python3
"""A program of a user's for tests: reward, environment and search engine in one, which does
what the texts tell it. While the file that SR1_TEST_HANG names is there, it does not answer."""
import json
import os
import sys
import time

episodes = {}


def score(params):
    return [None if "unknown" in item["query"] else
            len(item["answer"]) + 100 * (item["ground_truths"][0] in item["answer"])
            for item in params["items"]]


def search(params):
    return [None if query == "fail" else [] if query == "nothing" else
            [{"id": f"d{k}", "title": query, "contents": f"fact {k}"} for k in range(5)]
            for query in params["queries"]]


def act(params):
    answers = []
    for action in params["actions"]:
        said = action["text"]
        state = episodes.get(action["episode"])
        if said == "fail":
            answers.append({"status": "error"})
        elif said == "win":
            answers.append({"text": "won", "reward": 0.5, "success": True, "done": True})
        elif said == "count":
            answers.append(f"{len(episodes)} begun, {state['query'] if state else 'unknown'}")
        else:
            answers.append(said.upper())
    return answers


for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params", {})
    text = json.dumps(params)
    if method == "begin":
        episodes[params["episode"]] = params
    elif method == "finish":
        episodes.pop(params["episode"], None)
    if "id" not in message:
        continue
    while os.path.exists(os.environ.get("SR1_TEST_HANG", "")):
        time.sleep(0.05)
    if "please die" in text:
        sys.exit("as you wish")
    if "please sleep" in text:
        time.sleep(60)
    if "please err" in text:
        reply = {"error": {"code": 1, "message": "I cannot"}}
    elif "please miscount" in text:
        reply = {"result": []}
    else:
        reply = {"result": {"score": score, "search": search, "act": act}[method](params)}
    print(json.dumps({"id": message["id"], **reply}), flush=True)
