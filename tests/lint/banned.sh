#!/bin/sh
# Functions that lib/ does not call: the library never prints, exits or aborts; memory comes
# from base/mem.h; calls that overflow, hide errors or share hidden state have better forms.
. "$(dirname "$0")/common.sh"

code=$(mktemp) || exit 2
trap 'rm -f "$findings" "$code"' EXIT
# shellcheck disable=SC2046
stripped $(c_files lib include) >"$code"

# ban RULE NAMES [EXCEPT]: calls of the functions, but not members (x->free) or longer names.
ban() {
    grep -E "(^|[^A-Za-z0-9_>.])($2)[[:space:]]*\(" "$code" |
        grep -vE "^(${3:-none}):" | report "$1"
}

ban "the library never prints" 'printf|vprintf|puts|putchar|perror'
grep -E '\b(stdout|stderr)\b' "$code" | report "the library never prints"
grep -E 'std::(cout|cerr|clog)\b' "$code" | report "the library never prints"
ban "the library never exits" 'exit|_exit|_Exit|quick_exit|abort|assert|err|errx'
ban "memory comes from base/mem.h" \
    'malloc|calloc|realloc|reallocarray|free|strdup|strndup|asprintf|vasprintf|getline' \
    'lib/base/mem.c'
ban "unbounded or error-hiding" \
    'sprintf|vsprintf|strcpy|strcat|strncpy|strncat|gets|atoi|atol|atoll|atof|alloca|scanf|sscanf'
ban "hidden shared state" \
    'strtok|rand|srand|random|srandom|drand48|localtime|gmtime|asctime|ctime|strerror|tmpnam|setlocale'
ban "starts a shell" 'system|popen'
verdict
