#!/bin/sh
# brief.sh SR1-QUICKSTART - the cut of the quick start, from end to end.
set -u
case $1 in /*) tool=$1 ;; *) tool=$PWD/$1 ;; esac
cd "${SR1_SRC:?}" || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

"$tool" --brief --seed 5 --out "$work/run" | tee "$work/said" || exit 1
python3 tests/quickstart/check.py brief "$work/run" || exit 1
grep -q "^report, for a browser: $work/run/report.html (" "$work/said" &&
    grep -q '</html>' "$work/run/report.html" || {
    echo "FAILED: there is no report of the run"
    exit 1
}

# A folder that holds anything is left alone.
mkdir -p "$work/mine/world" && echo mine >"$work/mine/world/train.jsonl"
for taken in run mine; do
    "$tool" --brief --out "$work/$taken" 2>"$work/refused" >/dev/null
    [ $? = 2 ] && grep -q "$taken is not empty" "$work/refused" || {
        echo "FAILED: a folder that is not empty was not refused:"
        cat "$work/refused"
        exit 1
    }
done
[ "$(cat "$work/mine/world/train.jsonl")" = mine ] || { echo "FAILED: a file is gone"; exit 1; }
