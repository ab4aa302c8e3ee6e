#!/usr/bin/env python3
"""Makes random conversations and their text by a chat template, run by Jinja2 as
transformers runs it: python3 make_chat_vectors.py TEMPLATE.jinja COUNT SEED OUT.jsonl

A fifth argument "plain" leaves out tools and calls, which ChatML has no place for.
Templates are those of tests/fixtures/chat_templates; tests/golden/tokenizer keeps the
cases of one template of each family."""
import json
import random
import sys

import jinja_reference

CONTENTS = ["", "Hi", "\n\nHi\n", " x ", "<think>\na\n</think>\n\nb", "a</think>b</think>c",
            "<think>a<think>b</think>\n\n", "</think>", "<tool_response>\nr\n</tool_response>",
            "<tool_response>", "x <|im_end|> y", "\u00e9 \u4f60\u597d", "\n", "{\"a\": 1}"]
REASONS = ["", "why", "\n\nwhy\n", "\n"]
ARGUMENTS = [{}, {"q": "x", "n": 3}, {"f": [1, 2.5, 1e-7, 1e16, 123456789012345680.0, -0.0, 0.1, 1e22]},
             {"s": "\u00e9\"\\\n\t\x01\x7f/", "o": {"a": None, "b": [True, False]}}, "{\"q\": 1}", "plain \"text\""]
TOOLS = [{"type": "function", "function": {"name": "search", "description": "Find <it> & \"more\".",
                                           "parameters": {"type": "object", "properties": {}}}},
         {"name": "run", "limit": 0.5}]


def call(rng):
    inner = {"name": rng.choice(["search", "run"]), "arguments": rng.choice(ARGUMENTS)}
    return {"type": "function", "function": inner} if rng.random() < 0.7 else inner


def message(rng, first, plain):
    role = rng.choice(["user", "assistant", "assistant", "tool", "system"] + ["system"] * (3 * first))
    m = {"role": role, "content": rng.choice(CONTENTS)}
    if role == "assistant" and not plain:
        if rng.random() < 0.3:
            m["reasoning_content"] = rng.choice(REASONS)
        if rng.random() < 0.4:
            m["tool_calls"] = [call(rng) for _ in range(rng.randint(0, 2))]
    return m


def main(template, count, seed, out, plain=""):
    rng = random.Random(int(seed))
    env = jinja_reference.environment()
    source = open(template).read()
    made = 0
    with open(out, "w") as f:
        while made < int(count):
            c = {"messages": [message(rng, i == 0, plain) for i in range(rng.randint(1, 6))]}
            if rng.random() < 0.4 and not plain:
                c["tools"] = rng.sample(TOOLS, rng.randint(0, 2))
            c["add_generation_prompt"] = rng.random() < 0.5
            if rng.random() < 0.5:
                c["enable_thinking"] = rng.random() < 0.5
            c["text"] = jinja_reference.render(env, source, c)
            if c["text"] is None:  # the template refuses some conversations
                continue
            made += 1
            f.write(json.dumps(c, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
