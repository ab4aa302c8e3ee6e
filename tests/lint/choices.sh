#!/bin/sh
# Stages, environments, protocols, engines, losses, estimators and ways of sending weights
# are rows of tables. No code of lib compares one of them with a literal: whoever does
# something else for one asks for a column of its row, which a loop over the table finds.
. "$(dirname "$0")/common.sh"

keys='stage|environment|protocol|search_engine|loss|advantage|weight_sync_backend'

# Their values: the choices of the keys. "none" is a word of other keys too.
values=$(awk -v keys="^KEY\\\\(($keys)," '
    /^KEY\(/ { on = $0 ~ keys; literal = 0 }
    on {
        line = $0
        while (match(line, /"[^"]*"/)) {
            text = substr(line, RSTART + 1, RLENGTH - 2)
            line = substr(line, RSTART + RLENGTH)
            if (++literal > 1 && text ~ /^[a-z0-9_|-]+$/) # the first is the default
                print text
        }
    }' lib/config/config_keys.def 2>/dev/null | tr '|' '\n' | grep -vxE 'none|' | sort -u |
    paste -sd '|' -)

# A call may go on in the next line. A missing engine is no row.
# shellcheck disable=SC2046
awk -v asked="config_is\\\\([^\"]*\"($keys)\", *\"" -v gone='"search_engine", *"none"' \
    -v compared="str(case)?cmp\\\\([^\"]*\"(${values:-none})\"" '
    function look(two) {
        if ((match(two, asked) || match(two, compared)) && RSTART <= length(line) &&
            two !~ gone)
            print file ":" number ":" line
    }
    FNR == 1 { look(line); line = "" }
    { look(line " " $0); line = $0; file = FILENAME; number = FNR }
    END { look(line) }' $(c_files lib) /dev/null |
    report 'a choice is compared with a name instead of asked for a column of its row'
verdict
