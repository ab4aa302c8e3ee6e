#!/usr/bin/env python3
"""A model of SmolLM2-135M's shape, with a tokenizer in the form of its published files, is trained, saved,
and loaded by transformers, which computes the same.

    python3 tests/interop/check_smollm2.py BUILD_FOLDER     (torch, transformers, tokenizers)

Weights are random and the vocabulary is learned from tests/golden/tokenizer/corpus.txt: nothing is
fetched. sr1-data makes the model, sr1-train imitates demonstrations and then samples and updates; then
transformers' logits, ids and rendered chats are compared with the library's. Two minutes, 3 GB."""
import ctypes as C
import json
import os
import subprocess
import sys
import tempfile

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<reponame>", "<file_sep>", "<filename>",
           "<gh_stars>", "<issue_start>", "<issue_comment>", "<issue_closed>", "<jupyter_start>", "<jupyter_text>",
           "<jupyter_code>", "<jupyter_output>", "<jupyter_script>", "<empty_output>"]
CHAT = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
        "You are a helpful AI assistant<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
        "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|im_start|>assistant\n' }}{% endif %}")
SHAPE = {"architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1,
         "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 576, "initializer_range": 0.041666666666666664,
         "intermediate_size": 1536, "is_llama_config": True, "max_position_embeddings": 8192, "mlp_bias": False,
         "model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
         "pad_token_id": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_interleaved": False,
         "rope_scaling": None, "rope_theta": 100000, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
         "use_cache": True, "vocab_size": 49152}
CONVERSATION = [{"role": "user", "content": "Where is tower 12345?"}, {"role": "assistant", "content": "In Paris."},
                {"role": "user", "content": "And the\n\nother one?"}]


class Options(C.Structure):
    _fields_ = [("struct_size", C.c_size_t), ("device", C.c_char_p), ("dtype", C.c_char_p),
                ("threads", C.c_int32), ("init", C.c_char_p)]


def make_tokenizer(folder):
    """Digits one by one, then GPT-2's pattern over bytes; special tokens first."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    t.decoder = decoders.ByteLevel()
    with open(os.path.join(ROOT, "tests", "golden", "tokenizer", "corpus.txt"), encoding="utf-8") as f:
        t.train_from_iterator(f.read().split("\n"), trainers.BpeTrainer(
            vocab_size=2000, special_tokens=[AddedToken(s, special=True, normalized=False) for s in SPECIAL],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    os.makedirs(folder)
    t.save(os.path.join(folder, "tokenizer.json"))
    t.model.save(folder)
    config = {"add_prefix_space": False, "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
              "bos_token": "<|im_start|>", "chat_template": CHAT, "clean_up_tokenization_spaces": False,
              "eos_token": "<|im_end|>", "model_max_length": 8192, "pad_token": "<|im_end|>",
              "tokenizer_class": "GPT2Tokenizer", "unk_token": "<|endoftext|>", "vocab_size": 49152}
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump(config, f)


def write_lines(path, rows):
    with open(path, "w") as f:
        for row in rows:
            f.write(json.dumps(row) + "\n")
    return path


def train(build, work):
    def run(tool, *words):
        subprocess.run([os.path.join(build, "tools", tool), *words], check=True, stdout=subprocess.DEVNULL)

    tokenizer, shape = os.path.join(work, "tokenizer"), os.path.join(work, "config.json")
    make_tokenizer(tokenizer)
    write_lines(shape, [SHAPE])
    told = write_lines(os.path.join(work, "told.jsonl"), [
        {"question": "Where is tower %d?" % i, "segments": [{"source": "policy", "text": "<answer> Paris</answer>"}]}
        for i in range(4)])
    asked = write_lines(os.path.join(work, "asked.jsonl"), [
        {"id": str(i), "question": "Where is tower %d?" % i, "golden_answers": ["Paris"]} for i in range(4)])
    facts = os.path.join(work, "facts.json")
    write_lines(facts, [{"tower": "The tower stands in Paris."}])
    start, sft, rl = (os.path.join(work, name) for name in ("start", "sft", "rl"))
    keys = os.path.join(work, "keys.json")
    write_lines(keys, [{"device": "cpu"}])
    common = ["dtype=fp32", "search_engine=mock", "mock_knowledge=" + facts, "max_tokens=24",
              "batch_size=2", "learning_rate=1e-4", "seed=3", "prompt_template=none"]
    run("sr1-data", "model", shape, start, "--tokenizer", tokenizer)
    run("sr1-train", keys, "stage=sft", "model_name_or_path=" + start, "sft_file=" + told, "out=" + sft, "max_steps=3",
        *common)
    run("sr1-train", keys, "model_name_or_path=" + os.path.join(sft, "model"), "train_file=" + asked, "out=" + rl,
        "max_steps=1", "group_size=2", "entropy_coef=0.01", *common)
    return os.path.join(rl, "model")


def logits_of(lib, folder, ids, vocab):
    model, out = C.c_void_p(), (C.c_float * (len(ids) * vocab))()
    options = Options(C.sizeof(Options), b"cpu", b"fp32", 0, None)
    array = (C.c_int32 * len(ids))(*ids)
    lib.sr1_last_error.restype = C.c_char_p
    for status in (lib.sr1_model_open(C.byref(model), folder.encode(), C.byref(options)),
                   lib.sr1_model_logits(model, array, C.c_size_t(len(ids)), out)):
        if status != 0:
            sys.exit(lib.sr1_last_error().decode())
    lib.sr1_model_free(model)
    return torch.tensor(list(out)).reshape(len(ids), vocab)


def check_chat(build, folder, work, tokenizer):
    path = os.path.join(work, "messages.json")
    write_lines(path, [CONVERSATION])
    ours = subprocess.run([os.path.join(build, "tools", "sr1-data"), "chat", folder, path], check=True,
                          capture_output=True, text=True)
    theirs = [tokenizer.apply_chat_template(CONVERSATION, tokenize=False, add_generation_prompt=g) for g in (0, 1)]
    return ours.stdout.rstrip("\n") in [t.rstrip("\n") for t in theirs]


def main():
    build = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as work:
        folder = train(build, work)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
        ids = tokenizer.apply_chat_template(CONVERSATION, add_generation_prompt=True, return_dict=False)
        with torch.no_grad():
            theirs = model(torch.tensor([ids])).logits[0]
        ours = logits_of(C.CDLL(os.path.join(build, "lib", "abi", "libsearchr1.so.0")), folder, ids, model.config.vocab_size)
        gap, n = float((ours - theirs).abs().max()), sum(p.numel() for p in model.parameters())
        bad = {k: v for k, v in info.items() if v}
        chat = check_chat(build, folder, work, tokenizer)
    ok = not bad and gap < 1e-4 and n == 134515008 and chat
    print("%s: %d parameters, logits of %d tokens differ by %.2g, chat %s %s"
          % ("ok" if ok else "FAILED", n, len(ids), gap, "equal" if chat else "DIFFERS", bad or ""))
    sys.exit(not ok)


main()
