#!/usr/bin/env python3
"""Random conversations and what Jinja2 makes of them with each template of tests/golden/jinja:
make_jinja_vectors.py writes conversations.jsonl and renderings.jsonl there. A rendering is
kept as the FNV-1a hash of its UTF-8 text, or "" where Jinja2 raises. The templates are written
in the manner of published ones; none is a copy.

developer.jsonl has a conversation that begins with a developer's message: its rendering where
that has the message in it, else that of the same as the system's; null where both raise."""
import json
import pathlib
import random

HERE = pathlib.Path(__file__).parent / "jinja"
COUNT = 64
TEXTS = ["Hi", " Who built it?\n", "", "\n\nTwo lines\nhere \n", "caf\u00e9 \u4f60\u597d \U0001f600 \u00a0", "<think>\nwhy\n</think>\n\nso", "a</think>b</think> c",
         "<tool_response>\nr\n</tool_response>", "x <|im_end|> y", "{\"a\": [1, 2.5]}", "it's \"quoted\" \\ back", "/no_think please", "/think hard", "\tTab\r\nline",
         "def f(x):\n    return x % 2\n", "{{ not code }} {% if %}", "\u00c9T\u00c9 stra\u00dfe", "<answer> 42 </answer> done"]
REASONS = ["", "why not", "\n\nbecause\n", "step 1\nstep 2 \u2713"]
ARGUMENTS = [{}, {"q": "x", "n": 3}, {"f": [1, 2.5, 1e-7, 1e16, -0.0, 0.1, 1e22], "b": True, "z": None}, {"s": "\u00e9\"\\\n\t\u0001\u007f/<>&'", "o": {"a": None, "b": [True, False]}},
             "{\"q\": 1}", "plain \"text\"", {"Zeta": 1, "alpha": "two", "Mid": -3}]
TOOLS = [
    {"type": "function", "function": {"name": "search", "description": "Find <it> & \"more\".\nNow.", "parameters": {
        "type": "object", "required": ["query"], "properties": {
            "query": {"type": "string", "description": "what"}, "limit": {"type": "integer", "default": 3}, "kind": {"type": "string", "enum": ["a", "b"]},
            "tags": {"type": "array", "items": {"type": "string"}, "nullable": True}, "any": {"type": ["string", "null"]}}}}},
    {"type": "function", "function": {"name": "now", "description": "\u65f6\u95f4", "parameters": {"type": "object", "properties": {}}}},
    {"type": "function", "function": {"name": "run", "parameters": {"type": "object", "additionalProperties": False, "properties": {
        "spec": {"type": "object", "additionalProperties": {"type": "number"}, "properties": {"deep": {"type": "boolean"}}}, "one": {"oneOf": [{"type": "string"}, {"type": "number"}]}}}}},
]


def call(rng):
    inner = {"name": rng.choice(["search", "run", "now"]), "arguments": rng.choice(ARGUMENTS)}
    if rng.random() < 0.2:
        return inner
    return {"type": "function", "id": rng.choice(["abcdefghi", "call_1", "123456789"]), "function": inner}


def message(rng, role):
    m = {"role": role, "content": rng.choice(TEXTS)}
    if role == "assistant":
        if rng.random() < 0.3:
            m["reasoning_content"] = rng.choice(REASONS)
        if rng.random() < 0.25:
            m["tool_calls"] = [call(rng) for _ in range(rng.choice([1, 1, 1, 2, 0]))]
            m["content"] = rng.choice([None, "", "Looking.", m["content"]])
    if role == "tool":
        m["tool_call_id"] = "abcdefghi"
    if role == "user" and rng.random() < 0.08:
        m["content"] = [{"type": "text", "text": rng.choice(TEXTS)}, {"type": "image"}]
    return m


def conversation(rng):
    """Most are what templates expect: a system's message or none, turns in order, calls answered."""
    messages = [message(rng, "system")] if rng.random() < 0.4 else []
    for _ in range(rng.randint(1, 4)):
        messages.append(message(rng, "user"))
        answer = message(rng, "assistant")
        messages.append(answer)
        if answer.get("tool_calls"):
            messages += [message(rng, "tool") for _ in answer["tool_calls"]]
            if rng.random() < 0.7:
                messages.append(message(rng, "assistant"))
    if rng.random() < 0.6:
        messages.append(message(rng, "user"))
    if rng.random() < 0.15:
        rng.shuffle(messages)
    c = {"messages": messages, "bos_token": "<s>", "eos_token": "</s>"}
    c["add_generation_prompt"] = rng.random() < 0.6
    c["tools"] = rng.sample(TOOLS, rng.randint(1, 3)) if rng.random() < 0.35 else None
    c["documents"] = [{"title": "", "text": "doc \u00e9"}, {"title": "T", "text": "two"}] if rng.random() < 0.1 else None
    if rng.random() < 0.4:
        c["enable_thinking"] = rng.random() < 0.5
    return c


def fnv(text):
    h = 0xCBF29CE484222325
    for b in text.encode():
        h = (h ^ b) * 0x100000001B3 % 2**64
    return f"{h:016x}"


def developer(role, text):
    return {"messages": [{"role": role, "content": text}, {"role": "user", "content": "Who built it?"},
                         {"role": "assistant", "content": "Ann."}, {"role": "user", "content": "When?"}],
            "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>", "tools": None, "documents": None,
            "add_generation_prompt": True}


def render_developer(reference, env, template, text="Speak as a pirate."):
    """The rendering, and whether the template wrote the role itself."""
    given = reference.render(env, template, developer("developer", text))
    if given is not None and text in given:
        return given, True
    return reference.render(env, template, developer("system", text)), False


def templates():
    return sorted(HERE.glob("*.jinja"))


def main():
    import jinja_reference
    env, rng = jinja_reference.environment(), random.Random(20)
    conversations = [conversation(rng) for _ in range(COUNT)]
    with open(HERE / "conversations.jsonl", "w") as f:
        for c in conversations:
            f.write(json.dumps(c, separators=(",", ":")) + "\n")
    with open(HERE / "renderings.jsonl", "w") as f:
        for path in templates():
            # JSON has no tuples and one kind of text: what a run of the library is given.
            texts = [jinja_reference.render(env, path.read_bytes().decode(), json.loads(json.dumps(c))) for c in conversations]
            f.write(json.dumps({"template": path.name, "hashes": [fnv(t) if t is not None else "" for t in texts]}, separators=(",", ":")) + "\n")
            printed = sum(t is not None for t in texts)
            assert printed * 8 >= len(texts), (path.name, printed)
    with open(HERE / "developer.jsonl", "w") as f:
        for path in templates():
            text, own = render_developer(jinja_reference, env, path.read_bytes().decode())
            f.write(json.dumps({"template": path.name, "text": text, "own": own}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
