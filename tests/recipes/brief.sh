#!/bin/sh
# brief.sh NAME - the cut of a recipe, from end to end: each of its lines runs, and the
# figures, the curve and the page are there.
set -u
name=${1:?brief.sh: which recipe?}
cd "${SR1_SRC:?}" || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

tools/recipe "$name" --brief --seed 5 --out "$work/run" >"$work/said" 2>&1 || {
    tail -n 40 "$work/said"
    exit 1
}
for part in json csv html; do
    [ -s "$work/run/$name.$part" ] || { echo "FAILED: there is no $name.$part"; exit 1; }
done
python3 - "$work/run/$name.json" <<'END_PYTHON'
import json
import sys

figures = json.load(open(sys.argv[1]))
assert figures["tests"], "no test was made"
for name, test in figures["tests"].items():
    assert test["all"]["rows"] > 0, name
END_PYTHON
