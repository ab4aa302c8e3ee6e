#!/bin/sh
# gloo_headers.sh FOLDER STAMP: files with the names of Gloo's headers, which all stand for
# gloo_forward.h.
set -eu
for name in algorithm common/error context rendezvous/store transport/device; do
    mkdir -p "$1/gloo/$(dirname "$name")"
    echo '#include "tensor/torch/gloo_forward.h"' >"$1/gloo/$name.h"
done
echo '/* Gloo as c10d needs it: gloo_headers.sh */' >"$2"
