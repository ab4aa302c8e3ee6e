#!/bin/sh
# A module includes only itself and modules above it in the lists of lib/meson.build. Torch's
# own headers stay within the C++ of lib/torch, lib/faiss and lib/cuda. Tools and examples
# stand on the public headers only.
. "$(dirname "$0")/common.sh"

order=$(sed -n "s/^ *foreach m : \[\(.*\)\].*/\1/p" lib/meson.build | tr -d "',")
[ -n "$order" ] || echo "no module list found" | report lib/meson.build

# shellcheck disable=SC2046
grep -nE '^[[:space:]]*#[[:space:]]*include' $(c_files lib) /dev/null |
    awk -F: -v order="$order" '
    BEGIN {
        count = split(order, names, /[ \n]+/)
        for (i = 1; i <= count; i++)
            rank[names[i]] = i
    }
    {
        split($1, path, "/")
        module = path[2]
        target = $3
        sub(/^[^"<]*["<]/, "", target)
        sub(/[">].*/, "", target)
        split(target, part, "/")
        if ($3 ~ /"/ && target ~ /\// && !(part[1] in rank))
            print $1 ":" $2 ": no module " part[1] " in lib/meson.build"
        else if ($3 ~ /"/ && target ~ /\// && (module in rank) && rank[part[1]] > rank[module])
            print $1 ":" $2 ": " module " stands above " part[1] " and may not include it"
        if (target ~ /^(ATen|c10|torch|faiss|cuda)/ && $3 ~ /</ &&
            module !~ /^(torch|faiss|cuda)$/)
            print $1 ":" $2 ": only lib/torch, lib/faiss and lib/cuda include <" target ">"
    }' | report include-order

modules=$(echo "$order" | tr -s ' \n' '||' | sed 's/^|//; s/|$//')
# shellcheck disable=SC2046
grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*\"($modules)/" \
    $(c_files tools examples | grep -v '^tools/dev/') /dev/null |
    sed 's/$/   (only <searchr1\/...> and own headers here)/' | report public-only
verdict
