#!/bin/sh
# Write C source that holds each named text file, NUL-terminated, in one table.
# Usage: embed.sh FILE.txt ...
set -eu

echo '/* Made from templates/ by embed.sh. */'
echo '#include "text/data/prompt_template.h"'
i=0
for file in "$@"; do
    echo "static const unsigned char text_$i[] = {"
    od -An -v -tx1 "$file" | sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g'
    echo '0};'
    i=$((i + 1))
done
echo 'const struct sr1__builtin_template sr1__builtin_templates[] = {'
i=0
for file in "$@"; do
    echo "    {\"$(basename "$file" .txt)\", text_$i, sizeof text_$i - 1},"
    i=$((i + 1))
done
echo '};'
echo 'const size_t sr1__n_builtin_templates ='
echo '    sizeof sr1__builtin_templates / sizeof *sr1__builtin_templates;'
