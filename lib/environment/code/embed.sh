#!/bin/sh
# Write C source that holds scripts, NUL-terminated: driver.py as sr1__driver_py, and
# wire.py with answer.py below it (wire.py+answer.py) as sr1__answer_py.
# Usage: embed.sh FOLDER FILE.py[+FILE.py] ...
set -eu
cd "$1"
shift

echo '/* Made by embed.sh. */'
echo '#include "environment/code/scripts.h"'
for files in "$@"; do
    echo "const char sr1__$(basename "${files##*+}" .py)_py[] = {"
    # shellcheck disable=SC2046
    cat $(echo "$files" | tr + ' ') | od -An -v -tx1 | sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g'
    echo '0};'
done
