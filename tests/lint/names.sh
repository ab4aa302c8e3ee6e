#!/bin/sh
# No path of somebody's machine in any file of the project; and a comment in lib, include
# or tools names only files that exist.
. "$(dirname "$0")/common.sh"

named=$(mktemp) || exit 2
trap 'rm -f "$findings" "$named"' EXIT
project_files | grep -vE '\.(bin|png|gz|zst|safetensors|bm25|npz|pyc)$' |
    tr '\n' '\0' | xargs -0 grep -nIE '(^|[^A-Za-z0-9_.}-])/(root|work|home/[a-z]+)/' |
    cut -c 1-160 | report "path of one machine"

# shellcheck disable=SC2046
awk '
    FNR == 1 { open = 0 }
    {
        comment = open ? $0 : ""
        if (match($0, /\/\*.*/))
            comment = substr($0, RSTART)
        open = $0 ~ /\*\// && $0 !~ /\/\*[^\/]*$/ ? 0 : open || $0 ~ /\/\*/
        while (match(comment, /[a-zA-Z0-9_-]+\.[ch][^a-zA-Z0-9_.(\/]/)) {
            print substr(comment, RSTART, RLENGTH - 1) " " FILENAME ":" FNR
            comment = substr(comment, RSTART + RLENGTH)
        }
    }' $(c_files lib include tools) /dev/null | LC_ALL=C sort >"$named"
project_files | sed 's|.*/||' | LC_ALL=C sort -u | LC_ALL=C join -v 1 "$named" - |
    grep -vE '^(unistd|string|stdio)\.h ' | report "no such file"
verdict
