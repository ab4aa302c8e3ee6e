#!/bin/sh
# A module includes only itself and modules above it in the lists of lib/meson.build, and the
# modules of a folder stand together there. Torch's own headers stay within the C++ of
# lib/tensor/torch, lib/retrieval/faiss and lib/tensor/cuda. Tools and examples stand on the public
# headers only.
. "$(dirname "$0")/common.sh"

order=$(sed -n "s/^ *foreach m : \[\(.*\)\].*/\1/p" lib/meson.build | tr -d "',")
[ -n "$order" ] || echo "no module list found" | report lib/meson.build

echo "$order" | tr -s ' \n' '\n\n' | sed 's|/.*||' | grep . | uniq | sort | uniq -d |
    sed 's|$|: its modules stand apart in lib/meson.build|' | report folders

# shellcheck disable=SC2046
grep -nE '^[[:space:]]*#[[:space:]]*include' $(c_files lib) /dev/null |
    awk -F: -v order="$order" '
    # The module of a path below lib: its folder, or the room where that is one module.
    function module_of(path, n,    part) {
        n = split(path, part, "/")
        if (n > 2 && (part[1] "/" part[2]) in rank)
            return part[1] "/" part[2]
        return part[1]
    }
    BEGIN {
        count = split(order, names, /[ \n]+/)
        for (i = 1; i <= count; i++)
            rank[names[i]] = i
    }
    {
        module = module_of(substr($1, 5))
        target = $3
        sub(/^[^"<]*["<]/, "", target)
        sub(/[">].*/, "", target)
        from = module_of(target)
        if ($3 ~ /"/ && target ~ /\// && !(from in rank))
            print $1 ":" $2 ": no module " from " in lib/meson.build"
        else if ($3 ~ /"/ && target ~ /\// && (module in rank) && rank[from] > rank[module])
            print $1 ":" $2 ": " module " stands above " from " and may not include it"
        if (target ~ /^(ATen|c10|torch|faiss|cuda)/ && $3 ~ /</ &&
            module !~ /^(tensor\/torch|retrieval\/faiss|tensor\/cuda)$/)
            print $1 ":" $2 ": only lib/tensor/torch, lib/retrieval/faiss and lib/tensor/cuda include <" target ">"
    }' | report include-order

modules=$(echo "$order" | tr -s ' \n' '||' | sed 's/^|//; s/|$//')
# shellcheck disable=SC2046
grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*\"($modules)/" \
    $(c_files tools examples | grep -v '^tools/dev/') /dev/null |
    sed 's/$/   (only <searchr1\/...> and own headers here)/' | report public-only
verdict
