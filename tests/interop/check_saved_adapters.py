#!/usr/bin/env python3
"""peft loads what this library saves, and computes the same.

    python3 tests/interop/check_saved_adapters.py LIBSEARCHR1_SO     (torch, transformers, peft)

Each case of tests/golden/adapter is opened and saved through the public API, as an adapter and
merged; peft loads the one on its base, transformers the other, and the logits must be the golden
ones. The base is the folder that adapter_config.json of the saved adapter names."""
import ctypes as C
import json
import os
import subprocess
import sys
import tempfile

SCRIPT = os.path.abspath(__file__)
ROOT = os.path.join(os.path.dirname(SCRIPT), "..", "..")
GOLDEN = os.path.join("tests", "golden", "adapter")


class Options(C.Structure):
    _fields_ = [("struct_size", C.c_size_t), ("device", C.c_char_p), ("dtype", C.c_char_p),
                ("threads", C.c_int32), ("init", C.c_char_p), ("base_model", C.c_char_p)]


def resave(library, source, adapter, merged):
    """In a process of its own, as the library may have another torch than peft."""
    lib, model = C.CDLL(library), C.c_void_p()
    options = Options(C.sizeof(Options), b"cpu", b"fp32", 0, None, None)
    lib.sr1_last_error.restype = C.c_char_p
    for status in (lib.sr1_model_open(C.byref(model), source.encode(), C.byref(options)),
                   lib.sr1_model_save(model, adapter.encode()),
                   lib.sr1_model_save_merged(model, merged.encode())):
        if status != 0:
            sys.exit("%s: %s" % (source, lib.sr1_last_error().decode()))


if sys.argv[1] == "--save":
    sys.exit(resave(*sys.argv[2:]))

import torch  # noqa: E402
from peft import AutoPeftModelForCausalLM, PeftModel  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from transformers import AutoModelForCausalLM, AutoModelForTokenClassification  # noqa: E402


def gap(model, facts, want):
    """Of logits, or of a critic's values."""
    kind = "values" if "values.0" in want else "logits"
    with torch.no_grad():
        return max(float((model(torch.tensor([ids])).logits[0].squeeze(-1)
                          - want["%s.%d" % (kind, i)]).abs().max())
                   for i, ids in enumerate(facts["sequences"]))


def open_adapter(folder, critic):
    if not critic:
        return AutoPeftModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with open(os.path.join(folder, "adapter_config.json")) as f:
        base = json.load(f)["base_model_name_or_path"]
    base = AutoModelForTokenClassification.from_pretrained(base, dtype=torch.float32, num_labels=1)
    return PeftModel.from_pretrained(base, folder).eval()


def check(library, name):
    source = os.path.join(GOLDEN, name)
    want = load_file(os.path.join(source, "expected.safetensors"))
    with tempfile.TemporaryDirectory() as out, open(os.path.join(source, "expected.json")) as f:
        adapter, merged = os.path.join(out, "adapter"), os.path.join(out, "merged")
        facts = json.load(f)
        subprocess.run([sys.executable, SCRIPT, "--save", library, source,
                        adapter, merged], check=True)
        ours, theirs = (load_file(os.path.join(d, "adapter_model.safetensors"))
                        for d in (adapter, source))
        same = ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)
        critic = "values.0" in want
        as_peft = gap(open_adapter(adapter, critic), facts, want)
        auto = AutoModelForTokenClassification if critic else AutoModelForCausalLM
        whole = gap(auto.from_pretrained(merged, dtype=torch.float32).eval(), facts, want)
    ok = same and as_peft < 1e-5 and whole < 1e-4
    print("%-6s %s: logits differ by %.2g, merged by %.2g; %s tensors"
          % ("ok" if ok else "FAILED", name, as_peft, whole, "the same" if same else "OTHER"))
    return ok


def main():
    library = os.path.abspath(sys.argv[1])
    os.chdir(ROOT)  # which the golden adapters name their bases from
    sys.exit(not all([check(library, name) for name in sorted(os.listdir(GOLDEN))]))


main()
