#!/usr/bin/env python3
"""Write conversations.jsonl: what the rewards of multi-turn GRPO are in plain Python.

    make_conversation_vectors.py > conversations.jsonl

Each line is a conversation: "turns" of [what the policy said, what came back or null,
whether that has result tags, how the call went], "truths", and each reward's value; and
turn by turn "execution_turns" and "results_turns". How a call went: 0 ok, 2 timed out,
3 broken (SR1_ACTION_*). Written from the published descriptions of these rewards
(regular expressions over messages), not from the C code.
"""
import json
import random
import re

FIELDS = [["reasoning"], ["tool", "answer"]]


def parse(tag, text):
    m = re.search(rf"<{tag}>\s*(.*?)\s*</{tag}>", text, re.DOTALL)
    return m.group(1).strip() if m else None


def attempts(turns):
    """(turn, success) of each message with a tool call that something came back to."""
    out = []
    for k, (said, back, tagged, how) in enumerate(turns):
        if parse("tool", said) is None or back is None or how in (2, 3):
            continue
        result = back.strip() if tagged else None  # tags inside a block mean nothing
        out.append((k, result is not None and not result.startswith("Error:")))
    return out


def tool_execution(turns):
    a = attempts(turns)
    return 0.2 * (sum(ok for _, ok in a) / len(a)) if a else 0.0


def first_result(turns):
    for k, (said, back, tagged, how) in enumerate(turns):
        if back is not None and tagged:
            return k, back.strip()
    return None, None


def answer_in_results(turns, truths):
    k, result = first_result(turns)
    if result is None:
        return 0.0
    return 0.5 if any(t.lower() in result.lower() for t in truths) else 0.0


def last_answer(turns):
    for said, *_ in reversed(turns):
        answer = parse("answer", said)
        if answer is not None:
            return answer
    return None


def answer_present(turns, truths):
    a = last_answer(turns)
    return 0.5 if a is not None and any(t.lower() in a.lower() for t in truths) else 0.0


def exact(turns, truths):
    a = last_answer(turns)
    if a is None:
        return 0.0
    return 1.0 if a.lower().strip() in [t.lower().strip() for t in truths] else 0.0


def occurs(tag, text):
    return text.count(f"<{tag}>"), text.count(f"</{tag}>")


def message_format(text):
    sets = sum(any(sum(occurs(t, text)) for t in alternatives) for alternatives in FIELDS)
    whole = any(parse(t, text) is not None for ts in FIELDS for t in ts)
    score = 0.0
    if whole:
        score += 0.4 * (sets / len(FIELDS))
    score += 0.2
    if any(text.strip().startswith(f"<{t}>") for t in FIELDS[0]):
        score += 0.2
    if any(text.strip().endswith(f"</{t}>") for t in FIELDS[-1]):
        score += 0.2
    return score


def message_xml(text):
    score, used = 0, 0
    for tag in (t for ts in FIELDS for t in ts):
        opened, closed = occurs(tag, text)
        if opened or closed:
            used += 1
            score += 1 - abs(opened - 1)
            score += 1 - abs(closed - 1)
    return score / (2 * used) if used else 0.0


def mean(f, turns):
    scores = [f(said) for said, *_ in turns]
    return sum(scores) / len(scores) if scores else 0.0


def emit(turns, truths):
    execution, results = [0.0] * len(turns), [0.0] * len(turns)
    for k, ok in attempts(turns):
        execution[k] = float(ok)
    if answer_in_results(turns, truths) > 0:
        results[first_result(turns)[0]] = 1.0
    k, _ = first_result(turns)
    print(json.dumps({
        "turns": turns, "truths": truths, "result_turn": -1 if k is None else k,
        "tool_execution": tool_execution(turns),
        "answer_in_results": answer_in_results(turns, truths),
        "answer_present": answer_present(turns, truths),
        "mt_exact_match": exact(turns, truths),
        "mt_format": 0.2 * mean(message_format, turns),
        "xml": max(0.0, 0.2 * mean(message_xml, turns)),
        "execution_turns": execution, "results_turns": results,
    }, ensure_ascii=False, separators=(",", ":")))


GOOD = '<reasoning>find it</reasoning>\n<tool>{"name": "wiki_search"}</tool>'
DONE = "<reasoning>1889</reasoning>\n<answer> 1889 </answer>"
FIXED = [
    ([[GOOD, "Built in 1889.", 1, 0], [DONE, None, 0, 0]], ["1889"]),
    ([[GOOD, "Error: unknown tool", 1, 0], [GOOD, "in 1889", 1, 0], [DONE, None, 0, 0]],
     ["1889"]),
    ([[GOOD, "Error: nothing came", 0, 0], [DONE, None, 0, 0]], ["1889"]),
    ([[GOOD, "", 1, 2], [GOOD, "in 1889", 1, 0], [DONE, None, 0, 0]], ["1889"]),
    ([[GOOD, "", 1, 3]], ["1889"]),
    ([[GOOD, None, 0, 0]], ["1889"]),
    ([["just words", "Error: neither", 0, 0], [DONE, None, 0, 0]], ["1889"]),
    ([["", "Error: neither", 0, 0]], ["x"]),
    ([[DONE, None, 0, 0]], ["eighteen", "1889 AD", "1889"]),
    ([["<answer>ΟΔΟΣ</answer>", None, 0, 0]], ["οδος"]),
    ([["<answer>a</answer> <answer>b</answer>", None, 0, 0]], ["b"]),
    ([["<answer>b", None, 0, 0]], ["b"]),
    ([["</answer><answer>b</answer>", None, 0, 0]], ["b"]),
    ([["<answer></answer>", None, 0, 0]], ["b"]),
    ([["<answer>The B.</answer>", None, 0, 0]], ["b"]),
    ([[GOOD, "<result>1889</result>", 0, 0], [DONE, None, 0, 0]], ["1889"]),
    ([[GOOD, "x </result> 1889 <result>", 1, 0], [DONE, None, 0, 0]], ["1889"]),
    ([["<tool>x</tool><tool>y</tool><tool>z</tool><tool>w</tool>", "r", 1, 0]], ["r"]),
]
PIECES = ["<reasoning>", "</reasoning>", "<tool>", "</tool>", "<answer>", "</answer>",
          "<result>", " ", "\n", "Paris", "paris", "İzmir", "a", "<", "</", ">", "\u00a0"]
BACK = ["Error: bad", "error: fine", "Paris is big", "", "The PARIS of", "İZMIR", " x "]
TRUTHS = ["Paris", " paris ", "izmir", "İzmir", "x", "nothing", "A"]


def random_conversation(rng):
    turns = []
    for k in range(rng.randint(1, 5)):
        said = "".join(rng.choice(PIECES) for _ in range(rng.randint(0, 12)))
        if rng.random() < 0.5:
            said = rng.choice([GOOD, DONE, "<reasoning>x</reasoning>"]) + said
        back = rng.choice(BACK)
        tagged = int(rng.random() < 0.8)
        if not tagged and not back:
            back = "Error: plain"
        how = rng.choice([0, 0, 0, 0, 2, 3]) if tagged else 0
        turns.append([said, back, tagged, how])
    if rng.random() < 0.7:
        turns[-1] = [turns[-1][0], None, 0, 0]
    return turns, rng.sample(TRUTHS, rng.randint(1, 3))


def main():
    rng = random.Random(4)
    for turns, truths in FIXED:
        emit(turns, truths)
    for _ in range(600):
        emit(*random_conversation(rng))


if __name__ == "__main__":
    main()
