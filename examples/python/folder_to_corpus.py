"""A corpus of a folder of texts: folder_to_corpus.py FOLDER OUT.jsonl

Each paragraph of a .txt or .md file is a passage, short ones together up to 150 words; the
title is the file's name. Other files, and those that are not UTF-8, are passed over and
named."""

import json
import sys
from pathlib import Path

WORDS = 150


def passages(text):
    kept = []
    for paragraph in text.split("\n\n"):
        words = paragraph.split()
        if kept and len(kept) + len(words) > WORDS:
            yield " ".join(kept)
            kept = []
        kept += words
        while len(kept) > WORDS:  # a long paragraph
            yield " ".join(kept[:WORDS])
            kept = kept[WORDS:]
    if kept:
        yield " ".join(kept)


def texts(folder):
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.suffix.lower() not in (".txt", ".md"):
            print(f"passed over: {path}: neither .txt nor .md", file=sys.stderr)
            continue
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            print(f"passed over: {path}: not UTF-8", file=sys.stderr)
            continue
        yield path.relative_to(folder).with_suffix("").as_posix(), text


folder, out = map(Path, sys.argv[1:] if len(sys.argv) == 3 else sys.exit(__doc__))
if out.exists():
    sys.exit(f"{out} exists: name another file, or remove it")
files = 0
with out.open("x", encoding="utf-8") as corpus:
    for files, (name, text) in enumerate(texts(folder), 1):
        for i, passage in enumerate(passages(text)):
            row = {"id": f"{name}#{i}", "contents": f"{name}\n{passage}"}
            corpus.write(json.dumps(row, ensure_ascii=False) + "\n")
if not files:
    out.unlink()
    sys.exit(f"{folder}: no .txt or .md file of UTF-8 in it")
print(f"{files} files")
