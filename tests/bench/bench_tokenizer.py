#!/usr/bin/env python3
"""The peer of bench_tokenizer.c: PyPI tokenizers on the same files, by processor time.

usage: bench_tokenizer.py TOKENIZER_FOLDER TEXT_FILE"""
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402


def main(folder, path):
    start = time.process_time()
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    print(f"open     {1e3 * (time.process_time() - start):6.1f} ms")
    lines = open(path, encoding="utf-8").read().split("\n")
    size = os.path.getsize(path)
    start = time.process_time()
    ids = [tokenizer.encode(line, add_special_tokens=False).ids for line in lines]
    seconds = time.process_time() - start
    print(f"lines    {size / seconds / 1e6:6.1f} MB/s  {sum(map(len, ids))} ids")
    start = time.process_time()
    for one in ids:
        tokenizer.decode(one, skip_special_tokens=False)
    print(f"decode   {size / (time.process_time() - start) / 1e6:6.1f} MB/s")


if __name__ == "__main__":
    main(*sys.argv[1:])
