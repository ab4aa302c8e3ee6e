#!/bin/sh
# Public headers: every function has a comment that says since when; only types that any
# language can call with; each header is in the umbrella and in the install list.
. "$(dirname "$0")/common.sh"

headers=$(c_files include)

# shellcheck disable=SC2086
awk '
    FNR == 1 { comment = ""; open = 0 }
    /^\/\*/ { comment = ""; open = 1 }
    open { comment = comment $0 "\n" }
    /\*\// { open = 0; next }
    open { next }
    /^SR1_API/ {
        if (comment !~ /Since[ \n*]+[0-9]/)
            print FILENAME ":" FNR ": " $0
        next
    }
    /^$/ { comment = "" }' $headers | report "no comment with 'Since' right above"

# shellcheck disable=SC2086
stripped $headers | grep -E '\b(bool|_Bool|long|short|unsigned|int|FILE|va_list|wchar_t)\b|\.\.\.' |
    report "not a type of the public interface"

for h in $headers; do
    name=${h##*/}
    [ "$name" = searchr1.h ] ||
        grep -q "^#include <searchr1/$name>" include/searchr1/searchr1.h ||
        echo "$h" | report "not in searchr1.h"
    grep -q "'$name'" include/searchr1/meson.build || echo "$h" | report "not installed"
done
verdict
