#!/usr/bin/env python3
"""Write tests/golden/chat_template_folders.jsonl: which of several chat templates transformers takes.

    python3 tests/golden/make_template_folder_vectors.py     (transformers 5.23.0)

A row: files {name: text} beside the small tokenizer's tokenizer.json, tools (or null), name of the
template that is asked for (or null), text that apply_chat_template gives, null where it raises."""
import json
import os
import pathlib
import shutil
import tempfile

from transformers import PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).parent
SMALL = HERE / "tokenizer" / "small" / "tokenizer.json"
MESSAGES = [{"role": "user", "content": "Hi"}]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}}]


def template(word):
    return word + " {{ tools|length if tools else 0 }}: {{ messages[0].content }}"


def named(*words):
    return {"additional_chat_templates/%s.jinja" % w: template(w) for w in words}


def config(value):
    return {"tokenizer_config.json": json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": value})}


def listed(*words):
    return config([{"name": w, "template": template("listed " + w)} for w in words])


FOLDERS = [
    (dict(named("rag", "tool_use"), **{"chat_template.jinja": template("file")}),
     [(None, None), (TOOLS, None), (None, "rag"), (TOOLS, "rag"), (TOOLS, "default"), (None, "tool_use")]),
    (dict(named("rag"), **{"chat_template.jinja": template("file")}, **config(template("config"))),
     [(None, None), (TOOLS, None), (None, "rag")]),
    (named("rag"), [(None, None), (None, "rag")]),
    (dict(named("rag"), **listed("default", "tool_use")), [(None, None), (None, "rag")]),
    (listed("default", "tool_use", "rag"), [(None, None), (TOOLS, None), (None, "rag"), (TOOLS, "rag")]),
    (listed("rag"), [(None, None), (None, "rag")]),
    (dict(config(template("config")), **{"chat_template.jinja": template("file")}), [(None, None), (TOOLS, None)]),
]


def write(folder, files):
    shutil.copy(SMALL, folder)
    for name, text in files.items():
        path = pathlib.Path(folder, name)
        os.makedirs(path.parent, exist_ok=True)
        path.write_text(text)


def main():
    with open(HERE / "chat_template_folders.jsonl", "w") as f:
        for files, asked in FOLDERS:
            with tempfile.TemporaryDirectory() as folder:
                write(folder, files)
                tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
                for tools, name in asked:
                    try:
                        text = tokenizer.apply_chat_template(MESSAGES, tools=tools, chat_template=name, tokenize=False)
                    except ValueError:
                        text = None
                    f.write(json.dumps({"files": files, "tools": tools, "name": name, "text": text}) + "\n")


main()
