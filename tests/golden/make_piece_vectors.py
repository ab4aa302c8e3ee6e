#!/usr/bin/env python3
"""Makes small WordPiece and Unigram tokenizers and their test vectors with the reference
libraries (PyPI tokenizers 0.23.3, transformers 5.23.0, sentencepiece 0.2.3).

    python3 tests/golden/make_piece_vectors.py train
    python3 tests/golden/make_piece_vectors.py keep
    python3 tests/golden/make_piece_vectors.py random FOLDER COUNT SEED OUT.jsonl

train writes folders into tests/golden/tokenizer, new ones each time: wordpiece (uncased,
tokenizer.json), bert_vocab (cased, vocab.txt only) and unigram (T5's parts, with a character
map compiled by sentencepiece from rules below), trained on the lines of corpus.txt. keep
writes their vectors wordpiece.jsonl, bert_vocab.jsonl and unigram.jsonl; and parts.jsonl: one
line a variant of one of these tokenizers, with what is set in its file and a few vectors.
random writes any number of vectors over any folder, for a longer comparison:
    SR1_TOKENIZER=FOLDER SR1_TOKENIZER_CASES=OUT.jsonl test-pieces
A vector: text, pair (where there are two), max_tokens, ids, types, decoded, and
decoded_skip_special where it differs.
"""
import base64
import copy
import json
import os
import random
import sys
import tempfile

from make_tokenizer_vectors import FIXTURES, WORDS, text
from tokenizers import (AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

CORPUS = open(os.path.join(FIXTURES, "corpus.txt"), encoding="utf-8").read().split("\n")
BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
T5_SPECIAL = ["<pad>", "</s>", "<unk>"]
# What random texts hold besides those of make_tokenizer_vectors.py.
PIECES = ["[SEP]", "[MASK]", "[CLS", "[UNK]", " [MASK] ", "</s>", "<mask>", " <mask>", "<unk>",
          "<pad>", "<extra_id_0>", "\u2581", "\u2581\u2581", " \u2581 ", "##", "##s", "#",
          "don't", "isn't", "caf\u00e9", "cafe\u0301", "\u00c5ngstr\u00f6m", "\u0130stanbul",
          "\u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2", "na\u00efve", "\u4e2d\u6587\u5b57",
          "\u6771\u4eac", "\u3053\u3093\u306b\u3061\u306f", "\ud55c\uad6d\uc5b4",
          "\u1112\u1161\u11ab", "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
          "\U0001f1e9\U0001f1ea", "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22",
          "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0645\u0631\u062d\u0628\u0627", "\ufb01ne",
          "\uff21\uff22\uff23", "\u2460", "\ufdfa", "\x00", "\x01", "\x7f", "\u200b", "\u200d",
          "\u202e", "\ufeff", "\r\n", "e\u0301\u0323", "e\u0323\u0301", "x" * 101, "a" * 100,
          "ab" * 90, "\u00e9" * 101, "the" * 40]
RULES = [("\u00e9", "e"), ("\u00c9", "E"), ("e\u0301", "e"), ("\ufb01", "fi"), ("\uff21", "A"),
         ("\uff22", "B"), ("\t", " "), ("\n", " "), ("\r", " "), ("\u00a0", " "),
         ("\u3000", " "), ("\u200b", " "), ("\x01", ""), ("\x7f", ""), ("\u2460", "1"),
         ("\u0130", "I\u0307"), ("\u03b1", "a"), ("\u03b1\u0301", "aa"), ("\u03af", "\u03b9"),
         ("\ufdfa", "\u0635\u0644\u0649 \u0627\u0644\u0644\u0647"), ("\u1112", "h"), ("Q", "K"),
         ("gh", "G"), ("\u4e2d\u6587", "Z"), ("\ud55c", "HAN")]


def charsmap(rules):
    """The map that sentencepiece compiles from rules: field 2 of field 3 of its model."""
    import sentencepiece

    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "rules.tsv"), "w") as f:
            for pair in rules:
                f.write("\t".join(" ".join(f"{ord(c):X}" for c in side) for side in pair) + "\n")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS * 3), model_prefix=os.path.join(folder, "m"),
            vocab_size=400, hard_vocab_limit=False, minloglevel=2,
            normalization_rule_tsv=os.path.join(folder, "rules.tsv"))
        model = open(os.path.join(folder, "m.model"), "rb").read()
    return dict(fields(dict(fields(model))[3]))[2]


def fields(message):
    """(number, value) of a protocol buffer."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = varint() if key & 7 == 2 else {1: 8, 5: 4}[key & 7]
        yield key >> 3, message[at:at + size]
        at += size


def wordpiece(lower):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(
        vocab_size=1000, min_frequency=2, special_tokens=BERT_SPECIAL, show_progress=False))
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(s, t.token_to_id(s)) for s in ("[CLS]", "[SEP]")])
    return t


def unigram():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Precompiled(charsmap(RULES))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(CORPUS, trainers.UnigramTrainer(
        vocab_size=700, special_tokens=T5_SPECIAL, unk_token="<unk>", show_progress=False))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True), "<extra_id_0>"])
    t.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return t


def save(folder, tokenizer, config, vocab_only=False):
    folder = os.path.join(FIXTURES, folder)
    os.makedirs(folder, exist_ok=True)
    if vocab_only:
        tokenizer.model.save(folder)
    else:
        tokenizer.save(os.path.join(folder, "tokenizer.json"), pretty=False)
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump(config, f)
        f.write("\n")
    return folder


def some_text(rng, longest):
    out = ""
    for _ in range(rng.randint(0, longest)):
        kind = rng.randrange(6)
        out += (rng.choice(PIECES) if kind == 0 else " " + rng.choice(WORDS) if kind < 4 else
                " " if kind == 4 else text(rng, 3))
    return out


def case(tokenizer, rng, longest):
    record = {"text": some_text(rng, longest).replace("\x00", "")}
    if rng.randrange(3) == 0:
        record["pair"] = some_text(rng, longest).replace("\x00", "")
    pair = record.get("pair")
    around = tokenizer.num_special_tokens_to_add(pair is not None)
    record["max_tokens"] = 512 if rng.randrange(2) else around + rng.randint(1, 12)
    tokenizer.enable_truncation(record["max_tokens"])
    encoding = tokenizer.encode(record["text"], pair)
    tokenizer.no_truncation()
    record["ids"], record["types"] = encoding.ids, encoding.type_ids
    record["decoded"] = tokenizer.decode(encoding.ids, skip_special_tokens=False)
    skipped = tokenizer.decode(encoding.ids, skip_special_tokens=True)
    if skipped != record["decoded"]:
        record["decoded_skip_special"] = skipped
    return record


def check_transformers(transformer, record):
    """What AutoTokenizer gives is what the vector says; an empty second text it takes for
    none where it is given one text, and for a text in a batch."""
    if record.get("pair") == "":
        return
    got = transformer(record["text"], record.get("pair"), truncation=True,
                      max_length=record["max_tokens"], return_token_type_ids=True)
    assert got["input_ids"] == record["ids"], (record, got)
    if "token_type_ids" in transformer.model_input_names:
        assert got["token_type_ids"] == record["types"], (record, got)


def write(tokenizer, count, seed, out, transformer=None, longest=9):
    tokenizer.no_padding()
    rng = random.Random(seed)
    with open(out, "w") as f:
        for _ in range(count):
            record = case(tokenizer, rng, longest)
            if transformer is not None:
                check_transformers(transformer, record)
            f.write(json.dumps(record, separators=(",", ":")) + "\n")


# Variants: the folder, and the members of tokenizer.json that are set.
BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
        "strip_accents": None, "lowercase": True}
SPACES = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
META = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
SPLIT = {"type": "WhitespaceSplit"}


def steps(kind, *parts):
    key = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers"}[kind]
    return {kind: {"type": "Sequence", key: list(parts)}}


def variants(map_text, n_unigram):
    precompiled = {"type": "Precompiled", "precompiled_charsmap": map_text}
    # Over bytes nothing is unknown: ids and decoded text show the normal form itself.
    for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"):
        yield "small", {"normalizer": {"type": form}}
    yield "small", {"normalizer": precompiled}
    yield "small", {"normalizer": BERT}
    yield "small", {"post_processor": {"type": "BertProcessing", "sep": ["a", 64],
                                       "cls": ["b", 65]}}
    for form in ("NFD", "NFKD"):
        yield "wordpiece", steps("normalizer", {"type": form}, {"type": "Lowercase"},
                                 {"type": "StripAccents"})
    yield "wordpiece", {"normalizer": None}
    yield "wordpiece", {"pre_tokenizer": None}
    yield "wordpiece", {"pre_tokenizer": {"type": "Whitespace"}}
    yield "wordpiece", {"pre_tokenizer": SPLIT}
    yield "wordpiece", steps("pre_tokenizer", {"type": "Whitespace"},
                             {"type": "BertPreTokenizer"})
    for change in ({"clean_text": False}, {"handle_chinese_chars": False},
                   {"lowercase": False}, {"strip_accents": False},
                   {"strip_accents": True, "lowercase": False}):
        yield "wordpiece", {"normalizer": {**BERT, **change}}
    yield "wordpiece", {"model.max_input_chars_per_word": 5}
    yield "wordpiece", {"model.continuing_subword_prefix": ""}
    yield "wordpiece", {"decoder.cleanup": False}
    yield "wordpiece", {"decoder": None}
    yield "wordpiece", {"post_processor": None}
    yield "wordpiece", {"post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3],
                                           "cls": ["[CLS]", 2]}}
    yield "wordpiece", {"post_processor": {"type": "RobertaProcessing", "sep": ["[SEP]", 3],
                                           "cls": ["[CLS]", 2], "trim_offsets": True,
                                           "add_prefix_space": False}}
    yield "wordpiece", {"added_tokens.4.lstrip": True, "added_tokens.4.rstrip": True}
    for lower in (True, False):
        yield "wordpiece", {"normalizer": {**BERT, "lowercase": lower},
                            "added_tokens.3.normalized": True, "added_tokens.3.rstrip": True}
    yield "wordpiece", {"model.type": None}
    yield "unigram", {"normalizer": None, "pre_tokenizer": None, "decoder": None}
    yield "unigram", steps("normalizer", precompiled, SPACES)
    yield "unigram", steps("normalizer", {"type": "Strip", "strip_left": True,
                                          "strip_right": True},
                           {"type": "Replace", "pattern": {"String": "the"}, "content": "a"},
                           {"type": "Strip", "strip_left": False, "strip_right": True})
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            yield "unigram", {"pre_tokenizer": {**META, "prepend_scheme": scheme,
                                                "split": split},
                              "decoder": {**META, "prepend_scheme": scheme, "split": split}}
        yield "unigram", steps("pre_tokenizer", SPLIT, {**META, "prepend_scheme": scheme})
    old = {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True}
    yield "unigram", {"pre_tokenizer": old, "decoder": old}
    yield "unigram", {"model.byte_fallback": True}
    yield "unigram", {"model.byte_fallback": True, "model.vocab.+": [
        [f"<0x{b:02X}>", -20.0] for b in range(256)],
        "added_tokens.3.id": n_unigram + 256, "added_tokens.4.id": n_unigram + 257}
    yield "unigram", {"post_processor": {"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
         "use_regex": True},
        {"type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<pad>", 0],
         "trim_offsets": False, "add_prefix_space": False}]}}


def patched(file, patch):
    """A copy of a file's tree with members set; "+" at the end of a path appends."""
    file = copy.deepcopy(file)
    for path, value in patch.items():
        at, *keys = path.split(".")
        place = file
        for key in keys:
            place = place[int(at) if isinstance(place, list) else at]
            at = key
        if at == "+":
            place.extend(value)
        elif isinstance(place, list):
            place[int(at)] = value
        elif value is None and at == "type":
            del place[at]
        else:
            place[at] = value
    return file


def write_parts(files, out):
    rng = random.Random(3)
    map_text = files["unigram"]["normalizer"]["precompiled_charsmap"]
    with open(out, "w") as f:
        for folder, patch in variants(map_text, len(files["unigram"]["model"]["vocab"])):
            tokenizer = Tokenizer.from_str(json.dumps(patched(files[folder], patch)))
            cases = [case(tokenizer, rng, 6) for _ in range(12)]
            f.write(json.dumps({"folder": folder, "set": patch, "cases": cases},
                               separators=(",", ":")) + "\n")


def train():
    save("wordpiece", wordpiece(True), {"tokenizer_class": "BertTokenizer",
                                        "do_lower_case": True})
    save("bert_vocab", wordpiece(False), {"tokenizer_class": "BertTokenizer",
                                          "do_lower_case": False}, vocab_only=True)
    save("unigram", unigram(), {"tokenizer_class": "PreTrainedTokenizerFast",
                                "eos_token": "</s>", "pad_token": "<pad>",
                                "unk_token": "<unk>"})


def keep():
    from transformers import AutoTokenizer

    files = {"small": json.load(open(os.path.join(FIXTURES, "small", "tokenizer.json")))}
    for seed, name in enumerate(("wordpiece", "bert_vocab", "unigram")):
        transformer = AutoTokenizer.from_pretrained(os.path.join(FIXTURES, name))
        files[name] = json.loads(transformer.backend_tokenizer.to_str())
        write(transformer.backend_tokenizer, 400, 100 + seed,
              os.path.join(FIXTURES, name + ".jsonl"), transformer)
        path = os.path.join(FIXTURES, name, "tokenizer.json")
        if os.path.exists(path):
            files[name] = json.load(open(path))
    write_parts(files, os.path.join(FIXTURES, "parts.jsonl"))


def main(arguments):
    if arguments in (["train"], ["keep"]):
        train() if arguments == ["train"] else keep()
        return 0
    if len(arguments) == 5 and arguments[0] == "random":
        folder, count, seed, out = arguments[1:]
        write(Tokenizer.from_file(os.path.join(folder, "tokenizer.json")), int(count),
              int(seed), out)
        return 0
    sys.stderr.write(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
