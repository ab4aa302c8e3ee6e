"""The table of a benchmark run, from its JSON lines: figure, ours, peer, ratio, limit.

    table.py RESULTS.jsonl

A figure is the median over the run's repetitions. A row without our figure was not run, one
without its peer has nothing to be compared with: both count as skipped. The last line is
"N passed, N failed, N skipped"."""
import json
import os
import statistics
import sys

FASTER, SMALLER, LIMIT, LEAST = "times faster", "of the peer's", "at most", "at least"
WIDE = 0.1


def generation(what, shape, dtype, batch, least, peer, cache=None):
    which = {"what": "decode", "shape": shape, "dtype": dtype, "batch": batch, "part": None}
    types = f"{dtype}, cache {cache}" if cache else dtype
    return (f"{what} {shape} {types}, batch {batch}, {peer}: tokens/s",
            {**which, "who": "ours", "cache": cache}, {**which, "who": peer},
            f"{what}_tok_s", FASTER, least)


def decode(shape, dtype, batch, least, peer="transformers", cache=None):
    return generation("decode", shape, dtype, batch, least, peer, cache)


def prefill(shape, dtype, batch, least, peer="transformers"):
    return generation("prefill", shape, dtype, batch, least, peer)


def step(title, event, field, kind, limit, peer="trl", work="tiny"):
    which = {"what": "step", "event": event, "work": work}
    theirs = ({**which, "who": "trl"} if peer == "trl"
              else {"what": "update", "who": "torch"})
    return (title, {**which, "who": "ours"}, theirs, field, kind, limit)


def apart(dtype, temperature, top_p, field, limit):
    which = {"event": "log-probs", "dtype": dtype, "temperature": temperature,
             "top_p": top_p}
    return (f"log-probs, rollout against training, {dtype}, T {temperature:g}, top-p "
            f"{top_p:g}: {field[5:]}", which, None, field, LIMIT, limit)


def search(title, event, field, kind, limit, peer=None):
    which = {"what": "search", "event": event}
    return (f"search: {title}", {**which, "who": "ours"},
            {**which, "who": peer} if peer else None, field, kind, limit)


def encoder(texts, batch):
    which = {"what": "encoder", "texts": texts, "batch": batch}
    return (f"encoder MiniLM, {texts}, batch {batch}: texts/s", {**which, "who": "ours"},
            {**which, "who": "transformers"}, "texts_s", FASTER, 1)


def dense(dtype, threads):
    which = {"what": "dense", "event": "scan", "dtype": dtype, "threads": threads,
             "batch": 1}
    cores = "all cores" if threads > 1 else "one core"
    return (f"exact search, {dtype}, one query, {cores}: share of bandwidth",
            {**which, "who": "ours"}, None, "bandwidth_share", LEAST, 0.8)


def product(peer, threads):
    which = {"what": "dense", "dtype": "fp32", "threads": threads, "batch": 32}
    cores = "all cores" if threads > 1 else "one core"
    return (f"exact search, fp32, 32 queries, {cores}, {peer}: queries/s",
            {**which, "event": "scan", "who": "ours"},
            {**which, "event": "product", "peer": peer}, "queries_s", FASTER, 1)


SAMPLINGS = ((0.7, 1), (1, 1), (1, 0.9))
CORES = sorted({1, os.cpu_count()})
ROWS = [
    *[decode("tiny", "fp32", batch, 3) for batch in (1, 8, 32, 128)],
    *[decode("0.6b", "bf16", batch, least) for batch, least in ((1, 3), (8, 3), (32, 5))],
    *[decode("0.6b", "fp32", batch, 1) for batch in (1, 8)],
    *[decode("tiny", "fp32", batch, least, "llama.cpp")
      for batch, least in ((1, 1), (8, 2), (32, 3), (128, 3))],
    *[decode("tiny", "fp32", batch, least, "llama.cpp", "bf16")
      for batch, least in ((1, 1), (8, 2), (32, 3), (128, 3))],
    *[decode("0.6b", "bf16", batch, least, "llama.cpp")
      for batch, least in ((1, 1), (8, 2), (32, 2))],
    *[prefill("tiny", "fp32", 32, 1, peer) for peer in ("transformers", "llama.cpp")],
    *[prefill("0.6b", "bf16", 8, 1, peer) for peer in ("transformers", "llama.cpp")],
    step("GRPO step, tiny fp32, 64 x (64+64) tokens: s", "median", "step_s", FASTER, 3),
    step("its reference pass: s", "median", "reference_s", FASTER, 1),
    step("its peak resident memory: MiB", "median", "peak_rss_mib", SMALLER, 0.5),
    step("its update alone: s", "median", "update_s", FASTER, 1, "torch"),
    step("GRPO step, tiny fp32, 64 x (256+64) tokens: s", "median", "step_s", FASTER, 4,
         work="long"),
    step("its reference pass: s", "median", "reference_s", FASTER, 1, work="long"),
    step("GRPO step, 60m fp32, 64 x (64+64) tokens: s", "median", "step_s", FASTER, 2.5,
         work="60m"),
    step("its reference pass: s", "median", "reference_s", FASTER, 1, work="60m"),
    step("its peak resident memory: MiB", "median", "peak_rss_mib", SMALLER, 0.5,
         work="60m"),
    step("process start to first step done: s", "first", "at_s", SMALLER, 0.4),
    ("process start to first sampled token: s", {"event": "first token", "part": "start"},
     None, "at_s", LIMIT, 0.8),
    ("rollout, 1 search of 64 takes 1 s, the others done: s",
     {"what": "waiting", "waits": 1}, None, "others_s", LIMIT, 0.5),
    *[apart("fp32", t, p, "diff_max", 1e-4) for t, p in SAMPLINGS],
    *[apart("fp32", t, p, "diff_mean", 1e-6) for t, p in SAMPLINGS],
    *[apart("bf16", t, p, "diff_mean", 0.02) for t, p in SAMPLINGS],
    ("POST /retrieve, SQuAD, 64 connections; FastAPI's constant: requests/s",
     {"what": "server", "who": "ours"}, {"what": "server", "who": "fastapi"},
     "requests_s", FASTER, 3),
    ("the same searches without HTTP; over HTTP: queries/s",
     {"what": "in-process", "who": "ours"}, {"what": "server", "who": "ours"},
     "requests_s", FASTER, 1),
    search("queries/s against bm25s", "ask", "queries_s", FASTER, 5, "bm25s"),
    search("queries/s against FTS5", "ask", "queries_s", FASTER, 20, "fts5"),
    search("build against bm25s: s", "build", "build_s", FASTER, 1, "bm25s"),
    search("build against FTS5: s", "build", "build_s", FASTER, 1, "fts5"),
    search("build: MB of text a minute", "build", "mb_min", LEAST, 300),
    search("postings, norms, dictionary: share of the text", "build", "text_share", LIMIT,
           0.2),
    search("stored documents over zstd -3", "build", "stored_ratio", LIMIT, 1.05),
    search("open the index: ms", "build", "open_ms", LIMIT, 10),
    search("99th percentile of a query: us", "ask", "p99_us", LIMIT, 5000),
    *[dense(dtype, n) for dtype in ("fp32", "fp16", "int8") for n in CORES],
    *[product(peer, n) for peer in ("numpy", "torch") for n in CORES],
    *[encoder(texts, batch) for texts in ("documents", "questions") for batch in (32, 1)],
]


def list_matching(lines, which):
    return [line for line in lines
            if all(line.get(key) == value for key, value in which.items())]


def share_of_limit(lines, which, field):
    """The time that the machine's limits allow, as a share of ours, at the median; above 1
    where weights stay in a cache. None of figures without a limit, or without limits of
    the same run."""
    limits = [line for line in lines if line.get("what") == "limits"]
    found = list_matching(lines, which)
    if limits and found and f"{field}_flop" in found[0]:
        least = found[0][f"{field}_flop"] / product_rate(limits, found[0]["dtype"])
        return least / pick(lines, which, field)[0]
    found = [line for line in found if line.get("step_bytes")]
    if limits and found and field in ("decode_tok_s", "prefill_tok_s"):
        return seconds_of_token(limits, found[0], field) * pick(lines, which, field)[0]
    return None


def product_rate(limits, dtype):
    return max(limit[f"{dtype}_gflop_s"] for limit in limits) * 1e9


def seconds_of_token(limits, line, field):
    """Seconds of a token: of a decode step the longer of reading its weights once from
    huge pages and of its arithmetic without attention; of a prefill the arithmetic."""
    numbers = line["step_bytes"] / (2 if line["dtype"] == "bf16" else 4)
    rate = product_rate(limits, line["dtype"])
    if field == "prefill_tok_s":
        return (2 * (numbers - line["head_params"]) +
                2 * line["head_params"] / line["prompt"]) / rate
    read = line["step_bytes"] / max(limit["read_huge_gb_s"] for limit in limits) / 1e9
    return max(read, line["batch"] * 2 * numbers / rate) / line["batch"]


def is_rate(field):
    return field.endswith(("tok_s", "queries_s", "requests_s", "texts_s"))


def list_figures(lines, which, field):
    return [line[field] for line in list_matching(lines, which) if field in line]


def pick(lines, which, field):
    """(median, busiest machine) of the lines that agree with which; None without any."""
    found = list_figures(lines, which, field)
    if not found:
        return None, 0.0
    return statistics.median(found), max(list_figures(lines, which, "others_cores"))


def spread_of(lines, which, field):
    """What lies between the turns, as a share of their median: a mark where it is wide."""
    found = list_figures(lines, which, field)
    if len(found) < 2:
        return "one turn"
    spread = (max(found) - min(found)) / (statistics.median(found) or 1)
    return f"{spread:.0%}{' WIDE' if spread > WIDE else ''}"


def pick_peer(lines, which, field):
    """The same for a peer, in the environment that serves it better, and its name."""
    found = {omp: pick([line for line in lines if line.get("omp") == omp], which, field)
             for omp in ("default", "passive", None)}
    found = {omp: at for omp, at in found.items() if at[0] is not None}
    if not found:
        return None, 0.0, ""
    best = (max if is_rate(field) else min)(found, key=lambda omp: found[omp][0])
    return *found[best], best or ""


def judge(kind, field, ours, peer, limit):
    """(ratio, whether it is within the limit)."""
    if kind in (LIMIT, LEAST):
        return None, ours <= limit if kind == LIMIT else ours >= limit
    if kind == SMALLER:
        return ours / peer, ours / peer <= limit
    ratio = ours / peer if is_rate(field) else peer / ours
    return ratio, ratio >= limit


def main(path):
    with open(path, encoding="utf-8") as results:
        lines = [json.loads(line) for line in results]
    count = {"passed": 0, "failed": 0, "skipped": 0}
    print(f"{'figure':66} {'ours':>10} {'peer':>10} {'its OMP':>8} {'ratio':>7} {'limit':>7}"
          "  others   share   spread")
    for title, which, theirs, field, kind, limit in ROWS:
        ours, busy = pick(lines, which, field)
        peer, their_busy, omp = pick_peer(lines, theirs, field) if theirs else (None, 0.0, "")
        if ours is None or (theirs and peer is None):
            count["skipped"] += 1
            if ours is not None:
                print(f"{title:66} {ours:10.4g} {'-':>10}")
            continue
        ratio, good = judge(kind, field, ours, peer, limit)
        share = share_of_limit(lines, which, field)
        count["passed" if good else "failed"] += 1
        print(f"{title:66} {ours:10.4g} {'' if peer is None else f'{peer:10.4g}':>10} "
              f"{omp:>8} {'' if ratio is None else f'{ratio:.2f}':>7} {limit:>7g}  "
              f"{max(busy, their_busy):4.1f} {'' if share is None else f'{share:.0%}':>7} "
              f"{spread_of(lines, which, field):>8}{'' if good else '  MISSED'}")
    print("its OMP: OMP_WAIT_POLICY that served the peer better, its own default or passive")
    print("others: cores that other processes took meanwhile, at the worst")
    print("share: of what the machine's limits allow, from the lines \"limits\" of the run")
    print(f"spread: between our turns (BENCH_REPS); WIDE above {WIDE:.0%}: take more turns")
    print(", ".join(f"{n} {name}" for name, n in count.items()))
    return count["failed"]


sys.exit(1 if main(sys.argv[1]) else 0)
