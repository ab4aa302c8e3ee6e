# common.sh - sourced by the lints: the source root as working folder, lists of files, and
# one way to report.
set -u
lint_dir=$(cd "$(dirname "$0")/../lint" && pwd)
cd "${SR1_SRC:-$lint_dir/../..}" || exit 2
export LC_ALL=C.UTF-8
findings=$(mktemp) || exit 2
trap 'rm -f "$findings"' EXIT

# c_files FOLDER...: the C and C++ files below those of the folders that exist.
c_files() {
    for folder; do
        [ -d "$folder" ] && find "$folder" -type f \
            \( -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.def' \)
    done | sort
}

# stripped FILE...: their code as FILE:LINE:CODE (see strip.awk).
stripped() {
    awk -f "$lint_dir/strip.awk" "$@" /dev/null
}

# project_files: every file of the project, built and generated ones left out.
project_files() {
    find . \( -path './.git' -o -path './build*' -o -path './runs' -o -path './.venv' \
        -o -path './.cache' -o -name __pycache__ \) -prune -o -type f -print | sort
}

# report RULE: prefix each line of standard input with the rule and keep it.
report() {
    sed "s|^|$1: |" >>"$findings"
}

# The last command of a lint.
verdict() {
    cat "$findings"
    [ ! -s "$findings" ]
}
