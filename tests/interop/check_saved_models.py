#!/usr/bin/env python3
"""transformers loads what this library saves, and computes the same.

    python3 tests/interop/check_saved_models.py LIBSEARCHR1_SO     (torch, transformers)

Each case of tests/golden/model is opened and saved through the public API in fp32 and in the
type it was stored in; transformers loads the new folder, whose logits must be the golden ones."""
import ctypes as C
import json
import os
import sys
import tempfile

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "model")
SHORT = {"float32": b"fp32", "bfloat16": b"bf16", "float16": b"fp16"}


class Options(C.Structure):
    _fields_ = [("struct_size", C.c_size_t), ("device", C.c_char_p), ("dtype", C.c_char_p),
                ("threads", C.c_int32), ("init", C.c_char_p)]


def resave(lib, source, dtype, out):
    model = C.c_void_p()
    options = Options(C.sizeof(Options), b"cpu", dtype, 0, None)
    lib.sr1_last_error.restype = C.c_char_p
    for status in (lib.sr1_model_open(C.byref(model), source.encode(), C.byref(options)),
                   lib.sr1_model_save(model, out.encode())):
        if status != 0:
            sys.exit("%s: %s" % (source, lib.sr1_last_error().decode()))
    lib.sr1_model_free(model)


def check(lib, name, dtype):
    source = os.path.join(GOLDEN, name)
    with tempfile.TemporaryDirectory() as out, open(os.path.join(source, "expected.json")) as f:
        facts = json.load(f)
        resave(lib, source, dtype, out)
        model, info = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32,
                                                           output_loading_info=True)
        bad = {k: v for k, v in info.items() if v}
        old, new = AutoConfig.from_pretrained(source), AutoConfig.from_pretrained(out)
        for key in ("eos_token_id", "pad_token_id", "tie_word_embeddings", "rms_norm_eps",
                    "rope_parameters", "max_position_embeddings", "num_key_value_heads"):
            if getattr(old, key) != getattr(new, key):
                bad[key] = (getattr(old, key), getattr(new, key))
        want = load_file(os.path.join(source, "expected.safetensors"))
        worst = 0.0
        with torch.no_grad():
            for i, ids in enumerate(facts["sequences"]):
                got = model(torch.tensor([ids])).logits[0]
                worst = max(worst, float((got - want["logits.%d" % i]).abs().max()))
    ok = not bad and worst < 1e-5
    print("%-6s %s as %s: logits differ by %.2g %s"
          % ("ok" if ok else "FAILED", name, dtype.decode(), worst, bad or ""))
    return ok


def main():
    lib = C.CDLL(os.path.abspath(sys.argv[1]))
    failed = 0
    for name in sorted(os.listdir(GOLDEN)):
        stored = AutoConfig.from_pretrained(os.path.join(GOLDEN, name)).dtype
        for dtype in sorted({b"fp32", SHORT[str(stored).split(".")[-1]]}):
            failed += not check(lib, name, dtype)
    sys.exit(failed > 0)


main()
