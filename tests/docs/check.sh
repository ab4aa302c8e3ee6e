#!/bin/sh
# check.sh [--set] DOC_TABLES - the pages say what the sources say.
#
# A table between "<!-- doc_tables NAME -->" and "<!-- end -->" is what that command prints, and
# lines between "<!-- printed_by SCRIPT -->" and "<!-- end -->" are what that script prints
# (--set writes them anew); every metric has its line in docs/formats.md; links, their anchors
# and the names and paths of files in backquotes lead somewhere; messages that
# docs/troubleshooting.md shows are in the sources; THIRD_PARTY.md names every library that the
# build looks for; README.md lists every page, and each begins with five sentences.
here=$PWD
. "$(dirname "$0")/../lint/common.sh"

set_mode=no
if [ "${1:-}" = --set ]; then
    set_mode=yes
    shift
fi
doc_tables=${1:?usage: check.sh [--set] DOC_TABLES}
case $doc_tables in /*) ;; *) doc_tables=$here/$doc_tables ;; esac
work=$(mktemp -d) || exit 2
trap 'rm -rf "$findings" "$work"' EXIT
pages="README.md CONTRIBUTING.md SECURITY.md THIRD_PARTY.md $(find docs -name '*.md' | sort)"

# The page with every table printed anew.
renewed() {
    while IFS= read -r line; do
        case $line in
        "<!-- doc_tables "*)
            name=${line#<!-- doc_tables }
            printf '%s\n' "$line"
            "$doc_tables" "${name% -->}" || echo "cannot print ${name% -->}"
            while IFS= read -r line && [ "$line" != "<!-- end -->" ]; do :; done
            ;;
        "<!-- printed_by tests/"*)
            script=${line#<!-- printed_by }
            printf '%s\n' "$line"
            "${script% -->}" || echo "cannot run ${script% -->}"
            while IFS= read -r line && [ "$line" != "<!-- end -->" ]; do :; done
            ;;
        esac
        printf '%s\n' "$line"
    done <"$1"
}

for page in $(grep -lE '^<!-- (doc_tables|printed_by) ' $pages); do
    renewed "$page" >"$work/page"
    if [ $set_mode = yes ]; then
        cat "$work/page" >"$page"
    else
        diff "$page" "$work/page" | grep '^[<>]' |
            report "$page differs from its source (tests/docs/check.sh --set)"
    fi
done
[ $set_mode = no ] || exit 0
[ "$(cat docs/*.md | grep -c '^<!-- doc_tables ')" -ge 2 ] ||
    echo "the tables of docs/ are gone" | report docs

sed -n 's/^METRIC("\([^"]*\)".*/\1/p' lib/train/metrics.def >"$work/metrics"
[ -s "$work/metrics" ] || echo "no metrics found" | report lib/train/metrics.def
while read -r name; do
    grep -qF "\`$name\`" docs/formats.md || echo "$name"
done <"$work/metrics" | report "docs/formats.md lacks the metric"

sed -n 's/^ALARM(\([a-z_]*\),.*/\1/p' lib/config/alarms.def >"$work/alarms"
[ -s "$work/alarms" ] || echo "no alarms found" | report lib/config/alarms.def
while read -r name; do
    grep -qF "\`health/alarm_$name\`" docs/formats.md || echo "$name"
done <"$work/alarms" | report "docs/formats.md lacks the alarm"

for script in tests/*/run; do
    suite=$(basename "${script%/run}")
    grep -q "^| \`$suite\` |" docs/testing.md || echo "$suite"
done | report "docs/testing.md lacks the suite"

# Links to files of the project, from the folder of the page, and to headings in them.
anchors() {
    sed -n 's/^##* //p' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}
for page in $pages; do
    grep -o '](\([^)]*\))' "$page" | sed 's/^](//; s/)$//' | grep -vE '^https?:' |
        while read -r link; do
        file=${link%%#*}
        file=${file:+$(dirname "$page")/$file}
        file=${file:-$page}
        [ -e "$file" ] || echo "$page: $link"
        case $link in
        *.md#* | '#'*) anchors "$file" | grep -qxF -e "${link#*#}" || echo "$page: $link" ;;
        esac
    done
done | report "link leads nowhere"
for page in docs/*.md; do
    grep -qF "]($page)" README.md || echo "$page"
done | report "README.md does not list the page"

# Libraries that the build looks for, but for those of the C library.
find lib -name meson.build | LC_ALL=C sort | xargs sed -nE "s/.*(dependency|find_library)\('([^']*)'.*/\2/p" \
    meson.build | sort -u | grep -vxE 'threads|m|dl|openmp' >"$work/linked"
[ -s "$work/linked" ] || echo "no libraries found" | report meson.build
while read -r name; do
    grep -qF "\`$name\`" THIRD_PARTY.md || echo "$name"
done <"$work/linked" | report "THIRD_PARTY.md lacks the library"

# A page begins with what it is about, what for, and where to begin: five sentences.
for page in $pages; do
    count=$(awk 'NR == 1 { next } NF { seen = 1; printf "%s ", $0; next } seen { exit }' "$page" |
        grep -oE '[.?](\*\*)? ' | grep -c .)
    [ "$count" -ge 5 ] || echo "$page: $count"
done | report "begins with fewer than five sentences"

# What docs/troubleshooting.md shows of messages is in them; literals that follow each other
# are one text.
find lib tools -name '*.c' -o -name '*.cpp' -o -name '*.def' | LC_ALL=C sort | xargs cat |
    tr '\n' ' ' | sed 's/" *"//g' >"$work/literals"
awk -F'|' '/^\| /{ print $2 }' docs/troubleshooting.md | grep -o '`[^`]*`' | tr -d '`' |
    while IFS= read -r text; do
    grep -qF -e "$text" "$work/literals" || echo "$text"
done | report "docs/troubleshooting.md: no message has this text"

# Files named in backquotes, where the name has no pattern in it.
for page in $pages; do
    grep -oE '`(lib|include|tools|tests|examples|docs|bindings)/[A-Za-z0-9_./-]+`' "$page" |
        tr -d '`' | sort -u | while read -r path; do
        [ -e "$path" ] || echo "$page: $path"
    done
done | report "no such file"

# Names of tests, keys and functions in backquotes: words with two underlines or more.
words='[a-z][a-z0-9]*(_[a-z0-9]+){2,}'
grep -rohwE "$words" lib include tests tools bindings examples --include='*.[ch]' \
    --include='*.cpp' --include='*.def' --include='*.sh' --include='*.awk' --include='*.py' \
    --include=run --include=meson.build | LC_ALL=C sort -u >"$work/words"
for page in $pages; do
    grep -oE "\`$words\`" "$page" | tr -d '`' | LC_ALL=C sort -u |
        LC_ALL=C comm -23 - "$work/words" | sed "s|^|$page: |"
done | report "no such name"
verdict
