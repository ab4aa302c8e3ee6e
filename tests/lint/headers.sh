#!/bin/sh
# Every header compiles alone: public ones as C11 and C++17, internal ones as C11.
. "$(dirname "$0")/common.sh"

# compile LANGUAGE STANDARD HEADER FLAG...
compile() {
    language=$1 standard=$2 header=$3
    shift 3
    printf '#include <%s>\n' "$header" |
        ${CC:-cc} -x "$language" -std="$standard" -pedantic -Wall -Wextra -Werror \
            -fsyntax-only "$@" - 2>&1 | report "$header as $standard"
}

for h in $(c_files include); do
    compile c c11 "${h#include/}" -Iinclude
    compile c++ c++17 "${h#include/}" -Iinclude
done
for h in $(c_files lib | grep '\.h$' | grep -v '_tables\{0,1\}\.h$'); do
    compile c c11 "${h#lib/}" -Iinclude -Ilib -D_GNU_SOURCE
done
verdict
