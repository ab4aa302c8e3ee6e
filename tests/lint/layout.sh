#!/bin/sh
# How source files look: 90 columns, no tabs or trailing blanks, /* */ comments, a comment
# first, 1,000 lines at most (tests not counted), C++ only where it belongs.
. "$(dirname "$0")/common.sh"

files=$(c_files include lib tools examples tests)
# shellcheck disable=SC2086
{
    grep -nE '^.{91,}$' $files | cut -c 1-100 | report "longer than 90 columns"
    grep -nE '	' $files | report "tab"
    grep -nE '[[:space:]]+$' $files | report "trailing blank"
    grep -nE '^[[:space:]]*//' $files | grep -v '\.cpp:' | report "// comment"
}

for f in $files; do
    head -n 1 "$f" | grep -q '^/\*' || echo "$f" | report "does not open with a comment"
    [ -z "$(tail -c 1 "$f")" ] || echo "$f" | report "no newline at the end"
done

for f in $(c_files include lib tools examples | grep -vE '\.def$|_table\.[ch]$|_tables\.[ch]$'); do
    lines=$(wc -l <"$f")
    [ "$lines" -le 1000 ] || echo "$f: $lines" | report "more than 1,000 lines"
done

project_files | grep -E '\.(cc|cpp|cxx|hpp|hh|cu)$' |
    grep -vE '^\./(lib/(tensor/torch|retrieval/faiss|tensor/cuda)|tests)/' | report "C++ outside lib/tensor/torch, faiss, cuda"
verdict
