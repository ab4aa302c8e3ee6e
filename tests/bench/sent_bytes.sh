#!/bin/sh
# sent_bytes.sh BUILD [RANKS] - the bytes that a rank sends in an update, counted by a
# loopback interface of its own (a network namespace: root), beside those of the formulas in
# docs/scale.md. The tiny model in bf16 with 8 micro-batches for each rank; what the benchmark
# itself sums up after each update is taken off. Status 77: no namespace.
set -u
build=$(cd "${1:?sent_bytes.sh: which build?}" && pwd) || exit 2
ranks=${2:-2}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
unshare -n true 2>/dev/null || { echo "no network namespace"; exit 77; }
"$build/tests/bench/bench-model" "$work/model" tiny bf16 || exit 1

# sent UPDATES KEY=VALUE... - bytes that all ranks sent.
sent() {
    # shellcheck disable=SC2016
    unshare -n sh -c 'ip link set lo up && "$@" >/dev/null && awk "/lo:/ { print \$10 }" /proc/net/dev' \
        sent "$build/tests/bench/bench-ranks" "$work/model" "$ranks" $((8 * ranks)) 8 56 "$@"
}

# of NAME EXCHANGES_A_STEP EXCHANGES_A_MICRO_BATCH KEY=VALUE... - in bytes a parameter.
of() {
    name=$1 step=$2 micro=$3
    shift 3
    few=$(sent 1 dtype=bf16 micro_batch_tokens=64 update_times=1 "$@") || exit 1
    more=$(sent 3 dtype=bf16 micro_batch_tokens=64 update_times=1 "$@") || exit 1
    python3 - "$work/model/model.safetensors" "$ranks" "$name" "$step" "$micro" $(((more - few) / 2)) <<'END'
import json, struct, sys
from math import prod
path, ranks, name, step, micro, sent = sys.argv[1:]
with open(path, "rb") as f:
    shapes = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
p = sum(prod(t["shape"]) for n, t in shapes.items() if n != "__metadata__")
n = int(ranks)
own = int(sent) / n - 8 * p * (n - 1) / n  # the benchmark's own sum
said = (int(step) + 8 * int(micro)) * p * (n - 1) / n
print(f"{name}: {own / 1e6:.2f} MB, by the formula {said / 1e6:.2f} MB: {own / said:.3f}")
END
}

of "whole" 8 0
of "ZeRO-1" 6 0 fsdp_size=-1 use_no_sync_for_gradient_accumulation=true
of "ZeRO-2" 2 2 fsdp_size=-1
of "ZeRO-3" 0 6 fsdp_size=-1 reshard_after_forward=true
