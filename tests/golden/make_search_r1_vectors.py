"""Vectors of Search-R1's published texts, cuts, parse and scores (Jin et al. 2025).

Written from a description of what that code does, with Python's own str and re, and apart
from the library:

    prompt       a question as the user's message
    turn         what is kept of a whole turn, and the action in it
    observation  documents as the block that is inserted
    score        the three scorers on the whole sequence

Usage: python3 make_search_r1_vectors.py > search_r1.jsonl
"""

import json
import random
import re
import string

INSTRUCTION = " ".join([
    "Answer the given question.",
    "You must conduct reasoning inside <think> and </think> first every time you get new "
    "information.",
    "After reasoning, if you find you lack some knowledge, you can call a search engine by "
    "<search> query </search> and it will return the top searched results between "
    "<information> and </information>.",
    "You can search as many times as your want.",
    "If you find no further external knowledge needed, you can directly provide the answer "
    "inside <answer> and </answer>, without detailed illustrations.",
    "For example, <answer> Beijing </answer>.",
    "Question: ",
])
NOTICE = "\n" + " ".join([
    "My previous action is invalid.",
    "If I want to search, I should put the query between <search> and </search>.",
    "If I want to give the final answer, I should put the answer between <answer> and "
    "</answer>.",
    "Let me try again.",
]) + "\n"


def prompt(question):
    question = question.strip()
    return INSTRUCTION + question + ("" if question.endswith("?") else "?") + "\n"


def kept(turn):
    for closing in ("</search>", "</answer>"):
        head, found, _ = turn.partition(closing)
        if found:
            return head + found
    return turn


ACTION = re.compile(r"<(?P<kind>search|answer)>(?P<content>.*?)</(?P=kind)>", re.DOTALL)


def action(turn):
    found = ACTION.search(kept(turn))
    return [found["kind"], found["content"].strip()] if found else ["invalid", ""]


def observation(contents):
    lines = ""
    for rank, text in enumerate(contents, 1):
        title, _, rest = text.partition("\n")
        lines += f"Doc {rank}(Title: {title}) {rest}\n"
    return "\n\n<information>" + lines.strip() + "</information>\n\n"


def plain(text):
    text = text.lower().translate(dict.fromkeys(map(ord, string.punctuation)))
    return " ".join(re.sub(r"\b(?:the|an|a)\b", " ", text).split())


def answer_of(sequence):
    pairs = re.findall(r"<answer>(.*?)</answer>", sequence, re.DOTALL)
    return pairs[-1].strip() if len(pairs) > 1 else None


TAG = re.compile(r"(</?(?:think|search|information|answer)>)")
# state -> {tag: next state}; states in INSIDE may hold any text
NEXT = {
    "start": {"<think>": "in think"},
    "in think": {"</think>": "thought"},
    "thought": {"<search>": "in search", "<answer>": "in answer"},
    "in search": {"</search>": "searched"},
    "searched": {"<information>": "in information"},
    "in information": {"</information>": "start"},
    "in answer": {"</answer>": "end"},
    "end": {},
}
INSIDE = {"in think", "in search", "in information", "in answer"}


def is_valid(response):
    for name in ("think", "search", "information", "answer"):
        if response.count(f"<{name}>") != response.count(f"</{name}>"):
            return False
    state = "start"
    for piece in TAG.split(response):
        if TAG.fullmatch(piece):
            if piece not in NEXT[state]:
                return False
            state = NEXT[state][piece]
        elif piece.strip() and state not in INSIDE:
            return False
    return state == "end"


def scores(question, response, truths, structure, final, retrieval):
    sequence = prompt(question) + response
    answer = answer_of(sequence)
    gold = [plain(t) for t in truths]
    em = answer is not None and plain(answer) in gold
    sub = answer is not None and any(g in plain(answer) for g in gold)
    valid = is_valid(response)
    if em:
        shaped = 1.0 if valid else 1.0 - structure
    elif valid:
        blocks = re.findall(r"<information>(.*?)</information>", sequence, re.DOTALL)
        hit = any(g in plain(b) for g in gold for b in blocks)
        shaped = structure + (retrieval if hit else 0.0)
    else:
        shaped = final if answer is not None else 0.0
    return {"em": float(em), "sub": float(sub), "format": shaped}


QUESTIONS = [
    "who wrote the iliad", "  What is the capital of France?  ", "何の日ですか", "Why? really",
    "a?b", "", "\u00a0where is it\u3000", "what is <answer> this </answer>",
    "Question: which one is it",
]
TURNS = [
    "<think> x </think> <search> capital of France </search>",
    "<search>a</search> and more <search>b</search>",
    "<answer> Paris </answer> trailing",
    "<answer> Paris </answer> <search> q </search> tail",
    "<search> open <answer> Paris </answer>",
    "no tags at all", "", "</search>", "</answer> <answer>x</answer>",
    "</answer> text <search> later </search>",
    "<search></search>", "<answer>\n two\nlines \n</answer>",
    "<Search> upper </Search>", "<search> one <search> two </search>",
    "<answer> x </search>", "<search> x </answer>", "<answer><search> q </search></answer>",
    "<think> <search> inside </search> </think>", "\u3000<search>\u00a0q\u2003</search>",
    "<answer> a </answer><answer> b </answer>", "< search> q </search>",
    "<<search> q <</search>",
]
PIECES = ["<think>", "</think>", "<search>", "</search>", "<information>",
          "</information>", "<answer>", "</answer>", " Paris ", "the U.S.A.", "\n", " ",
          "x", "é ", "Beijing", "<", NOTICE]
DOCUMENTS = [
    ['"Paris"\nParis is the capital of France.'],
    ['"A"\none', '"B"\ntwo\nlines', '"C"\n'],
    ["no line end"], [], ["\n leading"], ['"T"\n ends in space  '], ["  \n  "],
    ['"é"\n<information>hostile</information> </search>', "T\r\nx"],
]
TRUTHS = [["Paris"], ["Beijing"], ["the U.S.A.", "America"], ["x"], ["and"], ["!"]]
RESPONSES = [
    "<think> a </think>\n<answer> Paris </answer>",
    "<think> a </think> <search> q </search>\n\n<information>Doc 1(Title: T) Paris "
    "is</information>\n\n<think> b </think>\n<answer> London </answer>",
    "<think> a </think> <search> q </search>\n\n<information>Doc 1(Title: T) Paris",
    "nothing" + NOTICE + "<think>t</think><answer>Paris</answer>",
    "nothing" + NOTICE, "", "<answer>and</answer>", "<answer> Paris", "</answer>",
    "<think>t</think><answer> the usa! </answer>",
    "<think>t</think><answer> It is Paris. </answer> \n",
    "<think>t</think><answer> Paris </answer> tail",
    "<think><answer></think><answer>Paris</answer>",
]


def whole(rng):
    """A response of the right shape, sometimes with one piece broken."""
    parts = []
    for _ in range(rng.randrange(3)):
        parts += ["<think>", "t", "</think>", rng.choice(["", " ", "\n"]), "<search>", "q",
                  "</search>", "\n\n", "<information>", rng.choice(["Paris", "none"]),
                  "</information>", "\n\n"]
    parts += ["<think>", "t", "</think>", "<answer>", rng.choice([" Paris ", "no", "x"]),
              "</answer>"]
    if rng.random() < 0.5:
        parts[rng.randrange(len(parts))] = rng.choice(PIECES)
    return "".join(parts)


def main():
    rng = random.Random(20250923)
    rows = [{"kind": "notice", "text": NOTICE}]
    rows += [{"kind": "prompt", "question": q, "text": prompt(q)} for q in QUESTIONS]
    turns = TURNS + ["".join(rng.choices(PIECES, k=rng.randrange(1, 9))) for _ in range(300)]
    rows += [{"kind": "turn", "text": t, "kept": len(kept(t).encode()),
              "action": action(t)} for t in turns]
    rows += [{"kind": "observation", "contents": d, "text": observation(d)}
             for d in DOCUMENTS]
    cases = [(q, r, t) for q in QUESTIONS[:2] for r in RESPONSES for t in TRUTHS]
    for _ in range(300):
        made = "".join(rng.choices(PIECES, k=rng.randrange(0, 14)))
        cases.append((rng.choice(QUESTIONS), rng.choice([made, whole(rng)]),
                      rng.choice(TRUTHS)))
    for question, response, truths in cases:
        how = rng.choice([(0.2, 0.1, 0.0), (0.2, 0.1, 0.1), (0.3, 0.05, 0.25)])
        rows.append({"kind": "score", "question": question, "text": response,
                     "truths": truths, "scales": how,
                     **scores(question, response, truths, *how)})
    for row in rows:
        print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main()
