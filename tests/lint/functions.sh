#!/bin/sh
# A backtrace, a profile and grep name functions without their file: of the functions of lib
# and tools at most 1 % may be one bare word, and at most 4 % may share their name with
# another. No two files of lib have one name, and no two files define one struct tag
# differently.
. "$(dirname "$0")/common.sh"

# FILE:NAME of every function that is defined: a line at the margin with "name(", and "{" alone.
functions() {
    # shellcheck disable=SC2046
    awk '
    FNR == 1 { name = "" }
    /^[A-Za-z_]/ && !/^(typedef|extern|struct [a-z_0-9]+ \{|enum|union)/ && /\(/ && !/;[ \t]*$/ {
        name = $0
        sub(/\(.*/, "", name)
        sub(/.*[ *]/, "", name)
    }
    /^\{/ && name != "" { print FILENAME ":" name; name = "" }
    /^}/ || /;[ \t]*$/ { name = "" }' $(c_files lib tools | grep '\.c$') /dev/null
}

share() {
    awk -v part="$1" -v all="$2" -v most="$3" -v what="$4" 'BEGIN {
        if (all == 0 || part * 100 > all * most)
            printf "%d of %d functions (%.1f %%; at most %s %%): %s\n",
                part, all, all ? part * 100 / all : 0, most, what }'
}

list=$(functions)
all=$(echo "$list" | grep -c .)
bare=$(echo "$list" | grep -E ':[a-z0-9]+$' | grep -v ':main$')
shared=$(echo "$list" | sed 's/.*://' | sort | uniq -c | awk '$1 > 1 { print $2 }' | sort)
n_bare=$(echo "$bare" | grep -c .)
n_shared=$(echo "$list" | awk -F: -v names="$shared" '
    BEGIN { n = split(names, a, /[ \n]+/); for (i = 1; i <= n; i++) is[a[i]] = 1 }
    $2 in is && $2 != "main" { c++ } END { print c + 0 }')
[ -z "${1:-}" ] || { echo "$bare"; echo "$list" | awk -F: -v names="$shared" '
    BEGIN { n = split(names, a, /[ \n]+/); for (i = 1; i <= n; i++) is[a[i]] = 1 }
    $2 in is { print $2 "\t" $1 }' | sort; }
share "$n_bare" "$all" 1 "one bare word; name them by verb and object" | report names
share "$n_shared" "$all" 4 "share a name with another" | report names

c_files lib | sed 's|.*/||' | sort | uniq -d | report "more than one file of lib is called"
# shellcheck disable=SC2046
grep -nE '^struct [a-z_0-9]+ \{' $(c_files lib) | sed 's/:[0-9]*:struct / /; s/ {.*//' | sort -u |
    awk '{ n[$2]++; where[$2] = where[$2] " " $1 } END { for (t in n) if (n[t] > 1) print "struct " t ":" where[t] }' |
    sort | report "a struct tag is defined more than once"
verdict
