#!/bin/sh
# examples.sh LIBRARY - the C in README.md, docs/*.md and searchr1/searchr1.h compiles, without
# a warning, and links: programs as they are, other blocks as the body of a function.
library=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
. "$(dirname "$0")/../lint/common.sh"

work=$(mktemp -d) || exit 2
trap 'rm -rf "$findings" "$work"' EXIT

# The indented block of the header's first comment, from its #include to its last brace.
awk '/^ \*     #include/ { on = 1 }
     on && /^ \* [^ ]/ { exit }
     on { sub(/^ \*( {5})?/, ""); print }' include/searchr1/searchr1.h >"$work/header.c"
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md >"$work/readme.c"

# Blocks of the pages, PAGE-LINE.part each.
for page in docs/*.md; do
    name=$(basename "$page" .md)
    awk -v out="$work/$name" '/^```c$/ { on = out "-" NR ".part"; next } /^```$/ { on = "" }
        on { print > on }' "$page"
done

# wrap BLOCK: a program of the block, which takes what it names as there.
wrap() {
    for header in include/searchr1/*.h include/searchr1/ext/*.h; do
        echo "#include <${header#include/}>"
    done
    echo "void run_block(sr1_embedder *embedder, sr1_reranker *reranker);"
    echo "void run_block(sr1_embedder *embedder, sr1_reranker *reranker)"
    echo "{"
    echo "    (void)embedder, (void)reranker;"
    cat "$1"
    echo "}"
    echo "int main(void)"
    echo "{"
    echo "    return 0;"
    echo "}"
}

names="header readme"
for part in "$work"/*.part; do
    name=$(basename "$part" .part)
    names="$names $name"
    if grep -q 'int main' "$part"; then
        cp "$part" "$work/$name.c"
    else
        wrap "$part" >"$work/$name.c"
    fi
done

for name in $names; do
    grep -q 'int main' "$work/$name.c" || echo "no program found" | report "$name"
    ${CC:-cc} -std=c11 -pedantic -Wall -Wextra -Werror -Iinclude "$work/$name.c" \
        -o "$work/$name" "$library" -Wl,-rpath,"${library%/*}" \
        -Wl,--allow-shlib-undefined 2>&1 | grep -E 'error|undefined|warning' |
        report "$name"
    [ -x "$work/$name" ] || echo "does not build" | report "$name"
done
verdict
