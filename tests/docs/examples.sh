#!/bin/sh
# examples.sh LIBRARY - the C examples in README.md and searchr1/searchr1.h compile, without
# a warning, and link.
library=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
. "$(dirname "$0")/../lint/common.sh"

work=$(mktemp -d) || exit 2
trap 'rm -rf "$findings" "$work"' EXIT

# The indented block of the header's first comment, from its #include to its last brace.
awk '/^ \*     #include/ { on = 1 }
     on && /^ \* [^ ]/ { exit }
     on { sub(/^ \*( {5})?/, ""); print }' include/searchr1/searchr1.h >"$work/header.c"
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md >"$work/readme.c"

for name in header readme; do
    grep -q 'int main' "$work/$name.c" || echo "no program found" | report "$name"
    ${CC:-cc} -std=c11 -pedantic -Wall -Wextra -Werror -Iinclude "$work/$name.c" \
        -o "$work/$name" "$library" -Wl,-rpath,"${library%/*}" \
        -Wl,--allow-shlib-undefined 2>&1 | grep -E 'error|undefined|warning' |
        report "$name"
    [ -x "$work/$name" ] || echo "does not build" | report "$name"
done
verdict
