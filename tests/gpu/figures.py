"""Figures of tests/gpu/run.

figures.py plan SR1_TRAIN KEY=VALUE ...     what sr1-train --plan says, on one line
figures.py test SR1_EVAL RUN QUESTIONS ...  what sr1-eval says, on one line
figures.py table RESULTS.jsonl DEVICE [PASSED FAILED SKIPPED]
    the tables, a line for each check, and "N passed, N failed, N skipped" with those given
    added. A part that failed or was cut is a failed check, one that was passed over or had
    no time left a skipped one; on a device each decoding has to have replayed graphs."""
import json
import subprocess
import sys
import tempfile

WIDE = 141  # GB of the card that is planned for; what does not fit is planned all the same
SHAPES = {  # of bench_model.c: hidden, layers, query heads, key heads, head size, inner, vocab
    "tiny": (256, 4, 4, 2, 64, 768, 1024),
    "0.6b": (1024, 28, 16, 8, 128, 3072, 151936),
    "4b": (2560, 36, 32, 8, 128, 9728, 151936),
}


def said(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return json.loads(done.stdout)


def print_plan(tool, *pairs):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as empty:
        empty.write("{}\n")
        empty.flush()
        plan = said([tool, "--plan", empty.name, "--json", "--memory", str(WIDE), *pairs])
    kept = {key: plan[key] for key in ("peak_bytes", "largest", "phases")}
    print(json.dumps({"what": "plan", **kept}))


def print_test(tool, run, questions, *pairs):
    print(json.dumps({"what": "test", **said([tool, run, questions, "--json", *pairs])}))


# ---- tables ----


def multiplications(shape, head):
    """Of one token, in the matrices of the layers, or in the head."""
    hidden, layers, heads, kv, size, inner, vocab = SHAPES[shape]
    attention = hidden * size * (2 * heads + 2 * kv)
    return vocab * hidden if head else layers * (attention + 3 * hidden * inner)


def update_flops(line, trained):
    """Of products with weights in an update: forward and by the input, by the weights too where
    they are trained; neither attention nor what checkpointing computes again."""
    tokens = line["trajectories"] * line["prompt_tokens"] + line["policy_tokens"]
    each = 6 if trained else 4
    return each * (tokens * multiplications(line["shape"], False)
                   + line["policy_tokens"] * multiplications(line["shape"], True))


def table(title, head, rows):
    if not rows:
        return
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def decode_rows(lines, limits):
    theirs = {(line["shape"], line["batch"]): line for line in lines
              if line.get("who") == "transformers"}
    for line in lines:
        if line.get("what") != "decode" or line.get("who") != "ours":
            continue
        peer = theirs.get((line["shape"], line["batch"]))
        moved = line["step_bytes"] + line.get("cache_step_bytes", 0)
        rate = moved / line["ms_per_decode_step"] / 1e6  # GB a second
        yield [line["shape"], line["dtype"], str(line["batch"]), f"{line['decode_tok_s']:,.0f}",
               f"{peer['decode_tok_s']:,.0f}" if peer else "",
               f"{line['decode_tok_s'] / peer['decode_tok_s']:.2f}" if peer else "",
               f"{rate:,.0f}", f"{100 * rate / limits['copy_gb_s']:.0f} %" if limits else "",
               str(line.get("graph_replays", ""))]


def step_rows(lines, limits):
    plans = {line["step"]: line for line in lines if line.get("what") == "plan"}
    for line in lines:
        if line.get("what") != "step" or line.get("event") != "median":
            continue
        plan, peak = plans.get(line["step"]), line["device_peak_bytes"]
        flops = update_flops(line, "LoRA" not in line["step"])
        rate = flops / line["update_s"] / 1e12
        yield [line["step"], f"{line['step_s']:.2f}", f"{line['rollout_s']:.2f}",
               f"{line['reference_s']:.2f}", f"{line['update_s']:.2f}", f"{rate:,.3g}",
               f"{100 * rate / limits['bf16_tflop_s']:.0f} %" if limits else "",
               f"{peak / 1e9:.2f}" if peak else "",
               f"{plan['peak_bytes'] / 1e9:.2f}" if plan else ""]


def learn_rows(lines):
    for line in lines:
        if line.get("what") == "test":
            yield [line["run"], *(f"{line[kind]['exact_match']:.3f}" if kind in line else ""
                                  for kind in ("all", "one-hop", "two-hop"))]


def print_tables(lines):
    limits = next((line for line in lines if line.get("what") == "limits"), None)
    if limits:
        print(f"A copy within the device moves {limits['copy_gb_s']:,.0f} GB/s (read and written, "
              f"{limits['copy_mib']} MiB); products of bf16 [{limits['side']},{limits['side']}] make "
              f"{limits['bf16_tflop_s']:,.3g} TFLOP/s.")
    table("Decoding (share: weights and cache that a step reads, of the rate of a copy):",
          ["model", "type", "batch", "tokens/s", "transformers", "ratio", "GB/s", "share",
           "graphs replayed"], list(decode_rows(lines, limits)))
    table("GRPO steps, in seconds (share: products with weights in the update, of the rate of a "
          "product; the planned peak has 1 GB for CUDA's context, which the seen one has not):",
          ["step", "whole", "rollout", "reference", "update", "TFLOP/s", "share", "GB at most",
           "GB planned"], list(step_rows(lines, limits)))
    table("Exact match on held-out questions, before and after GRPO:", ["run", "all", "one hop", "two hops"],
          list(learn_rows(lines)))


# ---- checks ----


def checks(lines, device):
    for line in lines:
        if line.get("what") == "part":
            status = line["status"]
            good = None if isinstance(status, str) else status == 0
            yield good, line["part"], line.get("why") or f"status {status}"
        elif line.get("what") == "decode" and line.get("who") == "ours" and device != "cpu":
            n = line.get("graph_replays", 0)
            yield n > 0, f"graphs, {line['shape']}, batch {line['batch']}", f"{n} replayed"


def print_table(path, device, *before):
    lines = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            try:
                lines.append(json.loads(line))
            except ValueError:  # of a program that was ended as it wrote
                continue
    print_tables(lines)
    counts = [int(n) for n in before] or [0, 0, 0]
    print()
    for good, what, text in checks(lines, device):
        print(f"{'skipped' if good is None else 'ok     ' if good else 'FAILED '} {what}: {text}")
        counts[2 if good is None else 0 if good else 1] += 1
    print("{} passed, {} failed, {} skipped".format(*counts))
    return counts[1] > 0


if __name__ == "__main__":
    COMMANDS = {"plan": print_plan, "test": print_test, "table": print_table}
    sys.exit(COMMANDS[sys.argv[1]](*sys.argv[2:]))
