#!/usr/bin/env python3
"""Prints lib/text/tokenizer/unicode_table.h: classes of characters as the reference library
(PyPI tokenizers 0.23.3) has them, asked of it one character at a time.

    python3 tests/golden/make_tokenizer_tables.py > lib/text/tokenizer/unicode_table.h

Its parts stand at different versions of Unicode (8, 9 and 16), so no one library has them.
"""
import sys
import unicodedata

from tokenizers import normalizers, pre_tokenizers

CHARACTERS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def bert(**parts):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **parts})


def removed_by(normalizer):
    return [c for c in CHARACTERS if normalizer.normalize_str(chr(c)) == ""]


def pieces(pre_tokenizer, count):
    return [c for c in CHARACTERS
            if len(pre_tokenizer.pre_tokenize_str("a" + chr(c) + "a")) == count]


def ranges(characters):
    out = []
    for c in characters:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def show(name, comment, rows):
    print(f"\n/* {comment} */\nstatic const uint32_t {name}[][{len(rows[0])}] = {{")
    line = "   "
    for row in rows:
        item = " {" + ", ".join(f"0x{c:x}" for c in row) + "},"
        if len(line) + len(item) > 90:
            print(line)
            line = "   "
        line += item
    print(line + "\n};")


def newer_lower():
    """Where lower case is not what Unicode 14 says: [first, last, lower of first]."""
    lower = normalizers.Lowercase()
    out = []
    for c in CHARACTERS:
        to = lower.normalize_str(chr(c))
        if to == chr(c).lower():
            continue
        assert len(to) == 1
        if out and out[-1][1] == c - 1 and ord(to) - c == out[-1][2] - out[-1][0]:
            out[-1][1] = c
        else:
            out.append([c, c, ord(to)])
    return out


def older_forms():
    """Characters that decompose by Unicode 14 but not in the reference, and those that came
    with Unicode 15 to 17."""
    newer = [(0xA7F1, 0xA7F1), (0x105C9, 0x105C9), (0x105E4, 0x105E4), (0x11383, 0x11383),
             (0x11385, 0x11385), (0x1138E, 0x1138E), (0x11391, 0x11391), (0x113C5, 0x113C5),
             (0x113C7, 0x113C8), (0x16121, 0x16128), (0x16D68, 0x16D6A), (0x1CCD6, 0x1CCF9),
             (0x1E030, 0x1E06D)]
    found = {c for low, high in newer for c in range(low, high + 1)}
    reference = normalizers.NFKD()
    for c in CHARACTERS:
        if reference.normalize_str(chr(c)) != unicodedata.normalize("NFKD", chr(c)):
            found.add(c)
    return sorted(found)


def main():
    if unicodedata.unidata_version != "14.0.0":
        sys.exit("needs a Python whose unicodedata is 14.0.0 (3.11)")
    print("/* text/tokenizer/unicode_table.h - made by tests/golden/make_tokenizer_tables.py: classes"
          "\n * of characters as the reference has them, ranges in order. */"
          "\n#ifndef SR1__TOKENIZER_UNICODE_TABLE_H\n#define SR1__TOKENIZER_UNICODE_TABLE_H\n"
          "\n#include <stdint.h>")
    show("bert_removed", "What BERT's cleaning removes: control, format, private use.",
         ranges(removed_by(bert(clean_text=True))))
    show("bert_marks", "Marks that BERT strips (Mn).", ranges(removed_by(bert(strip_accents=True))))
    show("accents", "Marks that StripAccents strips (M).",
         ranges(removed_by(normalizers.StripAccents())))
    show("bert_punctuation", "Punctuation by BERT: each is a piece of its own.",
         ranges(pieces(pre_tokenizers.BertPreTokenizer(), 3)))
    show("newer_lower", "Lower case that came after Unicode 14: first, last, lower of first.",
         newer_lower())
    show("older_forms", "Characters that have a decomposition by now, but not in the reference.",
         ranges(older_forms()))
    show("word_characters", "Characters of a word by Whitespace (\\w).",
         ranges(pieces(pre_tokenizers.Whitespace(), 1)))
    print("\n#endif")


if __name__ == "__main__":
    main()
