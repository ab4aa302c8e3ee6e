#!/bin/sh
# The lints find what they are for: each runs on a small good tree, then on the same tree
# with one thing spoiled.
set -u
lints=$(cd "$(dirname "$0")" && pwd)
top=$(mktemp -d) || exit 2
trap 'rm -rf "$top"' EXIT
failed=0

good_tree() {
    rm -rf "$top/tree"
    mkdir -p "$top/tree/include/searchr1" "$top/tree/lib/base" "$top/tree/lib/env" \
        "$top/tree/tools"
    cd "$top/tree" || exit 2
    echo "foreach m : ['base', 'env']" >lib/meson.build
    printf '%s\n' '/* base.h - x. */' '#include <stdint.h>' '' '/* A call. */' \
        'SR1_API int32_t sr1_a(void);' | sed 's/SR1_API/__attribute__((unused)) extern/' \
        >include/searchr1/base.h
    printf '%s\n' '/* All. */' '#include <searchr1/base.h>' >include/searchr1/searchr1.h
    echo "install_headers('base.h', 'searchr1.h')" >include/searchr1/meson.build
    printf '%s\n' '/* A. printf( in a comment */' '#include "base/b.h"' \
        'const char *s = "exit(1)";' '' 'void sr1__a(void)' '{' '}' >lib/env/a.c
    printf '%s\n' '/* B. */' 'int sr1__b(void);' >lib/base/b.h
    mkdir -p lib/train lib/config docs
    printf '%s\n' '/* Keys. */' 'KEY(environment, CHOICE, "search", 0, 0, "search|rooms|none", LIVE,' \
        '    "what answers")' >lib/config/config_keys.def
    printf '%s\n' '/* B. */' 'void sr1__b(void)' '{' '    sr1__a();' '}' >lib/train/b.c
    printf '%s\n' '/* Step. */' 'static sr1_status run_step(int *x)' '{' \
        '    sr1__sync_policy(x);' '    return sr1__b(x);' '}' >lib/train/step.c
    printf '%s\n' '# A' '    sync_policy -> b' >docs/architecture.md
}

# run LINT: its exit status as "clean" or "found".
run() {
    if SR1_SRC=$top/tree sh "$lints/$1.sh" >"$top/out" 2>&1; then
        echo clean
    else
        echo found
    fi
}

# spoiled LINT FILE LINE: LINE at the end of FILE must be found.
spoiled() {
    good_tree
    [ "$(run "$1")" = clean ] || { echo "$1 finds fault with a good tree:"; cat "$top/out"; failed=1; }
    printf '%b\n' "$3" >>"$2"
    [ "$(run "$1")" = found ] || { echo "$1 does not find in $2: $3"; failed=1; }
}

spoiled includes lib/base/b.h '#include "env/a.h"'
spoiled includes lib/env/a.c '#include <ATen/core/Tensor.h>'
spoiled includes tools/t.c '#include "base/b.h"'
spoiled banned lib/env/a.c 'void f(void) { printf("x"); }'
spoiled banned lib/env/a.c 'void *f(void) { return malloc(1); }'
spoiled banned lib/env/a.c 'int f(const char *s) { return atoi(s); }'
spoiled banned lib/env/a.c 'void f(void) { abort(); } /* stop */'
spoiled layout lib/env/a.c "/* $(printf '%091d' 0) */"
spoiled layout lib/env/a.c 'int a;\t/* tab */'
spoiled layout lib/env/a.c 'int a; '
spoiled layout lib/env/a.c "$(yes 'int a;\n' | head -n 500)"
spoiled functions lib/env/a.c 'static void find(void)\n{\n}'
spoiled functions lib/env/a.c 'void sr1__a(void)\n{\n}'
spoiled layout lib/env/b.c 'int a;'
spoiled layout lib/env/b.cpp '/* C++ */'
spoiled names lib/env/a.c '/* see /home/''somebody/notes */'
spoiled public include/searchr1/base.h '/* Not above. */\n\nSR1_API int32_t sr1_b(void);'
spoiled public include/searchr1/base.h '/* As sr1_gone. */'
spoiled names lib/env/a.c '/* see gone.h */'
spoiled public include/searchr1/base.h 'typedef long sr1_count;'
spoiled public include/searchr1/new.h '/* new.h */'
spoiled choices lib/env/a.c 'int f(void) { return sr1__config_is(c, "stage",\n "sft"); }'
spoiled choices lib/env/a.c 'int f(const char *s) { return strcmp(s, "rooms") == 0; }'
spoiled circles lib/train/a.c 'void sr1__a(void) { sr1__b(); }'
spoiled sentence docs/architecture.md '          -> c'
spoiled headers include/searchr1/base.h 'extern size_t sr1_n;'
spoiled headers include/searchr1/base.h 'extern int32_t class;'
spoiled headers lib/base/b.h 'size_t sr1__c(void);'
[ $failed = 0 ]
