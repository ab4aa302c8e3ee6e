#!/bin/sh
# Every C file is as clang-format 14 with .clang-format writes it (other versions differ, so
# without that one the lint is skipped). Generated tables are left alone.
. "$(dirname "$0")/common.sh"

format=
for name in clang-format-14 clang-format; do
    $name --version 2>/dev/null | grep -q 'version 14\.' && format=$name && break
done
[ -n "$format" ] || { echo "clang-format 14 is not installed"; exit 77; }
[ -f .clang-format ] || exit 77

c_files include lib tools examples tests | grep -vE '\.def$|_tables?\.h$|^tests/fixtures/' |
    xargs "$format" --dry-run -Werror 2>&1 |
    sed -n 's/^\([^:]*:[0-9]*\):.*/\1/p' | sort -u | report "$format would write it otherwise"
verdict
