"""check_tables.py - table.py and plot.py on a few made-up results: shares of the limits,
spread between turns, a roofline and the growth's plot and table."""
import json
import os
import subprocess
import sys
import tempfile
import xml.dom.minidom

HERE = os.path.dirname(os.path.abspath(__file__))
TINY = {"what": "decode", "shape": "tiny", "dtype": "fp32", "new": 128, "others_cores": 0.1}
NARROW = {"cache": "bf16"}
OURS = {"who": "ours", "step_bytes": 4e6, "head_params": 0, "cache_mib": 1}
RESULTS = [
    {"what": "limits", "who": "ours", "read_huge_gb_s": 80, "fp32_gflop_s": 200,
     "bf16_gflop_s": 400, "others_cores": 0},
    *[{**TINY, **OURS, "batch": 8, "prompt": 128, "decode_tok_s": rate,
       "prefill_tok_s": 50000} for rate in (30000, 40000)],
    {**TINY, **OURS, **NARROW, "batch": 8, "prompt": 128, "decode_tok_s": 60000},
    *[{**TINY, "who": "llama.cpp", "omp": omp, "batch": 8, "prompt": 128,
       "decode_tok_s": rate, "prefill_tok_s": 9000}
      for omp, rate in (("default", 5000), ("passive", 10000))],
    *[{**TINY, **OURS, "part": "growth", "batch": 8, "prompt": prompt, "decode_tok_s": 100,
       "prefill_tok_s": 200} for prompt in (128, 8192)],
    {"what": "step", "event": "median", "work": "tiny", "who": "ours", "dtype": "fp32",
     "reference_s": 0.5, "update_s": 1.0, "step_s": 2.0, "peak_rss_mib": 100,
     "others_cores": 0, "reference_s_flop": 40e9, "update_s_flop": 120e9},
    {"what": "step", "event": "median", "work": "tiny", "who": "trl", "reference_s": 0.4,
     "step_s": 5.0, "peak_rss_mib": 300, "others_cores": 0},
    *[{"what": "step", "event": "median", "work": "60m", "who": who, "dtype": "fp32",
       "step_s": seconds, "others_cores": 0} for who, seconds in (("ours", 20), ("trl", 60))],
]
failures = []


def run(script, *words):
    made = subprocess.run([sys.executable, os.path.join(HERE, script), *words],
                          stdout=subprocess.PIPE, text=True, check=False)
    return made.returncode, made.stdout


def expect(text, *words):
    for line in text.splitlines():
        if all(word in line.split() for word in words):
            return
    failures.append(f"no line with {', '.join(words)} in:\n{text}")


def check_drawing(path):
    if not xml.dom.minidom.parse(path).getElementsByTagName("circle"):
        failures.append(f"{os.path.basename(path)} has no point")


with tempfile.TemporaryDirectory() as folder:
    results = os.path.join(folder, "results.jsonl")
    with open(results, "w", encoding="utf-8") as out:
        out.writelines(json.dumps(line) + "\n" for line in RESULTS)
    status, table = run("table.py", results)
    # 35,000 tokens a second, a million numbers each: two additions and products at 200
    # GFLOP/s allow 100,000; the growth's rate of 100 is not among them
    expect(table, "decode", "llama.cpp:", "3.5e+04", "1e+04", "3.50", "35%", "29%", "WIDE")
    expect(table, "cache", "bf16,", "llama.cpp:", "6e+04", "1e+04", "6.00")
    expect(table, "reference", "0.5", "0.4", "0.80", "40%", "MISSED")
    expect(table, "GRPO", "tiny", "2.50", "MISSED")
    expect(table, "GRPO", "60m", "3.00")
    if status == 0:
        failures.append("a missed figure is no failure")
    for kind in ("roofline", "growth"):
        drawing = os.path.join(folder, kind + ".svg")
        status, said = run("plot.py", kind, results, drawing)
        if status != 0:
            failures.append(f"{kind}: exit status {status}")
            continue
        check_drawing(drawing)
        if kind == "growth":
            expect(said, "tiny", "fp32", "8192", "100", "200")
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
