#!/bin/sh
# run.sh [--set] TOOLS - what the tools print, to the letter.
#
# Each folder here is a case: its script `cmd` runs in a folder that all cases share, by
# the order of their names; stdout.exact, stderr.exact and status are what must come of
# it. A file that a case waits for has a name no other case uses. --set writes what came
# instead: read the diff before it is committed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
set_mode=0
[ "${1:-}" = --set ] && { set_mode=1; shift; }
tools=$(cd "${1:?run.sh: which folder holds the tools?}" && pwd) || exit 2
shift
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkdir "$work/shared"
cp "$here"/*.yaml "$here"/model.json "$here"/openai.* "$here"/signals.sh "$here"/waits.sh \
    "$work/shared"
export PATH="$tools:$PATH" LC_ALL=C.UTF-8
export SR1_SRC="${SR1_SRC:-$here/../..}"
unset OPENAI_API_KEY

# What differs from run to run or from machine to machine: times and rates, losses, lines
# of work that is under way, ports, folders.
normalise() {
    time='[0-9:s]+' speed='[0-9.]+ [A-Za-z]+\/[a-z]+'
    LC_ALL=C sed -E -e '/^[A-Za-z0-9 ]+ +[0-9]{1,2}% /d' \
        -e "s/, $speed, $time, $time left/, SPEED, TIME left/" \
        -e "s/ in $time( \($speed\))?,/ in TIME,/" \
        -e 's/^loss [0-9.]+ -> [0-9.]+/loss N -> N/; s/(loss|kl) +-?[0-9.]+/\1 N/g' \
        -e 's/^(step .*), (at most )?[0-9:]+s? left$/\1/' \
        -e 's/^(step +[0-9]+\/[0-9]+ .*[^ ]) +[0-9:.]+s?$/\1 TIME/' \
        -e "s/ steps\) in $time\$/ steps) in TIME/; s/ has [0-9.]+ [kMG]B\$/ has MEMORY/" \
        -e 's/ \([0-9.]+ [kM]B\)$/ (SIZE)/' \
        -e 's/127\.0\.0\.1:[0-9]{5}/127.0.0.1:PORT/g' \
        -e "s|$work|WORK|g" "$1"
}

failed=0
run_case() {
    name=$1
    (cd "$work/shared" && sh "$here/$name/cmd") \
        >"$work/stdout" 2>"$work/stderr" </dev/null
    echo $? >"$work/status.got"
    normalise "$work/stdout" >"$work/stdout.got"
    normalise "$work/stderr" >"$work/stderr.got"
    for part in stdout.exact:stdout.got stderr.exact:stderr.got status:status.got; do
        want=$here/$name/${part%:*} got=$work/${part#*:}
        if [ "$set_mode" = 1 ]; then
            cmp -s "$got" "$want" || cp "$got" "$want"
        elif ! cmp -s "$want" "$got"; then
            failed=$((failed + 1))
            echo "FAILED: $name: ${part%:*}"
            diff "$want" "$got"
        fi
    done
}

for cmd in "$here"/*/cmd; do
    run_case "$(basename "$(dirname "$cmd")")"
done
[ "$failed" = 0 ] && echo "ok"
[ "$failed" = 0 ]
