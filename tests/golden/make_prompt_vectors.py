#!/usr/bin/env python3
"""Writes the ids that transformers gives for the prompt of Search-R1's published code:
python3 make_prompt_vectors.py TOKENIZER.json TEMPLATE.jinja OUT.jsonl

Kept in tests/golden/tokenizer: prompts_small.jsonl (small/tokenizer.json) and
prompts_qwen3.jsonl (Qwen3's), both with the chat template of Qwen3. Each line: question, ids.
The words around the question are those of make_search_r1_vectors.py."""
import json
import sys

import make_search_r1_vectors as published
from transformers import PreTrainedTokenizerFast

QUESTIONS = ["who wrote hamlet", "When was the tower built?", "\u4f55\u6642",
             "total number of death row inmates in the us", "caf\u00e9 \u2013 \U0001f5fc", "x"]


def main(tokenizer, template, out):
    t = PreTrainedTokenizerFast(tokenizer_file=tokenizer)
    with open(template) as f:
        template = f.read()
    with open(out, "w") as f:
        for question in QUESTIONS:
            messages = [{"role": "user", "content": published.prompt(question)}]
            ids = t.apply_chat_template(messages, chat_template=template, tokenize=True,
                                        add_generation_prompt=True, return_dict=False)
            f.write(json.dumps({"question": question, "ids": ids},
                               separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
