"""A corpus of a folder of texts: folder_to_corpus.py FOLDER OUT.jsonl

Each paragraph of a .txt or .md file is a passage, short ones together up to 150 words; the
title is the file's name."""

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


folder, out = map(Path, sys.argv[1:] if len(sys.argv) == 3 else sys.exit(__doc__))
files = sorted(p for p in folder.rglob("*") if p.suffix in (".txt", ".md"))
with out.open("x") as corpus:
    for path in files:
        name = str(path.relative_to(folder).with_suffix(""))
        for i, passage in enumerate(passages(path.read_text(errors="replace"))):
            row = {"id": f"{name}#{i}", "contents": f"{name}\n{passage}"}
            corpus.write(json.dumps(row, ensure_ascii=False) + "\n")
print(f"{len(files)} files")
