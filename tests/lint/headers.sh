#!/bin/sh
# Every header compiles alone: public ones as C11 and C++17, internal ones as C11.
. "$(dirname "$0")/common.sh"

# compile LANGUAGE STANDARD HEADER FLAG...
compile() {
    language=$1 standard=$2 header=$3
    shift 3
    printf '#include <%s>\n' "$header" |
        ${CC:-cc} -x "$language" -std="$standard" -pedantic -Wall -Wextra -Werror \
            -fsyntax-only "$@" - 2>&1 | grep -m 1 -E 'error' | report "$header as $standard"
}

for h in $(c_files include); do
    compile c c11 "${h#include/}" -Iinclude
    compile c++ c++17 "${h#include/}" -Iinclude
done
# Left out: generated tables, and what C++ (the shim's, CUDA's) or shim.h alone include.
for h in $(c_files lib | grep '\.h$' | grep -vE '_tables?\.h$|^lib/tensor/torch/(torch_guard|comm_guard|gloo_forward|shim_ops)\.h$|^lib/tensor/cuda/(kernels|kernel_args|nvrtc)\.h$|^lib/retrieval/faiss/(faiss_)?guard\.h$'); do
    compile c c11 "${h#lib/}" -Iinclude -Ilib -D_GNU_SOURCE
done
verdict
