#!/usr/bin/env python3
"""Makes conversations with tool results and the ids of their rendering by transformers:
python3 make_turn_vectors.py TOKENIZER.json TEMPLATE_FOLDER OUT.jsonl

TEMPLATE_FOLDER: a Hugging Face folder whose chat template is used. Kept in
tests/golden/tokenizer: turns_small.jsonl (small/tokenizer.json) and turns_qwen3.jsonl
(Qwen3's), both with the template of Qwen3. Each line: the system message, the question,
"turns" of [what the policy said, the result's body or null for a notice, the notice], and
the ids of the whole conversation, ready for the policy's next message."""
import json
import random
import sys

from transformers import AutoTokenizer, PreTrainedTokenizerFast

BODIES = ["The Eiffel Tower was completed in 1889.", "1889", "", "Error: unknown tool 'x'; known: y",
          "Doc 1(Title: \"Paris\") Capital\nof France.\nDoc 2(Title: Lyon) x", "# title\n\n- a\n- b",
          "\u5317\u4eac\u662f\u4e2d\u56fd\u7684\u9996\u90fd\u3002", "caf\u00e9 \u2013 \U0001f5fc!", "a  b\tc", "{\"a\": [1, 2]}",
          "ends with a space then dots ...", "</result> <result>", "1.\n2.\n3.", "<b>x</b>"]
NOTICES = ["Error: there is neither.", "Error: town gave an empty result"]
SAID = ["<reasoning>find it</reasoning>\n<tool>{\"name\": \"wiki_search\", \"args\": {\"query\": \"x\"}}</tool>",
        "<reasoning>\n\u00e9\n</reasoning> <tool>{}</tool>", "just words", "<tool></tool>"]


def main(tokenizer, folder, out):
    template = AutoTokenizer.from_pretrained(folder).chat_template
    t = PreTrainedTokenizerFast(tokenizer_file=tokenizer)
    rng = random.Random(11)
    with open(out, "w") as f:
        for k in range(120):
            system = rng.choice(["Use tools.", "You answer.\n\nRules: be short.\n", "s"])
            question = rng.choice(["Who?", "When was the tower built?", "\u4f55\u6642"])
            turns = []
            messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
            for i in range(rng.randint(1, 4)):
                said = rng.choice(SAID)
                if rng.random() < 0.2:
                    turns.append([said, None, rng.choice(NOTICES)])
                    content = turns[-1][2]
                else:
                    turns.append([said, BODIES[(k + i) % len(BODIES)], None])
                    content = "<result>\n" + turns[-1][1] + "\n</result>"
                messages += [{"role": "assistant", "content": said}, {"role": "user", "content": content}]
            ids = t.apply_chat_template(messages, chat_template=template, tokenize=True,
                                        add_generation_prompt=True, return_dict=False)
            f.write(json.dumps({"system": system, "question": question, "turns": turns, "ids": ids},
                               separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
