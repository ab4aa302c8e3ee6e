#!/bin/sh
# Public headers: every function has a comment of its own, and comments name only what is
# declared; only types that any language can call with; each header is in the umbrella and in
# the install list.
. "$(dirname "$0")/common.sh"

headers=$(c_files include)

# shellcheck disable=SC2086
awk '
    FNR == 1 { above = open = 0 }
    /^\/\*/ { open = 1 }
    open { above = /\*\/$/; open = !above; next }
    /^SR1_API/ && !above { print FILENAME ":" FNR ": " $0 }
    { above = 0 }' $headers | report "no comment directly above"

# words FILTER...: the names that text has, each once.
words() {
    "$@" | grep -oE '\b(sr1_[a-z]|SR1_[A-Z])[A-Za-z0-9_]*' | sed 's/_$//' | sort -u
}
# shellcheck disable=SC2086
{
    words cat $headers
    words stripped $headers | sed 'p; s/^/=/'
} | awk '
    /^=/ { declared = declared "\n" substr($0, 2); next }
    { names[$0] = 1 }
    END {
        for (name in names)
            if (name !~ /^sr1_x_/ && !index(declared "\n", "\n" name "\n") &&
                !index(declared, "\n" name "_"))
                print name
    }' | report "a comment names what is not declared"

# shellcheck disable=SC2086
stripped $headers | grep -E '\b(bool|_Bool|long|short|unsigned|int|FILE|va_list|wchar_t)\b|\.\.\.' |
    report "not a type of the public interface"

for h in $headers; do
    name=${h#include/searchr1/}
    case $name in
    searchr1.h | ext/ext.h) ;;
    ext/*) grep -q "^#include <searchr1/$name>" include/searchr1/ext/ext.h ||
        echo "$h" | report "not in ext/ext.h" ;;
    *) grep -q "^#include <searchr1/$name>" include/searchr1/searchr1.h ||
        echo "$h" | report "not in searchr1.h"
        grep -n '#include <searchr1/ext/' "$h" | report "$h: the core includes an extension" ;;
    esac
    grep -q "'$name'" include/searchr1/meson.build || echo "$h" | report "not installed"
done
verdict
