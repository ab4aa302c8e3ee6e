#!/bin/sh
# check.sh [--set] LIBRARY - the ABI is what was last agreed on.
#
# Compares the public headers, lib/abi/symbols-in-versions (every public name and the
# version that brought it), lib/abi/searchr1.map (the version script), the symbols that
# LIBRARY exports, and the layout of the public structs with lib/abi/layouts.
# --set writes the three files anew from the headers; read the diff before you commit it:
# names may be added and fields appended, nothing else, unless abi_version in the top
# meson.build changes too.
here=$PWD
. "$(dirname "$0")/../lint/common.sh"

set_mode=no
if [ "${1:-}" = --set ]; then
    set_mode=yes
    shift
fi
library=${1:?usage: check.sh [--set] LIBRARY}
case $library in /*) ;; *) library=$here/$library ;; esac
listed=lib/abi/symbols-in-versions
map=lib/abi/searchr1.map
layouts=lib/abi/layouts

work=$(mktemp -d) || exit 2
trap 'rm -rf "$findings" "$work"' EXIT

# shellcheck disable=SC2046
stripped $(c_files include) >"$work/headers"
ask() {
    awk -v mode="$1" -f tests/abi/names.awk "$work/headers"
}
ask names | LC_ALL=C sort -u >"$work/names"
ask functions | LC_ALL=C sort -u >"$work/functions"
# A name that the core has is the core's, wherever extensions use it too.
# shellcheck disable=SC2046
stripped $(c_files include | grep -v /ext/) |
    awk -v mode=names -f tests/abi/names.awk | LC_ALL=C sort -u >"$work/core"
LC_ALL=C comm -23 "$work/names" "$work/core" >"$work/ext"
ask layouts >"$work/layouts.c"
${CC:-cc} -std=c11 -Iinclude "$work/layouts.c" -o "$work/layouts" 2>"$work/errors" ||
    grep -m 1 error "$work/errors" | report "public structs"
[ ! -x "$work/layouts" ] || "$work/layouts" >"$work/layouts.now"
[ -s "$work/layouts.now" ] || { verdict; exit 1; }

# The version script that the list asks for: one node a version, oldest first.
wanted_map() {
    previous=
    for version in $(awk '!/^#/ { print $2 }' $listed | sort -uV); do
        echo "SR1_$version {"
        echo "    global:"
        awk -v v="$version" '!/^#/ && $2 == v { print $1 }' $listed |
            LC_ALL=C join - "$work/functions" | sed 's/.*/        &;/'
        [ -n "$previous" ] || printf '    local:\n        *;\n'
        echo "}${previous:+ SR1_$previous};"
        previous=$version
    done
}

# New names get the version that searchr1/base.h states.
write_list() {
    now=$(awk '/define SR1_VERSION_MAJOR/ { a = $3 } /define SR1_VERSION_MINOR/ { b = $3 }
               END { print a "." b }' include/searchr1/base.h)
    {
        echo "# Every public name and the version that brought it (tests/abi/check.sh --set);"
        echo "# ext: of an extension, which carries no promise yet."
        while read -r name; do
            old=$(awk -v n="$name" '$1 == n { print $2 }' $listed 2>/dev/null)
            grep -qx "$name" "$work/ext" && old="${old:-$now} ext"
            echo "$name ${old:-$now}"
        done <"$work/names"
    } >"$work/list"
    mv "$work/list" $listed
}

if [ $set_mode = yes ]; then
    write_list
    wanted_map >"$work/map"
    mv "$work/map" $map
    cp "$work/layouts.now" $layouts
    echo "written: $listed $map $layouts"
    exit 0
fi

# differ RULE WANTED FOUND
differ() {
    diff "$2" "$3" | sed -n 's/^</missing: /p; s/^>/not agreed on: /p' | report "$1"
}

awk '!/^#/ { print $1 }' $listed | LC_ALL=C sort >"$work/listed"
differ "public headers against $listed" "$work/listed" "$work/names"
wanted_map >"$work/map"
awk '!/^#/ && $3 == "ext" { print $1 }' $listed | LC_ALL=C sort >"$work/listed.ext"
differ "extensions against $listed" "$work/listed.ext" "$work/ext"
differ "$map against $listed" "$work/map" $map
differ "public structs against $layouts" $layouts "$work/layouts.now"

awk '!/^#/ { print $1, $2 }' $listed | LC_ALL=C join - "$work/functions" |
    sed 's/ /@@SR1_/' | LC_ALL=C sort >"$work/wanted"
nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | LC_ALL=C sort >"$work/exported"
differ "symbols of ${library##*/}" "$work/wanted" "$work/exported"
verdict
