#!/bin/sh
# The files of a module below call one another in one direction: none reaches itself again
# through the functions of others.
. "$(dirname "$0")/common.sh"

# A function is defined where its name stands in the first column's declaration of a .c
# file; wherever else the name stands it is used.
# shellcheck disable=SC2046
for module in train policy; do
    stripped $(c_files "lib/$module" | grep '\.c$') | awk '
        function visit(file, path,    n, i, next_file, names) {
            if (state[file] == "done")
                return
            if (state[file] == "open") {
                sub(".*" file " -> ", file " -> ", path)
                if (!(path in told))
                    print path
                told[path] = 1
                return
            }
            state[file] = "open"
            n = split(calls[file], names, " ")
            for (i = 1; i <= n; i++)
                visit(names[i], path " -> " names[i])
            state[file] = "done"
        }
        {
            at = index($0, ":")
            file = substr($0, 1, at - 1)
            code = substr($0, at + 1)
            sub(/^[0-9]+:/, "", code)
            sub(/^.*\//, "", file)
            if (code ~ /^[a-z]/ && code !~ /^static/ && match(code, /sr1_[a-z0-9_]+\(/))
                home[substr(code, RSTART, RLENGTH - 1)] = file
            while (match(code, /sr1_[a-z0-9_]+/)) {
                used[file, ++count[file]] = substr(code, RSTART, RLENGTH)
                code = substr(code, RSTART + RLENGTH)
            }
        }
        END {
            for (file in count) {
                for (i = 1; i <= count[file]; i++) {
                    to = home[used[file, i]]
                    if (to != "" && to != file && !((file, to) in edge)) {
                        edge[file, to] = 1
                        calls[file] = calls[file] " " to
                    }
                }
            }
            for (file in count)
                visit(file, file)
        }' | sort | report "files of lib/$module call in a circle"
done
verdict
