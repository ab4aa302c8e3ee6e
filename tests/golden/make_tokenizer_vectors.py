#!/usr/bin/env python3
"""Makes the tokenizer test vectors with the reference library (PyPI tokenizers 0.23.3).

    python3 tests/golden/make_tokenizer_vectors.py keep   [TOKENIZER_FOLDER]
    python3 tests/golden/make_tokenizer_vectors.py random TOKENIZER_JSON COUNT SEED OUT.jsonl
    python3 tests/golden/make_tokenizer_vectors.py splits TOKENIZER_JSON COUNT SEED OUT.jsonl
    python3 tests/golden/make_tokenizer_vectors.py merges TRAINED_FOLDER CORPUS

keep writes the vectors kept in tests/golden/tokenizer: 2,000 random strings over the small
vocabulary there (sr1_tokenizer_train over the lines of corpus.txt, vocab_size 1000) and, given the folder of the real Qwen3 tokenizer,
2,000 over that one. random writes any number, for a longer comparison:
    SR1_TOKENIZER=FOLDER SR1_TOKENIZER_CASES=OUT.jsonl test-parity
splits gives any vocabulary the pre-tokenizers of Llama 3, SmolLM2, Mistral (Tekken) and one that
keeps runs of digits together, in turn, each in the form that their tokenizer.json has, and added
tokens that are matched in normal text or take the white space beside them; keep does it for
tests/golden/tokenizer/splits.jsonl. A line with "family" says which, and what it replaces.
merges checks that the reference's trainer learns the same merges from the lines of CORPUS as
sr1_tokenizer_train did (min_frequency 2).
"""
import json
import os
import random
import re
import sys

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

FIXTURES = os.path.join(os.path.dirname(__file__), "tokenizer")
WORDS = """the The of and to in is you that it he was for on are as with his they I at be
this have from or one had by word but not what all were we when your can said there use an
each which she do how their if will up other about out many then them these so some her would
make like him into time has look two more write go see number no way could people my than
first water been call who oil its now find Beijing search answer information""".split()
SPACES = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\r", "\f", "\v", "\x85",
          "\xa0", "\u1680", "\u180e", "\u2003", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000",
          "\u200b", "\ufeff", "\x1c", "\x00"]
QUOTED = ["'s", "'S", "'t", "'re", "'RE", "'ve", "'m", "'ll", "'LL", "'d", "'\u017f", "\u2019s",
          "'\u212a", "'st", "'Re", "'x"]
ADDED = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>",
         "</tool_call>", "<tool_response>", "<|im_", "<thi", "<|im_end|", "<<think>>",
         "<|im_start|><|im_end|>"]
RANGES = [(0x20, 0x7e), (0xa0, 0x24f), (0x300, 0x36f), (0x370, 0x5ff), (0x600, 0x8ff),
          (0x900, 0xdff), (0xe00, 0x11ff), (0x1200, 0x1fff), (0x2000, 0x2bff),
          (0x2e80, 0x33ff), (0x4e00, 0x9fff), (0xac00, 0xd7ff), (0xe000, 0xffff),
          (0x10000, 0x11fff), (0x12000, 0x1ffff), (0x1f300, 0x1faff), (0x20000, 0x323af),
          (0xe0000, 0xe01ff), (0x10fff0, 0x10ffff)]
MARKS = ([chr(c) for c in range(0x300, 0x370)] +
         [chr(c) for r in ((0x483, 0x487), (0x591, 0x5bd), (0x610, 0x61a), (0x64b, 0x65f),
                           (0x8ca, 0x8ff), (0x93c, 0x94d), (0x1ab0, 0x1ace), (0x1dc0, 0x1dff),
                           (0x20d0, 0x20f0), (0x302a, 0x302f), (0x3099, 0x309a),
                           (0x1161, 0x1175), (0x11a8, 0x11c2), (0xfe20, 0xfe2f),
                           (0x11930, 0x11943), (0x1d165, 0x1d172), (0x1e130, 0x1e136))
          for c in range(r[0], r[1] + 1)])


def character(rng):
    low, high = rng.choice(RANGES)
    c = rng.randint(low, high)
    return "\ufffd" if 0xd800 <= c <= 0xdfff else chr(c)


def piece(rng):
    kind = rng.randrange(12)
    if kind < 3:
        return rng.choice(WORDS)
    if kind < 5:
        return rng.choice(SPACES) * rng.choice([1, 1, 1, 2, 3, 7])
    if kind == 5:
        return rng.choice(QUOTED)
    if kind == 6:
        return rng.choice(ADDED)
    if kind == 7:
        return str(rng.randrange(10 ** rng.randint(1, 12)))
    if kind == 8:
        return character(rng) + "".join(rng.choices(MARKS, k=rng.randint(1, 6)))
    if kind == 9:
        return "".join(rng.choices("!?.,;:-_/\\\"'()[]{}<>|@#$%^&*+=~`", k=rng.randint(1, 6)))
    return "".join(character(rng) for _ in range(rng.randint(1, 8)))


def text(rng, longest):
    return "".join(piece(rng) for _ in range(rng.randint(0, rng.choice([2, 4, longest]))))


def case(tokenizer, string):
    tokenizer.encode_special_tokens = False
    ids = tokenizer.encode(string, add_special_tokens=False).ids
    tokenizer.encode_special_tokens = True
    as_text = tokenizer.encode(string, add_special_tokens=False).ids
    tokenizer.encode_special_tokens = False
    decoded = tokenizer.decode(ids, skip_special_tokens=False)
    skipped = tokenizer.decode(ids, skip_special_tokens=True)
    record = {"text": string, "ids": ids, "decoded": decoded}
    if as_text != ids:
        record["ids_special_as_text"] = as_text
    if skipped != decoded:
        record["decoded_skip_special"] = skipped
    return record


def write(tokenizer_json, count, seed, out, decoded=True, longest=40):
    tokenizer = Tokenizer.from_file(tokenizer_json)
    rng = random.Random(seed)
    with open(out, "w") as f:
        for _ in range(count):
            record = case(tokenizer, text(rng, longest))
            if not decoded:
                del record["decoded"]
                record.pop("decoded_skip_special", None)
            f.write(json.dumps(record, separators=(",", ":")) + "\n")


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
LLAMA3 = (CONTRACTIONS + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + r"+|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER +
          r"*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(regex):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


def steps(*list_):
    return {"type": "Sequence", "pretokenizers": list(list_)}


def added(content, **flags):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": False, **flags}


FAMILIES = {
    "llama3": {"pre_tokenizer": steps(split(LLAMA3), dict(BYTE_LEVEL, use_regex=False)), "ignore_merges": True},
    "smollm2": {"pre_tokenizer": steps({"type": "Digits", "individual_digits": True},
                                       dict(BYTE_LEVEL, use_regex=True))},
    "tekken": {"pre_tokenizer": steps(split(TEKKEN), dict(BYTE_LEVEL, use_regex=False)), "ignore_merges": True},
    "digit-runs": {"pre_tokenizer": steps({"type": "Digits", "individual_digits": False},
                                          dict(BYTE_LEVEL, use_regex=True))},
    "added": {"pre_tokenizer": steps(split(LLAMA3), dict(BYTE_LEVEL, use_regex=False)),
              "added_tokens": [added("<search>", normalized=True), added("</search>", normalized=True),
                               added("<|turn|>", special=True, rstrip=True),
                               added("<|left|>", special=True, lstrip=True),
                               added("<|mask|>", normalized=True, lstrip=True, rstrip=True)]},
}


def with_tokens(rng, string, tokens):
    """Tokens amid the string, with and without white space beside them."""
    for _ in range(rng.randrange(4) if tokens else 0):
        at = rng.randint(0, len(string))
        space = rng.choice(["", " ", "  ", "\n", " \n"])
        string = string[:at] + space + rng.choice(tokens)["content"] + rng.choice(["", space]) + string[at:]
    return string


def write_splits(tokenizer_json, count, seed, out, longest=40):
    rng = random.Random(seed)
    with open(tokenizer_json) as f:
        whole = json.load(f)
    whole["normalizer"] = None
    with open(out, "w") as f:
        for name, parts in FAMILIES.items():
            whole["pre_tokenizer"] = parts["pre_tokenizer"]
            whole["model"]["ignore_merges"] = parts.get("ignore_merges", False)
            extra = parts.get("added_tokens", [])
            first = max(t["id"] for t in whole["added_tokens"]) + 1
            whole["added_tokens"] += [{"id": first + i, **t} for i, t in enumerate(extra)]
            tokenizer = Tokenizer.from_str(json.dumps(whole))
            f.write(json.dumps({"family": name, **parts}) + "\n")
            for _ in range(count):
                record = case(tokenizer, with_tokens(rng, text(rng, longest), extra))
                f.write(json.dumps({"text": record["text"], "ids": record["ids"]}, separators=(",", ":")) + "\n")


def same_merges(folder, corpus):
    path = os.path.join(folder, "tokenizer.json")
    ours = json.load(open(path))
    added = "|".join(re.escape(t["content"]) for t in ours["added_tokens"])
    ours = ours["model"]
    like = Tokenizer.from_file(path)
    peer = Tokenizer(models.BPE())
    peer.normalizer = like.normalizer
    peer.pre_tokenizer = like.pre_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=len(ours["vocab"]), min_frequency=2, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    lines = open(corpus, encoding="utf-8").read().split("\n")
    parts = [part for line in lines for part in re.split(added, line)]
    peer.train_from_iterator(parts, trainer)
    theirs = json.loads(peer.to_str())["model"]
    same = ours["merges"] == theirs["merges"] and ours["vocab"] == theirs["vocab"]
    print(f"{len(ours['merges'])} merges, {'equal' if same else 'NOT equal'}")
    return 0 if same else 1


def main(arguments):
    if len(arguments) in (1, 2) and arguments[0] == "keep":
        write(os.path.join(FIXTURES, "small", "tokenizer.json"), 2000, 1,
              os.path.join(FIXTURES, "random_small.jsonl"), decoded=False, longest=12)
        write_splits(os.path.join(FIXTURES, "small", "tokenizer.json"), 400, 3,
                     os.path.join(FIXTURES, "splits.jsonl"), longest=12)
        if len(arguments) == 2:
            write(os.path.join(arguments[1], "tokenizer.json"), 2000, 2,
                  os.path.join(FIXTURES, "random_qwen3.jsonl"), decoded=False, longest=12)
        return 0
    if len(arguments) == 5 and arguments[0] == "random":
        write(arguments[1], int(arguments[2]), int(arguments[3]), arguments[4])
        return 0
    if len(arguments) == 5 and arguments[0] == "splits":
        write_splits(arguments[1], int(arguments[2]), int(arguments[3]), arguments[4])
        return 0
    if len(arguments) == 3 and arguments[0] == "merges":
        return same_merges(*arguments[1:])
    sys.stderr.write(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
