#!/bin/sh
# Write C source that holds each named script, NUL-terminated: driver.py as
# sr1__driver_py. Usage: embed.sh FILE.py ...
set -eu

echo '/* Made by embed.sh. */'
echo '#include "code/scripts.h"'
for file in "$@"; do
    echo "const char sr1__$(basename "$file" .py)_py[] = {"
    od -An -v -tx1 "$file" | sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g'
    echo '0};'
done
