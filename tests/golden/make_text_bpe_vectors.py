#!/usr/bin/env python3
"""Makes small BPE tokenizers over characters, as files made from SentencePiece have them, and their
test vectors with the reference (PyPI tokenizers 0.23.3).

    python3 tests/golden/make_text_bpe_vectors.py train
    python3 tests/golden/make_text_bpe_vectors.py keep
    python3 tests/golden/make_text_bpe_vectors.py random FOLDER COUNT SEED OUT.jsonl
    python3 tests/golden/make_text_bpe_vectors.py variants COUNT SEED OUT.jsonl

train writes folders into tests/golden/tokenizer, trained on the lines of corpus.txt: llama2 (the form
of Llama 2 and Mistral 7B v0.1: the mark is put in front by a normalizer) and gemma (the form of
Gemma: a normalizer for spaces, a Split that finds none, added tokens of white space). keep writes
their vectors llama2.jsonl and gemma.jsonl, text_bpe_parts.jsonl: a line for each variant (Mistral
v0.3's Metaspace among them), with what is set in its file, and continued.jsonl: ids of texts that
continue another. random and variants write any number of vectors, for a longer comparison:
    SR1_TOKENIZER=FOLDER SR1_TOKENIZER_CASES=OUT.jsonl test-pieces      (random)
    SR1_TOKENIZER_PARTS=OUT.jsonl test-pieces                           (variants)
"""
import json
import os
import random
import sys

from make_piece_vectors import CORPUS, case, patched, save, some_text, write
from make_tokenizer_vectors import FIXTURES, added
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

MARK = "\u2581"
SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
MARKS = {"type": "Replace", "pattern": {"String": MARK}, "content": " "}
PREPEND = {"type": "Prepend", "prepend": MARK}
BYTES, FUSE = {"type": "ByteFallback"}, {"type": "Fuse"}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def trained(specials, bytes_=True):
    """Vocabulary and merges over words with marks; bytes behind the special tokens."""
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=700, min_frequency=2, special_tokens=specials, show_progress=False,
        limit_alphabet=120))
    model = json.loads(t.to_str())["model"]
    tokens = [w for w, _ in sorted(model["vocab"].items(), key=lambda kv: kv[1])]
    if bytes_:
        tokens[len(specials):len(specials)] = ["<0x%02X>" % b for b in range(256)]
    return {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": bytes_, "ignore_merges": False,
            "vocab": {w: i for i, w in enumerate(tokens)}, "merges": model["merges"]}


def template(token, id_):
    special = {"SpecialToken": {"id": token, "type_id": 0}}
    a, b = ({"Sequence": {"id": s, "type_id": i}} for i, s in enumerate("AB"))
    again = {"SpecialToken": {"id": token, "type_id": 1}}
    return {"type": "TemplateProcessing", "single": [special, a], "pair": [special, a, again, b],
            "special_tokens": {token: {"id": token, "ids": [id_], "tokens": [token]}}}


def file(model, specials, **parts):
    first = [dict(added(s, special=True), id=i) for i, s in enumerate(specials)]
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": first + parts.pop("more", []), **parts, "model": model}


def llama2():
    specials = ["<unk>", "<s>", "</s>"]
    return file(trained(specials), specials, normalizer=sequence("normalizers", PREPEND, SPACES),
                pre_tokenizer=None, post_processor=template("<s>", 1),
                decoder=sequence("decoders", MARKS, BYTES, FUSE, STRIP))


def gemma():
    specials = ["<pad>", "<eos>", "<bos>", "<unk>"]
    model = trained(specials)
    more = []
    for text in ("\n\n", "\n\n\n", MARK * 2, MARK * 3, "<start_of_turn>", "<end_of_turn>"):
        special = text.startswith("<")
        id_ = model["vocab"].setdefault(text, len(model["vocab"]))
        more.append(dict(added(text, special=special), id=id_))
    return file(model, specials, more=more, normalizer=SPACES,
                pre_tokenizer={"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                               "invert": False},
                post_processor=template("<bos>", 2), decoder=sequence("decoders", MARKS, BYTES, FUSE))


def metaspace(scheme, split):
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": split}


def variants():
    for scheme in ("first", "always", "never"):
        for split in (False, True):
            yield "llama2", {"normalizer": None, "pre_tokenizer": metaspace(scheme, split)}
    for change in ({"model.fuse_unk": False}, {"model.byte_fallback": False},
                   {"model.byte_fallback": False, "model.fuse_unk": False},
                   {"model.byte_fallback": False, "model.unk_token": None},
                   {"model.ignore_merges": True}):
        yield "llama2", change
        yield "gemma", change
    yield "llama2", {"added_tokens.1.normalized": True, "added_tokens.2.normalized": True}
    yield "llama2", {"added_tokens.1.lstrip": True, "added_tokens.2.rstrip": True}
    yield "llama2", {"decoder": sequence("decoders", BYTES, FUSE)}
    yield "llama2", {"decoder": sequence("decoders", MARKS, FUSE, dict(STRIP, start=2))}
    yield "llama2", {"decoder": metaspace("always", True)}
    yield "llama2", {"decoder": None}
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        split = {"type": "Split", "pattern": {"String": " "}, "behavior": behavior, "invert": False}
        yield "gemma", {"normalizer": None, "pre_tokenizer": split}
        yield "gemma", {"pre_tokenizer": dict(split, pattern={"String": MARK})}
    yield "gemma", {"normalizer": {"type": "NFC"}}


def write_parts(count, seed, out):
    files = {n: json.load(open(os.path.join(FIXTURES, n, "tokenizer.json"))) for n in ("llama2", "gemma")}
    rng = random.Random(seed)
    with open(out, "w") as f:
        for folder, patch in variants():
            tokenizer = Tokenizer.from_str(json.dumps(patched(files[folder], patch)))
            cases = [case(tokenizer, rng, 6) for _ in range(count)]
            f.write(json.dumps({"folder": folder, "set": patch, "cases": cases}, separators=(",", ":")) + "\n")


def write_continued(count, seed, out):
    """What the reference makes of a text behind a token, where only the first text of all gets a mark."""
    file = json.load(open(os.path.join(FIXTURES, "llama2", "tokenizer.json")))
    first = {"normalizer": None, "pre_tokenizer": metaspace("first", False)}
    tokenizer, rng = Tokenizer.from_str(json.dumps(patched(file, first))), random.Random(seed)
    with open(out, "w") as f:
        for _ in range(count):
            text = some_text(rng, 6)
            for special in ("\x00", "<unk>", "<s>", "</s>"):
                text = text.replace(special, "")
            ids = tokenizer.encode("<s>" + text, add_special_tokens=False).ids
            assert ids[0] == 1
            f.write(json.dumps({"text": text, "ids": ids[1:]}, separators=(",", ":")) + "\n")


def train():
    for name, made in (("llama2", llama2()), ("gemma", gemma())):
        tokenizer = Tokenizer.from_str(json.dumps(made))
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>",
                  "bos_token": "<s>" if name == "llama2" else "<bos>",
                  "eos_token": "</s>" if name == "llama2" else "<eos>"}
        save(name, tokenizer, config)


def keep():
    for seed, name in enumerate(("llama2", "gemma")):
        write(Tokenizer.from_file(os.path.join(FIXTURES, name, "tokenizer.json")), 400, 300 + seed,
              os.path.join(FIXTURES, name + ".jsonl"))
    write_parts(8, 5, os.path.join(FIXTURES, "text_bpe_parts.jsonl"))
    write_continued(200, 11, os.path.join(FIXTURES, "continued.jsonl"))


def main(arguments):
    if arguments in (["train"], ["keep"]):
        train() if arguments == ["train"] else keep()
        return 0
    if len(arguments) == 5 and arguments[0] == "random":
        folder, count, seed, out = arguments[1:]
        write(Tokenizer.from_file(os.path.join(folder, "tokenizer.json")), int(count), int(seed), out)
        return 0
    if len(arguments) == 4 and arguments[0] == "variants":
        write_parts(int(arguments[1]), int(arguments[2]), arguments[3])
        return 0
    sys.stderr.write(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
