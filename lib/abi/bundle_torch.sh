#!/bin/sh
# bundle_torch.sh copy|link TORCH_DIR FOLDER - run by `meson install`: put the libraries of
# libtorch that libsearchr1.so loads into FOLDER (below the prefix where it is relative),
# in the places that they have in TORCH_DIR, since they look for each other from there.
# Those for CUDA come along where all that they need is there. link: hard links, which
# take no space and outlive TORCH_DIR; copies where the file system is another.
set -eu
how=$1 from=$2 to=$3
case $to in /*) to=${DESTDIR:-}$to ;; *) to=$MESON_INSTALL_DESTDIR_PREFIX/$to ;; esac
from=$(cd "$from" && pwd -P)

put() {
    mkdir -p "$(dirname "$to/$1")"
    rm -f "$to/$1"
    [ "$how" = link ] && ln -L "$from/$1" "$to/$1" 2>/dev/null && return
    cp -L "$from/$1" "$to/$1"
}

# The libraries below TORCH_DIR that this one loads, itself among them.
closure() {
    echo "$from/torch/lib/$1"
    ldd "$from/torch/lib/$1" | sed -n 's/.* => \(.*\) (0x.*/\1/p' |
        while read -r path; do
            path=$(cd "$(dirname "$path")" && pwd -P)/$(basename "$path")
            case $path in "$from"/*) echo "$path" ;; esac
        done
}

list=$(closure libtorch_cpu.so)
cuda=$from/torch/lib/libtorch_cuda.so
if [ -f "$cuda" ] && ! ldd "$cuda" | grep -q 'not found'; then
    list="$list
$(closure libtorch_cuda.so)
$(find "$from/torch/lib" "$from/nvidia" -name '*.so*' ! -name '*python*' ! -name 'libshm*')"
fi
echo "$list" | sort -u | while read -r path; do
    put "${path#"$from"/}"
done
find "$from" -maxdepth 4 -path '*.dist-info/*' \( -iname 'LICENSE*' -o -name NOTICE \) -type f |
    while read -r path; do
        put "${path#"$from"/}"
    done
