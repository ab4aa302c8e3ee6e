#!/bin/sh
# The calls of run_step are the sentence that docs/architecture.md gives for them.
. "$(dirname "$0")/common.sh"

calls=$(sed -n '/^static sr1_status run_step(/,/^}/p' lib/train/step.c |
    grep -o 'sr1__[a-z_]*(' | sed 's/^sr1__//; s/($//')
words=$(awk '/^    sync_policy -> / { on = 1 } on && !/^    / { exit } on' \
    docs/architecture.md | tr -s ' \n>-' '\n\n\n\n' | grep .)
[ -n "$calls" ] && [ "$calls" = "$words" ] ||
    printf '%s\n' "run_step calls" $calls "and docs/architecture.md says" $words |
    report "the step is another sentence"
verdict
